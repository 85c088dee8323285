// SPDX-License-Identifier: Apache-2.0
//
// A member of a group that goes on: operations drawn from a seed, several under way at a time, each result
// held against what every member computes for itself; when the group fails it shrinks with the others and
// begins again what has failed. A member that had one operation more or less than the others would show in
// the first sum.
//
// It does --operations; with --until, so many once no more than that many members are left, so that a test
// whose members die need not guess how long the others must have to go on.
//
// Prints "op NUMBER MEMBERS" as it goes and "done NUMBER MEMBERS" at the end: MEMBERS are the ranks at the
// beginning of those that are left. Ends with the error's code, or with 99 after a wrong result.
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/ask/ask.h"

namespace {

constexpr int kWrong = 99;
constexpr unsigned kMostAtOnce = 3;
constexpr std::uint64_t kNoLast = ~std::uint64_t{0};

[[noreturn]] void end(int code, const std::string& text) {
    std::fprintf(stderr, "ask-e2e-survivor: %s\n", text.c_str());
    std::exit(code);  // NOLINT(concurrency-mt-unsafe): one thread
}

std::uint64_t mix(std::uint64_t word) {
    word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    word = (word ^ (word >> 27U)) * 0x94d049bb133111ebULL;
    return word ^ (word >> 31U);
}

enum class Kind : std::uint8_t { kAllreduce, kReduce, kBroadcast, kBarrier };

// What operation a number is, the same at all members.
struct Operation {
    std::uint64_t number = 0;
    Kind kind = Kind::kAllreduce;
    int dtype = ASK_INT64;
    int op = ASK_SUM;
    std::size_t count = 0;
    std::uint64_t salt = 0;
};

Operation operation_of(std::uint64_t seed, std::uint64_t number, std::size_t most) {
    constexpr Kind kKinds[] = {Kind::kAllreduce, Kind::kAllreduce, Kind::kAllreduce,
                               Kind::kReduce,    Kind::kBroadcast, Kind::kBarrier};
    constexpr int kTypes[] = {ASK_INT64, ASK_INT32, ASK_FLOAT32, ASK_FLOAT64, ASK_UINT8};
    std::uint64_t draw = mix(seed * 0x9e3779b97f4a7c15ULL + number);
    const auto take = [&draw](std::uint64_t below) {
        draw = mix(draw + 1);
        return draw % below;
    };
    Operation operation{.number = number};
    operation.kind = kKinds[take(std::size(kKinds))];
    operation.dtype = kTypes[take(std::size(kTypes))];
    const bool floats = operation.dtype == ASK_FLOAT32 || operation.dtype == ASK_FLOAT64;
    constexpr int kOps[] = {ASK_SUM, ASK_SUM, ASK_MIN, ASK_MAX, ASK_BAND, ASK_BOR, ASK_BXOR};
    operation.op = kOps[take(floats ? 4 : std::size(kOps))];
    operation.count = take(4) == 0 ? 1 + take(50) : most / 2 + 1 + take(most / 2 + 1);
    operation.salt = draw;
    return operation;
}

// Small enough for sums of floats to be exact in any order.
template <typename T>
T value(const Operation& operation, std::uint32_t member, std::size_t at) {
    return static_cast<T>(mix(operation.salt + member * 0x10001ULL + at) % 1000);
}

template <typename T>
T combine(int op, T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        switch (op) {
            case ASK_BAND:
                return a & b;
            case ASK_BOR:
                return a | b;
            case ASK_BXOR:
                return a ^ b;
            default:
                break;
        }
    }
    switch (op) {
        case ASK_MIN:
            return a < b ? a : b;
        case ASK_MAX:
            return a > b ? a : b;
        default:
            return static_cast<T>(a + b);
    }
}

// An operation that this member has begun.
struct Begun {
    Operation operation;
    ask_request* request = nullptr;
    std::vector<std::byte> in;
    std::vector<std::byte> out;
    bool checked = false;  // whether there is a result here
};

struct Self {
    std::string name;
    std::uint32_t id = 0;  // rank at the beginning
    ask_group* group = nullptr;
    std::vector<std::uint32_t> members;  // ids, by rank
    [[nodiscard]] std::string list() const {
        std::string text;
        for (const std::uint32_t member : members) {
            text += (text.empty() ? "" : ",") + std::to_string(member);
        }
        return text;
    }
};

