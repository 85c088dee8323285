// SPDX-License-Identifier: Apache-2.0
//
// ask-mpi-random SEED OPERATIONS: random collectives on random communicators, each done twice: by MPI_...,
// which libask_pmpi.so stands before, and by PMPI_..., MPI's own. Buffers are compared byte by byte, with
// what lies around them. Values are such that no order of adding them rounds, but for some that are compared
// within a bound.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

// SplitMix64.
class Random {
 public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
    }
    std::size_t below(std::size_t n) { return next() % n; }
    bool one_in(std::size_t n) { return below(n) == 0; }
    template <typename T, std::size_t kSize>
    const T& of(const std::array<T, kSize>& all) {
        return all.at(below(kSize));
    }

 private:
    std::uint64_t state_;
};

int world_rank = 0;

[[noreturn]] void fail(const std::string& text) {
    std::fprintf(stderr, "FAIL rank %d: %s\n", world_rank, text.c_str());
    std::fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::abort();
}

void check(int code, const char* what) {
    if (code != MPI_SUCCESS) {
        fail(std::string(what) + " returned " + std::to_string(code));
    }
}

// Of many values, at a root that is not the first rank of its host: Debian's MPICH 4.0.2 crashes.
#ifdef MPICH
constexpr bool kReducesInPlace = false;
#else
constexpr bool kReducesInPlace = true;
#endif

enum class Values { kInteger, kFloat, kDouble, kComplex };

struct Type {
    const char* name;
    MPI_Datatype type;
    Values values;
    std::size_t bytes;
};

struct Op {
    const char* name;
    MPI_Op op;
    bool floats;
    bool complex;
};

using Bytes = std::vector<unsigned char>;
constexpr std::size_t kGuard = 64;

template <typename T>
void put(Bytes& to, std::size_t at, T value) {
    std::memcpy(&to[at], &value, sizeof value);
}

// A float that sums, products and comparisons of a few keep exact.
double exact_value(Random& random, bool product) {
    return product ? (random.one_in(2) ? 1 : -1) * (random.one_in(3) ? 2 : 1)
                   : static_cast<double>(static_cast<std::int64_t>(random.below(2001)) - 1000);
}

// Values of a rank, and a guard behind them.
Bytes values_of(const Type& type, std::size_t count, Random& random, bool product, bool rough) {
    Bytes out(count * type.bytes + kGuard, 0xa5);
    const std::size_t each = type.values == Values::kComplex ? type.bytes / 2 : type.bytes;
    for (std::size_t at = 0; at < count * type.bytes; at += each) {
        if (type.values == Values::kInteger) {
            // Zeros among them, for the logical operators.
            const std::uint64_t value = random.one_in(3) ? 0 : random.next();
            std::memcpy(&out[at], &value, each);
#ifdef MPICH_VERSION
            // MIN and MAX of Debian's MPICH 4.0 take unsigned values for signed ones.
            out[at + each - 1] &= 0x7f;
#endif
            continue;
        }
        const double value =
            rough ? std::ldexp(static_cast<double>(random.next()), -60) - 8 : exact_value(random, product);
        each == 4 ? put(out, at, static_cast<float>(value)) : put(out, at, value);
    }
    return out;
}

struct Comm {
    const char* name;
    MPI_Comm comm;
    int rank;
    int size;
};

Comm describe(const char* name, MPI_Comm comm) {
    Comm its{.name = name, .comm = comm, .rank = 0, .size = 0};
    check(PMPI_Comm_rank(comm, &its.rank), "MPI_Comm_rank");
    check(PMPI_Comm_size(comm, &its.size), "MPI_Comm_size");
    return its;
}

void same(const Bytes& ours, const Bytes& theirs, const std::string& what) {
    if (ours != theirs) {
        const auto at = std::mismatch(ours.begin(), ours.end(), theirs.begin()).first - ours.begin();
        fail(what + ": differs from PMPI's at byte " + std::to_string(at) + " of " +
             std::to_string(ours.size()));
    }
}

