// SPDX-License-Identifier: Apache-2.0
#include "lib/pmpi/communicator.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>

#include "lib/pmpi/report.h"
#include "lib/pmpi/waiting.h"

namespace ask::pmpi {
namespace {

// Set by MPI_Init, not changed any more.
struct Keys {
    int attribute = MPI_KEYVAL_INVALID;
    // Nobody sends in it: looking there is how MPI is made to go on. Of all ranks, since MPICH looks at no
    // network for one of a single rank.
    MPI_Comm quiet = MPI_COMM_NULL;
};
Keys keys;

// All that are, for MPI_Finalize.
struct Registry {
    std::mutex mutex;
    std::vector<Communicator*> all;  // as they were made: in one order at all ranks
};
Registry& registry() {
    static auto* const kAll = new Registry;  // attributes may be deleted at exit
    return *kAll;
}

// Slots, and what libask copies a broadcast from.
constexpr std::size_t arena_for(std::size_t slots, std::size_t piece) {
    return 3 * slots * piece + (std::size_t{1} << 20U);
}

template <typename T>
void truth_of(const std::byte* in, std::byte* out, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        T value;
        std::memcpy(&value, in + i * sizeof value, sizeof value);
        value = value != 0 ? 1 : 0;
        std::memcpy(out + i * sizeof value, &value, sizeof value);
    }
}

void copy_in(const std::byte* in, std::byte* out, std::size_t values, const Reduction& reduction) {
    if (!reduction.truth) {
        std::memcpy(out, in, values * reduction.bytes);
        return;
    }
    switch (reduction.bytes) {
        case 1:
            return truth_of<std::uint8_t>(in, out, values);
        case 2:
            return truth_of<std::uint16_t>(in, out, values);
        case 4:
            return truth_of<std::uint32_t>(in, out, values);
        default:
            return truth_of<std::uint64_t>(in, out, values);
    }
}

bool overlap(const std::byte* one, const std::byte* other, std::size_t bytes) {
    const std::less<> before;
    return one != other && before(one, other + bytes) && before(other, one + bytes);
}

}  // namespace

int Communicator::all_begin() {
    if (const int code =
            PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &Communicator::forget, &keys.attribute, nullptr);
        code != MPI_SUCCESS) {
        return code;
    }
    return PMPI_Comm_split(MPI_COMM_WORLD, 0, 0, &keys.quiet);
}

void Communicator::all_end() {
    {
        const std::lock_guard lock(registry().mutex);
        for (Communicator* const each : registry().all) {
            each->close();
            each->free_on_host();
            each->way_ = Way::kInactive;
        }
    }
    PMPI_Comm_free(&keys.quiet);
}

int Communicator::find(MPI_Comm comm, const Settings& settings, Communicator** found) {
    int there = 0;
    if (const int code = PMPI_Comm_get_attr(comm, keys.attribute, static_cast<void*>(found), &there);
        code != MPI_SUCCESS) {
        return code;
    }
    if (there != 0) {
        return MPI_SUCCESS;
    }
    std::unique_ptr<Communicator> made(new Communicator(comm));
    if (const int code = made->make(settings); code != MPI_SUCCESS) {
        return code;
    }
    if (const int code = PMPI_Comm_set_attr(comm, keys.attribute, made.get()); code != MPI_SUCCESS) {
        return code;
    }
    *found = made.release();
    const std::lock_guard lock(registry().mutex);
    registry().all.push_back(*found);
    return MPI_SUCCESS;
}

// What needs no word from others comes first: each rank sees it alike.
int Communicator::make(const Settings& settings) {
    int inter = 0;
    if (const int code = PMPI_Comm_test_inter(comm_, &inter); code != MPI_SUCCESS) {
        return code;
    }
    if (inter != 0) {
        way_ = Way::kIntercommunicator;
        return MPI_SUCCESS;
    }
    if (const int code = PMPI_Comm_rank(comm_, &rank_); code != MPI_SUCCESS) {
        return code;
    }
    if (const int code = PMPI_Comm_size(comm_, &size_); code != MPI_SUCCESS) {
        return code;
    }
    if (size_ == 1) {
        way_ = Way::kOneRank;
        return MPI_SUCCESS;
    }
    bool beyond = false;
    if (const int code = look_beyond_world(&beyond); code != MPI_SUCCESS) {
        return code;
    }
    if (beyond) {
        way_ = Way::kBeyondWorld;
        return MPI_SUCCESS;
    }
    return open(settings);
}