// Who is in it: ids by rank, which rise.
int learn_members(Self& self) {
    std::vector<std::uint32_t> ids(ASK_GROUP_MAX_SIZE);
    ids[ask_group_rank(self.group)] = self.id + 1;
    const int code = ask_allreduce(self.group, ids.data(), ids.data(), ids.size(), ASK_UINT32, ASK_BOR);
    if (code != ASK_OK) {
        return code;
    }
    self.members.clear();
    for (std::uint32_t rank = 0; rank < ask_group_size(self.group); ++rank) {
        if (ids[rank] == 0 || (rank > 0 && ids[rank] <= ids[rank - 1])) {
            end(kWrong, "ranks of survivors are out of order");
        }
        self.members.push_back(ids[rank] - 1);
    }
    return ASK_OK;
}

std::uint32_t root_of(const Self& self, const Operation& operation) {
    return static_cast<std::uint32_t>(operation.salt % self.members.size());
}

template <typename T>
void fill(const Self& self, Begun& begun) {
    begun.in.resize(begun.operation.count * sizeof(T));
    auto* const values = reinterpret_cast<T*>(begun.in.data());
    for (std::size_t i = 0; i < begun.operation.count; ++i) {
        values[i] = value<T>(begun.operation, self.id, i);
    }
}

template <typename T>
void check(const Self& self, const Begun& begun) {
    const Operation& operation = begun.operation;
    const bool one = operation.kind == Kind::kBroadcast;
    const auto* const values = reinterpret_cast<const T*>(one ? begun.in.data() : begun.out.data());
    for (std::size_t i = 0; i < operation.count; ++i) {
        T expected = value<T>(operation, self.members[one ? root_of(self, operation) : 0], i);
        for (std::size_t rank = 1; rank < self.members.size() && !one; ++rank) {
            expected = combine<T>(operation.op, expected, value<T>(operation, self.members[rank], i));
        }
        if (values[i] != expected) {
            end(kWrong, "operation " + std::to_string(operation.number) + " of members " + self.list() +
                            ": value " + std::to_string(i) + " is " + std::to_string(values[i]) + ", not " +
                            std::to_string(expected));
        }
    }
}

template <typename Body>
void with_type(int dtype, const Body& body) {
    switch (dtype) {
        case ASK_INT32:
            return body(std::int32_t{});
        case ASK_FLOAT32:
            return body(float{});
        case ASK_FLOAT64:
            return body(double{});
        case ASK_UINT8:
            return body(std::uint8_t{});
        default:
            return body(std::int64_t{});
    }
}

int begin(const Self& self, Begun& begun) {
    const Operation& operation = begun.operation;
    const std::uint32_t root = root_of(self, operation);
    const bool here = root == ask_group_rank(self.group);
    with_type(operation.dtype, [&](auto type) { fill<decltype(type)>(self, begun); });
    begun.checked = operation.kind != Kind::kBarrier && (operation.kind != Kind::kReduce || here);
    begun.out.resize(begun.in.size());
    switch (operation.kind) {
        case Kind::kAllreduce:
            return ask_iallreduce(self.group, begun.in.data(), begun.out.data(), operation.count,
                                  operation.dtype, operation.op, &begun.request);
        case Kind::kReduce:
            return ask_ireduce(self.group, begun.in.data(), here ? begun.out.data() : nullptr,
                               operation.count, operation.dtype, operation.op, root, &begun.request);
        case Kind::kBroadcast:
            return ask_ibcast(self.group, begun.in.data(), operation.count, operation.dtype, root,
                              &begun.request);
        default:
            return ask_ibarrier(self.group, &begun.request);
    }
}

// Begins some and waits for all; how many have ended whole. `code`: what the first that has not failed with.
unsigned run(const Self& self, std::uint64_t seed, std::uint64_t first, std::uint64_t last, std::size_t most,
             int& code) {
    const auto many = static_cast<unsigned>(1 + mix(seed + first) % kMostAtOnce);
    std::vector<std::unique_ptr<Begun>> all;
    code = ASK_OK;
    for (std::uint64_t number = first; number <= last && all.size() < many && code == ASK_OK; ++number) {
        auto begun = std::make_unique<Begun>();
        begun->operation = operation_of(seed, number, most);
        code = begin(self, *begun);
        if (code == ASK_OK) {
            all.push_back(std::move(begun));
        }
    }
    unsigned whole = 0;
    for (const auto& begun : all) {
        const int ended = ask_wait(begun->request);
        if (ended == ASK_OK && whole < static_cast<unsigned>(&begun - all.data())) {
            end(kWrong,
                "operation " + std::to_string(begun->operation.number) + " ended after one that failed");
        }
        if (ended == ASK_OK) {
            ++whole;
            if (begun->checked) {
                with_type(begun->operation.dtype, [&](auto type) { check<decltype(type)>(self, *begun); });
            }
        } else if (code == ASK_OK) {
            code = ended;
        }
    }
    return whole;
}