double float_at(const Bytes& from, std::size_t at, std::size_t each) {
    float narrow = 0;
    double wide = 0;
    std::memcpy(&narrow, &from[at], sizeof narrow);
    if (each == 4) {
        return static_cast<double>(narrow);
    }
    std::memcpy(&wide, &from[at], sizeof wide);
    return wide;
}

// Sums of up to 64 values below 16: within a few roundings of each other.
void near(const Bytes& ours, const Bytes& theirs, std::size_t bytes, std::size_t each,
          const std::string& what) {
    const double bound = 64 * 16 * (each == 4 ? 1e-6 : 1e-14);
    for (std::size_t at = 0; at < bytes; at += each) {
        const double difference = float_at(ours, at, each) - float_at(theirs, at, each);
        if (!(std::fabs(difference) <= bound)) {
            fail(what + ": off by " + std::to_string(difference) + " at byte " + std::to_string(at));
        }
    }
    if (!std::equal(ours.begin() + static_cast<std::ptrdiff_t>(bytes), ours.end(),
                    theirs.begin() + static_cast<std::ptrdiff_t>(bytes))) {
        fail(what + ": wrote beyond its buffer");
    }
}

// What is drawn for an operation: the same at all ranks. `own` is a rank's.
struct Draw {
    Random& all;
    Random& own;
    const Comm& comm;
};

std::size_t draw_count(Random& random) {
    constexpr std::array<std::size_t, 8> kCounts = {0, 1, 3, 17, 352, 353, 5000, 40000};
    return random.one_in(40) ? 1'300'001 : random.of(kCounts);
}

void reduction(const Draw& draw, bool to_all) {
    const std::array types = {
        Type{"signed char", MPI_SIGNED_CHAR, Values::kInteger, 1},
        Type{"short", MPI_SHORT, Values::kInteger, 2},
        Type{"int", MPI_INT, Values::kInteger, 4},
        Type{"long", MPI_LONG, Values::kInteger, sizeof(long)},
        Type{"unsigned char", MPI_UNSIGNED_CHAR, Values::kInteger, 1},
        Type{"unsigned short", MPI_UNSIGNED_SHORT, Values::kInteger, 2},
        Type{"unsigned", MPI_UNSIGNED, Values::kInteger, 4},
        Type{"uint64", MPI_UINT64_T, Values::kInteger, 8},
        Type{"float", MPI_FLOAT, Values::kFloat, 4},
        Type{"double", MPI_DOUBLE, Values::kDouble, 8},
        Type{"float complex", MPI_C_FLOAT_COMPLEX, Values::kComplex, 8},
        Type{"double complex", MPI_C_DOUBLE_COMPLEX, Values::kComplex, 16},
    };
    const std::array ops = {
        Op{"sum", MPI_SUM, true, true},     Op{"prod", MPI_PROD, true, false},
        Op{"min", MPI_MIN, true, false},    Op{"max", MPI_MAX, true, false},
        Op{"band", MPI_BAND, false, false}, Op{"bor", MPI_BOR, false, false},
        Op{"bxor", MPI_BXOR, false, false}, Op{"land", MPI_LAND, false, false},
        Op{"lor", MPI_LOR, false, false},   Op{"lxor", MPI_LXOR, false, false},
    };
    const Type& type = draw.all.of(types);
    Op op = draw.all.of(ops);
    if ((type.values != Values::kInteger && !op.floats) || (type.values == Values::kComplex && !op.complex)) {
        op = ops[0];
    }
    const Comm& comm = draw.comm;
    const std::size_t count = draw_count(draw.all);
    const bool rough = op.op == MPI_SUM && type.values != Values::kInteger && draw.all.one_in(2);
    const int root = static_cast<int>(draw.all.below(static_cast<std::size_t>(comm.size)));
    const bool in_place = draw.all.one_in(3) && (to_all || root == 0 || kReducesInPlace);
    const std::string what = std::string(to_all ? "allreduce " : "reduce ") + type.name + " " + op.name +
                             " x " + std::to_string(count) + " in " + comm.name +
                             (in_place ? ", in place" : "");
    const Bytes in = values_of(type, count, draw.own, op.op == MPI_PROD, rough);
    const Bytes in_before = in;
    const bool gets = to_all || comm.rank == root;
    Bytes ours = in_place && gets ? in : Bytes(in.size(), 0x5a);
    Bytes theirs = ours;
    const void* const from = in_place && gets ? MPI_IN_PLACE : static_cast<const void*>(in.data());
    const int number = static_cast<int>(count);
    if (to_all) {
        check(MPI_Allreduce(from, ours.data(), number, type.type, op.op, comm.comm), "MPI_Allreduce");
        check(PMPI_Allreduce(from, theirs.data(), number, type.type, op.op, comm.comm), "PMPI_Allreduce");
    } else {
        check(MPI_Reduce(from, ours.data(), number, type.type, op.op, root, comm.comm), "MPI_Reduce");
        check(PMPI_Reduce(from, theirs.data(), number, type.type, op.op, root, comm.comm), "PMPI_Reduce");
    }
    same(in, in_before, what + ": the input");
    if (rough && gets) {
        near(ours, theirs, count * type.bytes, type.values == Values::kComplex ? type.bytes / 2 : type.bytes,
             what);
    } else {
        same(ours, theirs, what);
    }
}