// Ranks of another MPI_COMM_WORLD (MPI_Comm_spawn, MPI_Comm_connect) have settings of their own, which may be
// others. Whoever is in such a communicator sees somebody who is not of its world.
int Communicator::look_beyond_world(bool* beyond) const {
    MPI_Group world = MPI_GROUP_NULL;
    MPI_Group mine = MPI_GROUP_NULL;
    MPI_Group rest = MPI_GROUP_NULL;
    int size = 0;
    int code = PMPI_Comm_group(MPI_COMM_WORLD, &world);
    code = code == MPI_SUCCESS ? PMPI_Comm_group(comm_, &mine) : code;
    code = code == MPI_SUCCESS ? PMPI_Group_difference(mine, world, &rest) : code;
    code = code == MPI_SUCCESS ? PMPI_Group_size(rest, &size) : code;
    for (MPI_Group* each : {&world, &mine, &rest}) {
        // What is empty has no storage of its own, and may not be freed with every MPI.
        if (*each != MPI_GROUP_NULL && *each != MPI_GROUP_EMPTY) {
            PMPI_Group_free(each);
        }
    }
    *beyond = size != 0;
    return code;
}

int Communicator::open(const Settings& settings) {
    if (settings.trouble[0] != '\0') {
        opened_.why_not = settings.trouble.data();
    } else if (const int code = open_group(comm_, settings, arena_for(kSlots, kPieceBytes), &opened_);
               code != MPI_SUCCESS) {
        return code;
    }
    if (opened_.group != nullptr && !take_slots()) {
        // An arena of the size that was asked for holds them: all ranks have it, or none.
        return fail();
    }
    if (!opened_.host_of.empty()) {
        host_ = host_of(rank_);
        on_host_rank_ = rank_on_host(rank_);
    }
    way_ = opened_.why_not.empty() ? Way::kThrough : Way::kNotEnabled;
    if (rank_ == 0) {
        count_communicator(opened_.why_not);
        if (settings.verbose > 1) {
            say("a communicator of " + std::to_string(size_) +
                " ranks: " + (opened_.why_not.empty() ? "group opened" : "not enabled: " + opened_.why_not));
        }
    }
    return MPI_SUCCESS;
}

bool Communicator::take_slots() {
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
        in_.at(slot) = static_cast<std::byte*>(ask_alloc(opened_.group, kPieceBytes));
        out_.at(slot) = static_cast<std::byte*>(ask_alloc(opened_.group, kPieceBytes));
        if (in_.at(slot) == nullptr || out_.at(slot) == nullptr) {
            return false;
        }
    }
    return true;
}

// MPI deletes the attribute with the communicator, at all its ranks.
int Communicator::forget(MPI_Comm /*comm*/, int /*keyval*/, void* attribute, void* /*extra*/) {
    auto* const its = static_cast<Communicator*>(attribute);
    {
        const std::lock_guard lock(registry().mutex);
        std::erase(registry().all, its);
    }
    delete its;
    return MPI_SUCCESS;
}

Communicator::~Communicator() {
    close();
    free_on_host();
}

void Communicator::free_on_host() {
    if (opened_.on_host != MPI_COMM_NULL) {
        PMPI_Comm_free(&opened_.on_host);
    }
}

void Communicator::close() {
    ask_group_close(opened_.group);
    opened_.group = nullptr;
}

// Waits, with MPI going on. An ask_code.
int Communicator::finish(ask_request* request) {
    for (Pause pause;;) {
        int done = 0;
        int code = ask_test(request, &done);
        if (code == ASK_OK && done == 0 && !pause.yields()) {
            code = ask_wait_for(request, Pause::kMicroseconds, &done);
        }
        if (code != ASK_OK || done != 0) {
            return code;
        }
        int there = 0;
        PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, keys.quiet, &there, MPI_STATUS_IGNORE);
    }
}

// The group is closed, which fails it at all other ranks, too; the communicator's error handler is told why.
// Every later operation ends the same way: some ranks may have finished what failed here.
namespace {

// An error code of MPI's whose text is `text`. Of a class of the shim's own: MPICH takes codes that were
// added to one of its own classes for its own, and says something else.
int error_code(const std::string& text) {
    static const int kClass = [] {
        int added = MPI_ERR_OTHER;
        if (PMPI_Add_error_class(&added) != MPI_SUCCESS) {
            return MPI_ERR_OTHER;
        }
        PMPI_Add_error_string(added, "ask: in-network aggregation failed");
        return added;
    }();
    int code = MPI_ERR_OTHER;
    if (PMPI_Add_error_code(kClass, &code) == MPI_SUCCESS) {
        PMPI_Add_error_string(code, text.substr(0, MPI_MAX_ERROR_STRING - 1).c_str());
    }
    return code;
}

}  // namespace