std::map<std::string_view, std::string> flags_of(int argc, char** argv) {
    std::map<std::string_view, std::string> flags{
        {"--seed", "1"},    {"--operations", "50"}, {"--count", "10000"}, {"--deadline", "20"},
        {"--arena", "256"}, {"--grow", "0"},        {"--until", "64"}};
    for (int i = 1; i + 1 < argc; i += 2) {
        flags[argv[i]] = argv[i + 1];
    }
    for (const char* const name : {"--group", "--rank", "--size", "--root"}) {
        if (!flags.contains(name)) {
            end(ASK_E_USAGE, std::string(name) + " is missing");
        }
    }
    return flags;
}

std::uint64_t number_of(const std::string& text) {
    std::uint64_t number = 0;
    const auto [at, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (wrong != std::errc{} || at != text.data() + text.size()) {
        end(ASK_E_USAGE, "no number: " + text);
    }
    return number;
}

// Goes on with the others; who they are is learnt in the new group, which may fail as well.
void shrink(Self& self) {
    for (int code = ASK_E_ABORTED; code != ASK_OK;) {
        const char* why = nullptr;
        ask_group_error(self.group, &why);
        std::fprintf(stderr, "failed: %s\n", why);
        ask_group* smaller = nullptr;
        code = ask_group_shrink(self.group, &smaller);
        if (code != ASK_OK) {
            end(code, std::string("cannot shrink: ") + ask_error());
        }
        ask_group_close(self.group);
        self.group = smaller;
        code = learn_members(self);
    }
}

}  // namespace

int main(int argc, char** argv) {
    auto flags = flags_of(argc, argv);
    ask_group_options options = ASK_GROUP_OPTIONS_INIT;
    options.group = flags["--group"].c_str();
    options.root = flags["--root"].c_str();
    options.rank = static_cast<std::uint32_t>(number_of(flags["--rank"]));
    options.size = static_cast<std::uint32_t>(number_of(flags["--size"]));
    options.deadline_ms = static_cast<std::uint32_t>(1000 * number_of(flags["--deadline"]));
    options.arena_bytes = number_of(flags["--arena"]) << 20U;
    Self self{.name = flags["--group"], .id = options.rank, .group = nullptr, .members = {}};
    if (ask_group_open(&options, &self.group) != ASK_OK) {
        end(ASK_E_ABORTED, ask_error());
    }
    // Of a group that is to grow, the first operation is the smaller one's.
    if (const auto size = static_cast<std::uint32_t>(number_of(flags["--grow"])); size > options.size) {
        ask_group* larger = nullptr;
        if (ask_barrier(self.group) != ASK_OK || ask_group_grow(self.group, size, &larger) != ASK_OK) {
            end(ASK_E_ABORTED, ask_error());
        }
        ask_group_close(self.group);
        self.group = larger;
    }
    const std::uint64_t seed = number_of(flags["--seed"]);
    const std::uint64_t operations = number_of(flags["--operations"]);
    const std::uint64_t until = number_of(flags["--until"]);
    if (learn_members(self) != ASK_OK) {
        shrink(self);
    }
    // All that are left have ended the same ones, and so come to the same last one.
    std::uint64_t last = self.members.size() <= until ? operations : kNoLast;
    for (std::uint64_t next = 1; next <= last;) {
        int code = ASK_OK;
        next += run(self, seed, next, last, number_of(flags["--count"]), code);
        if (code != ASK_OK) {
            shrink(self);
        }
        if (last == kNoLast && self.members.size() <= until) {
            last = next - 1 + operations;
        }
        std::printf("op %llu %s\n", static_cast<unsigned long long>(next - 1), self.list().c_str());
        std::fflush(stdout);
    }
    // Nobody leaves while others may still fail and go on without it.
    while (ask_barrier(self.group) != ASK_OK) {
        shrink(self);
    }
    std::printf("done %llu %s\n", static_cast<unsigned long long>(last), self.list().c_str());
    ask_group_close(self.group);
    return 0;
}