// Ranks may have other layouts of the same signature: ints in order, with gaps, or backwards.
MPI_Datatype layout(std::size_t which, int count) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    if (which == 0) {
        check(MPI_Type_contiguous(count, MPI_INT, &type), "MPI_Type_contiguous");
    } else if (which == 1) {
        check(MPI_Type_vector(count, 1, 2, MPI_INT, &type), "MPI_Type_vector");
    } else {
        std::vector<int> places(static_cast<std::size_t>(count));
        for (int i = 0; i < count; ++i) {
            places[static_cast<std::size_t>(i)] = count - 1 - i;
        }
        check(MPI_Type_create_indexed_block(count, 1, places.data(), MPI_INT, &type), "MPI_Type_indexed");
    }
    check(MPI_Type_commit(&type), "MPI_Type_commit");
    return type;
}

void broadcast(const Draw& draw) {
    const Comm& comm = draw.comm;
    const std::size_t count = std::max<std::size_t>(1, draw_count(draw.all));
    const int root = static_cast<int>(draw.all.below(static_cast<std::size_t>(comm.size)));
    const bool plain = draw.own.one_in(3);
    const std::string what = "bcast of " + std::to_string(count) + " ints in " + comm.name;
    MPI_Datatype type = MPI_INT;
    int number = static_cast<int>(count);
    if (!plain) {
        type = layout(draw.own.below(3), number);
        number = 1;
    }
    Bytes ours(count * 8 + kGuard);
    std::generate(ours.begin(), ours.end(), [&] { return static_cast<unsigned char>(draw.own.next()); });
    Bytes theirs = ours;
    check(MPI_Bcast(ours.data(), number, type, root, comm.comm), "MPI_Bcast");
    check(PMPI_Bcast(theirs.data(), number, type, root, comm.comm), "PMPI_Bcast");
    same(ours, theirs, what + (plain ? "" : ", derived"));
    if (!plain) {
        MPI_Type_free(&type);
    }
}