int Communicator::fail() {
    if (failed_.empty()) {
        const char* text = "";
        if (opened_.group == nullptr || ask_group_error(opened_.group, &text) == ASK_OK || *text == '\0') {
            text = ask_error();
        }
        failed_ = text;
        close();
        say("rank " + std::to_string(rank_) + " of " + std::to_string(size_) + ": " + failed_);
        error_code_ = error_code(failed_);
    }
    PMPI_Comm_call_errhandler(comm_, error_code_);
    return error_code_;
}

template <typename Fill, typename Begin, typename Drain>
int Communicator::in_pieces(std::size_t pieces, const Fill& fill, const Begin& begin, const Drain& drain) {
    const std::lock_guard lock(mutex_);
    if (!failed_.empty()) {
        return fail();
    }
    std::array<ask_request*, kSlots> requests{};
    std::size_t begun = 0;
    for (std::size_t ended = 0; ended < pieces; ++ended) {
        for (; begun < pieces && begun - ended < kSlots; ++begun) {
            fill(begun, begun % kSlots);
            if (begin(begun, begun % kSlots, &requests.at(begun % kSlots)) != ASK_OK) {
                return fail();
            }
        }
        if (finish(requests.at(ended % kSlots)) != ASK_OK) {
            return fail();
        }
        drain(ended, ended % kSlots);
    }
    return MPI_SUCCESS;
}

template <typename Begin>
int Communicator::combine(const void* in, void* out, std::size_t count, const Reduction& reduction,
                          const Begin& begin) {
    const std::size_t values = count * reduction.lanes;
    const std::size_t most = kPieceBytes / reduction.bytes;
    const auto* from = static_cast<const std::byte*>(in);
    auto* const to = static_cast<std::byte*>(out);
    const auto length = [&](std::size_t piece) { return std::min(most, values - piece * most); };
    std::vector<std::byte> aside;
    if (to != nullptr && overlap(from, to, values * reduction.bytes)) {
        // A piece's result would go over another's input.
        aside.assign(from, from + values * reduction.bytes);
        from = aside.data();
    }
    return in_pieces(
        values == 0 ? 1 : (values + most - 1) / most,
        [&](std::size_t piece, std::size_t slot) {
            if (values != 0) {
                copy_in(from + piece * kPieceBytes, in_.at(slot), length(piece), reduction);
            }
        },
        [&](std::size_t piece, std::size_t slot, ask_request** request) {
            return begin(in_.at(slot), out_.at(slot), values == 0 ? 0 : length(piece), request);
        },
        [&](std::size_t piece, std::size_t slot) {
            if (to != nullptr && values != 0) {
                std::memcpy(to + piece * kPieceBytes, out_.at(slot), length(piece) * reduction.bytes);
            }
        });
}

int Communicator::group_allreduce(const void* in, void* out, std::size_t count, const Reduction& reduction) {
    return combine(in, out, count, reduction,
                   [&](const std::byte* from, std::byte* to, std::size_t values, ask_request** request) {
                       return ask_iallreduce(opened_.group, from, to, values, reduction.dtype, reduction.op,
                                             request);
                   });
}

int Communicator::group_reduce(const void* in, void* out, std::size_t count, const Reduction& reduction,
                               int root) {
    return combine(in, host_ == root ? out : nullptr, count, reduction,
                   [&](const std::byte* from, std::byte* to, std::size_t values, ask_request** request) {
                       return ask_ireduce(opened_.group, from, to, values, reduction.dtype, reduction.op,
                                          static_cast<std::uint32_t>(root), request);
                   });
}

int Communicator::group_bcast(std::byte* buffer, std::size_t bytes, int root) {
    const auto length = [&](std::size_t piece) { return std::min(kPieceBytes, bytes - piece * kPieceBytes); };
    return in_pieces(
        bytes == 0 ? 1 : (bytes + kPieceBytes - 1) / kPieceBytes,
        [&](std::size_t piece, std::size_t slot) {
            if (host_ == root && bytes != 0) {
                std::memcpy(out_.at(slot), buffer + piece * kPieceBytes, length(piece));
            }
        },
        [&](std::size_t piece, std::size_t slot, ask_request** request) {
            return ask_ibcast(opened_.group, out_.at(slot), bytes == 0 ? 0 : length(piece), ASK_UINT8,
                              static_cast<std::uint32_t>(root), request);
        },
        [&](std::size_t piece, std::size_t slot) {
            if (host_ != root && bytes != 0) {
                std::memcpy(buffer + piece * kPieceBytes, out_.at(slot), length(piece));
            }
        });
}

int Communicator::group_barrier() {
    return in_pieces(
        1, [](std::size_t, std::size_t) {},
        [&](std::size_t, std::size_t, ask_request** request) { return ask_ibarrier(opened_.group, request); },
        [](std::size_t, std::size_t) {});
}

}  // namespace ask::pmpi