// A message that needs its sender's help until it is received, which the receiver does before it comes to the
// barrier; and a collective of MPI's own that is under way meanwhile.
void beside(const Comm& world) {
    constexpr int kInts = 2'000'000;
    std::vector<int> out(kInts, world.rank);
    std::vector<int> in(kInts, -1);
    int one = 1;
    int sum = 0;
    std::array<MPI_Request, 2> requests{};
    const int next = (world.rank + 1) % world.size;
    const int before = (world.rank + world.size - 1) % world.size;
    check(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, world.comm, &requests[1]), "MPI_Iallreduce");
    check(MPI_Isend(out.data(), kInts, MPI_INT, next, 7, world.comm, requests.data()), "MPI_Isend");
    if (world.rank % 2 == 1) {
        check(MPI_Recv(in.data(), kInts, MPI_INT, before, 7, world.comm, MPI_STATUS_IGNORE), "MPI_Recv");
        check(MPI_Wait(&requests[1], MPI_STATUS_IGNORE), "MPI_Wait");
    }
    check(MPI_Barrier(world.comm), "MPI_Barrier");
    if (world.rank % 2 == 0) {
        check(MPI_Recv(in.data(), kInts, MPI_INT, before, 7, world.comm, MPI_STATUS_IGNORE), "MPI_Recv");
    }
    check(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    if (sum != world.size || std::any_of(in.begin(), in.end(), [&](int each) { return each != before; })) {
        fail("a message or a collective beside the barrier went wrong");
    }
}

// Nothing may be hung by what MPI refuses.
void refused(const Comm& world) {
    MPI_Comm comm = MPI_COMM_NULL;
    check(MPI_Comm_dup(world.comm, &comm), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    int one = 1;
    int sum = 0;
    // Debian's MPICH looks at roots, and at no counts.
#ifdef OPEN_MPI
    if (MPI_Allreduce(&one, &sum, -1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS) {
        fail("a count below 0 has been taken");
    }
#endif
    if (MPI_Reduce(&one, &sum, 1, MPI_INT, MPI_SUM, world.size, comm) == MPI_SUCCESS ||
        MPI_Bcast(&one, 1, MPI_INT, -1, comm) == MPI_SUCCESS) {
        fail("a call that MPI refuses has succeeded");
    }
    check(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm), "MPI_Allreduce after refusals");
    if (sum != world.size) {
        fail("the sum after refusals is " + std::to_string(sum));
    }
    MPI_Comm_free(&comm);
}

void one_of(const Draw& draw) {
    const std::size_t kind = draw.all.below(10);
    if (kind < 4) {
        reduction(draw, true);
    } else if (kind < 7) {
        reduction(draw, false);
    } else if (kind < 9) {
        broadcast(draw);
    } else {
        check(MPI_Barrier(draw.comm.comm), "MPI_Barrier");
    }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    if (argc != 3) {
        fail("usage: ask-mpi-random SEED OPERATIONS");
    }
    const std::uint64_t seed = std::strtoull(argv[1], nullptr, 10);
    const std::uint64_t operations = std::strtoull(argv[2], nullptr, 10);
    const Comm world = describe("the world", MPI_COMM_WORLD);
    world_rank = world.rank;
    beside(world);
    refused(world);
    MPI_Comm dup = MPI_COMM_NULL;
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm backwards = MPI_COMM_NULL;
    check(MPI_Comm_dup(MPI_COMM_WORLD, &dup), "MPI_Comm_dup");
    check(MPI_Comm_split(MPI_COMM_WORLD, world.rank % 2, world.rank, &half), "MPI_Comm_split");
    check(MPI_Comm_split(MPI_COMM_WORLD, 0, -world.rank, &backwards), "MPI_Comm_split");
    const std::array comms = {world, describe("a copy", dup), describe("a half", half),
                              describe("the world backwards", backwards), describe("self", MPI_COMM_SELF)};
    Random all(seed);
    const auto ranks_own = static_cast<std::uint64_t>(world.rank) + 1;
    Random own(seed ^ (0x1234567U * ranks_own));
    for (std::uint64_t i = 0; i < operations; ++i) {
        const Comm& comm = comms.at(all.below(comms.size()));
        one_of({.all = all, .own = own, .comm = comm});
        if (all.one_in(25)) {
            beside(world);
        }
    }
    MPI_Comm_free(&half);
    MPI_Comm_free(&backwards);
    MPI_Comm_free(&dup);
    if (world.rank == 0) {
        std::printf("%llu operations as MPI's own\n", static_cast<unsigned long long>(operations));
    }
    MPI_Finalize();
    return 0;
}
