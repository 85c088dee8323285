// SPDX-License-Identifier: Apache-2.0
//
// ask.h's groups over lib/client: nothing is thrown across it, and whatever a caller passes is checked here.
#include "lib/ask/ask.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "lib/ask/arena.h"
#include "lib/ask/handle.h"
#include "lib/client/group_session.h"

namespace {

using ask::Errc;
using ask::Error;
using ask::GroupDescriptor;
using ask::GroupKind;
using ask::guarded;
using ask::Result;
using ask::Turn;
using ask::usage;

// What a copy of an operation lies in; null: where the caller has it.
struct Copies {
    std::byte* in = nullptr;
    std::byte* out = nullptr;
};

}  // namespace

struct ask_request {
    ask_group* group;
    std::uint64_t number;
    Copies copies;
    const std::byte* in_place[2];  // memory of the arena that the operation uses
    void* out;                     // where the copy goes to
    std::size_t bytes;
};

struct ask_group : ask::Handle {
    explicit ask_group(ask::client::GroupSession opened)
        : Handle("group"),
          session(std::make_unique<ask::client::GroupSession>(std::move(opened))),
          arena(session->arena()),
          rank(session->rank()),
          size(session->size()) {}

    std::unique_ptr<ask::client::GroupSession> session;
    ask::Arena arena;
    std::uint32_t rank;
    std::uint32_t size;
    std::set<std::unique_ptr<ask_request>> requests;
    std::atomic<int> code = ASK_OK;
    std::string text;  // of the code; set once, before it
};

namespace {

// Keeps why the group has failed, if it has.
void remember(ask_group& group) {
    const auto& error = group.session->error();
    if (error && group.code == ASK_OK) {
        group.text = error->text();
        group.code.store(static_cast<int>(error->code()), std::memory_order_release);
    }
}

struct Vectors {
    const void* in;
    void* out;  // null: none at this member
    std::size_t count;
    int dtype;
};

Result<std::size_t> bytes_of(const Vectors& vectors) {
    const std::size_t each = ask_dtype_size(vectors.dtype);
    std::size_t bytes = 0;
    if (each == 0) {
        return usage("no type has the number " + std::to_string(vectors.dtype));
    }
    if (__builtin_mul_overflow(vectors.count, each, &bytes)) {
        return Error(Errc::kLimit, std::to_string(vectors.count) + " values are more than memory can hold");
    }
    if (bytes != 0 && vectors.in == nullptr) {
        return usage("the input is NULL");
    }
    const auto in = reinterpret_cast<std::uintptr_t>(vectors.in);
    const auto out = reinterpret_cast<std::uintptr_t>(vectors.out);
    if (out != 0 && in != out && in < out + bytes && out < in + bytes) {
        return usage("input and output overlap, but are not the same");
    }
    return bytes;
}

// Memory for a vector that does not lie where the agent can use it.
Result<std::byte*> copy_for(ask::Arena& arena, std::size_t bytes) {
    std::byte* const memory = arena.allocate(bytes);
    if (memory == nullptr) {
        return Error(Errc::kLimit, "the arena has no room for a copy of " + std::to_string(bytes) +
                                       " bytes: " + std::to_string(arena.largest()) + " of " +
                                       std::to_string(arena.size()) + " are free in one piece (arena_bytes)");
    }
    return memory;
}

void release(ask_group& group, const ask_request& request) {
    static_cast<void>(group.arena.release(request.copies.in));
    static_cast<void>(group.arena.release(request.copies.out));
}

// What the agent reads, or writes, of this member's in an operation.
bool reads(const ask_group& group, const GroupDescriptor& descriptor) {
    return descriptor.kind != GroupKind::kBroadcast || descriptor.root == group.rank;
}
bool writes(const ask_group& group, const GroupDescriptor& descriptor) {
    return descriptor.kind == GroupKind::kAllreduce ||
           (descriptor.kind == GroupKind::kReduce) == (descriptor.root == group.rank);
}

// Where the agent finds the input: where it is, or in a copy.
Result<const std::byte*> place_input(ask_group& group, const Vectors& vectors, bool in_place,
                                     ask_request& request) {
    const auto* const in = static_cast<const std::byte*>(vectors.in);
    if (!in_place && group.arena.usable(in, request.bytes)) {
        request.in_place[0] = in;
        return in;
    }
    const auto copy = copy_for(group.arena, request.bytes);
    ASK_PASS(copy);
    request.copies.in = *copy;
    std::memcpy(*copy, in, request.bytes);
    return *copy;
}

// Where it leaves the output.
Result<const std::byte*> place_output(ask_group& group, const Vectors& vectors, ask_request& request) {
    auto* const out = static_cast<std::byte*>(vectors.out);
    if (group.arena.usable(out, request.bytes)) {
        request.in_place[1] = out;
        return out;
    }
    const auto copy = copy_for(group.arena, request.bytes);
    ASK_PASS(copy);
    request.copies.out = *copy;
    request.out = out;
    return *copy;
}

// Offsets of what the operation needs go into the descriptor, copies into the request. The agent takes one
// vector for both where it uses but one.
Result<> place(ask_group& group, const Vectors& vectors, GroupDescriptor& descriptor, ask_request& request) {
    const bool reads_it = reads(group, descriptor);
    const bool writes_it = writes(group, descriptor);
    const std::byte* in = nullptr;
    const std::byte* out = nullptr;
    if (reads_it) {
        // The input is read until the end, so it is never what the output is.
        const auto placed = place_input(group, vectors, writes_it && vectors.in == vectors.out, request);
        ASK_PASS(placed);
        in = *placed;
    }
    if (writes_it) {
        const auto placed = place_output(group, vectors, request);
        if (!placed) {
            release(group, request);
            return placed.error();
        }
        out = *placed;
    }
    descriptor.in = group.arena.offset(reads_it ? in : out);
    descriptor.out = group.arena.offset(writes_it ? out : in);
    return {};
}

Result<> begin(ask_group& group, GroupDescriptor descriptor, const Vectors& vectors, ask_request** request) {
    const Turn turn(group);
    ASK_PASS(turn.check());
    auto made = std::make_unique<ask_request>(ask_request{&group, 0, {}, {}, nullptr, 0});
    if (descriptor.kind != GroupKind::kBarrier) {
        const auto bytes = bytes_of(vectors);
        ASK_PASS(bytes);
        made->bytes = *bytes;
        descriptor.type = static_cast<ask::GroupType>(vectors.dtype);
        descriptor.count = vectors.count;
        if (made->bytes != 0) {
            ASK_PASS(place(group, vectors, descriptor, *made));
        }
    }
    const auto number = group.session->submit(descriptor);
    if (!number) {
        release(group, *made);
        remember(group);
        return number.error();
    }
    made->number = *number;
    *request = made.get();
    group.requests.insert(std::move(made));
    return {};
}

// Frees the request; the result goes where it belongs if there is one.
void end(ask_request* request, bool whole) {
    ask_group& group = *request->group;
    if (whole && request->copies.out != nullptr && request->out != nullptr) {
        std::memcpy(request->out, request->copies.out, request->bytes);
    }
    // The agent of a group that has failed may still read: what it uses stays taken.
    if (whole || !group.session->error()) {
        release(group, *request);
    }
    std::erase_if(group.requests, [request](const auto& each) { return each.get() == request; });
}

Result<> finish(ask_request* request) {
    ask_group& group = *request->group;
    const Turn turn(group);
    ASK_PASS(turn.check());
    auto done = group.session->wait(request->number);
    remember(group);
    end(request, done.ok());
    return done;
}

// `has_ended`: whether the operation of a session's number has.
template <typename Ended>
Result<> look(ask_request* request, int* done, const Ended& has_ended) {
    if (request == nullptr || done == nullptr) {
        return usage(done == nullptr ? "done is NULL" : "the request is NULL");
    }
    ask_group& group = *request->group;
    const Turn turn(group);
    ASK_PASS(turn.check());
    const Result<bool> ended = has_ended(*group.session, request->number);
    remember(group);
    *done = !ended || *ended ? 1 : 0;
    if (*done != 0) {
        end(request, ended.ok());
    }
    return ended ? Result<>() : Result<>(ended.error());
}

int start(ask_group* group, GroupDescriptor descriptor, const Vectors& vectors, ask_request** request) {
    return guarded([&]() -> Result<> {
        if (group == nullptr || request == nullptr) {
            return usage(group == nullptr ? "the group is NULL" : "the request is NULL");
        }
        return begin(*group, descriptor, vectors, request);
    });
}

// The blocking form of a call that begins an operation.
template <typename Begin>
int whole(const Begin& begin_it) {
    ask_request* request = nullptr;
    const int code = begin_it(&request);
    return code == ASK_OK ? ask_wait(request) : code;
}

GroupDescriptor describe(GroupKind kind, int op, std::uint32_t root) {
    GroupDescriptor descriptor;
    descriptor.kind = kind;
    descriptor.op = op >= ASK_SUM && op <= ASK_SUM_16 ? static_cast<ask::GroupOp>(op) : ask::GroupOp{};
    descriptor.root = root;
    return descriptor;
}

Result<> check_op(int dtype, int op) {
    if (op < ASK_SUM || op > ASK_SUM_16) {
        return usage("no operator has the number " + std::to_string(op));
    }
    const bool is_float = dtype >= ASK_FLOAT32 && dtype <= ASK_FLOAT16;
    if (op >= ASK_SUM_32) {
        return is_float && dtype != ASK_FLOAT64
                   ? Result<>()
                   : Error(Errc::kUnsupported,
                           "SUM_32 and SUM_16 are for float32, bfloat16 and float16: SUM");
    }
    if (op >= ASK_BAND && is_float) {
        return Error(Errc::kUnsupported,
                     "floats have no bits to combine: BAND, BOR and BXOR are for integers");
    }
    return {};
}

ask_group* add_group(ask::client::GroupSession session) {
    auto made = std::make_unique<ask_group>(std::move(session));
    made->enlist(made->session->fds());
    return made.release();
}

// A group that follows this one: `make` opens its session.
template <typename Make>
Result<> follow(ask_group* group, ask_group** next, const Make& make) {
    if (group == nullptr || next == nullptr) {
        return usage("the group is NULL");
    }
    const Turn turn(*group);
    ASK_PASS(turn.check());
    auto session = make(*group->session);
    remember(*group);
    ASK_PASS(session);
    *next = add_group(*std::move(session));
    return {};
}

Result<ask::client::GroupOptions> options_of(const ask_group_options& from) {
    if (from.struct_size != sizeof(ask_group_options)) {
        return usage("struct_size is " + std::to_string(from.struct_size) + ", not " +
                     std::to_string(sizeof(ask_group_options)) + ": initialise with ASK_GROUP_OPTIONS_INIT");
    }
    if (from.group == nullptr || from.root == nullptr) {
        return usage(from.group == nullptr ? "the group has no name" : "the group has no root");
    }
    ask::client::GroupOptions to;
    to.agent = ask::text_or_empty(from.agent);
    to.group = from.group;
    to.root = from.root;
    to.rank = from.rank;
    to.size = from.size;
    to.deadline =
        std::chrono::milliseconds(from.deadline_ms == 0 ? ASK_DEFAULT_DEADLINE_MS : from.deadline_ms);
    to.token = ask::text_or_empty(from.token);
    to.cancel_fd = from.cancel_fd;
    if (from.arena_bytes != 0) {
        to.arena_bytes = from.arena_bytes;
    }
    return to;
}

}  // namespace

extern "C" {

uint32_t ask_version(void) {
    return ASK_API_VERSION;
}
const char* ask_error(void) {
    return ask::last_error_text();
}
const char* ask_code_name(int code) {
    static constexpr const char* kNames[] = {"ok",          "internal",    "usage",       "input",
                                             "unknown",     "exists",      "unavailable", "denied",
                                             "unsupported", "limit",       "deadline",    "aborted",
                                             "overflow",    "switch lost", "not taken",   "run again"};
    return code >= 0 && code <= ASK_E_RUN_AGAIN ? kNames[code] : "unknown code";
}
size_t ask_dtype_size(int dtype) {
    return dtype >= ASK_INT32 && dtype <= ASK_UINT64
               ? ask::group_type_bytes(static_cast<ask::GroupType>(dtype))
               : 0;
}

int ask_group_open(const ask_group_options* options, ask_group** group) {
    return guarded([&]() -> Result<> {
        if (options == nullptr || group == nullptr) {
            return usage(options == nullptr ? "the options are NULL" : "the group is NULL");
        }
        auto checked = options_of(*options);
        ASK_PASS(checked);
        auto session = ask::client::GroupSession::open(*std::move(checked));
        ASK_PASS(session);
        *group = add_group(*std::move(session));
        return {};
    });
}

int ask_group_shrink(ask_group* group, ask_group** smaller) {
    return guarded([&] { return follow(group, smaller, [](auto& session) { return session.shrink(); }); });
}

int ask_group_grow(ask_group* group, uint32_t size, ask_group** larger) {
    return guarded(
        [&] { return follow(group, larger, [size](auto& session) { return session.grow(size); }); });
}

void ask_group_close(ask_group* group) {
    if (group == nullptr) {
        return;
    }
    group->dismiss();
    if (group->of_parent()) {
        // Its descriptors are closed, and their numbers may be others' by now.
        [[maybe_unused]] const auto* const left = group->session.release();
    } else if (group->requests.empty()) {
        static_cast<void>(group->session->close());
    }
    delete group;
}

uint32_t ask_group_rank(const ask_group* group) {
    return group == nullptr ? 0 : group->rank;
}
uint32_t ask_group_size(const ask_group* group) {
    return group == nullptr ? 0 : group->size;
}
int ask_group_error(const ask_group* group, const char** text) {
    if (group == nullptr) {
        if (text != nullptr) {
            *text = "the group is NULL";
        }
        return ASK_E_USAGE;
    }
    const int code = group->code.load(std::memory_order_acquire);
    if (text != nullptr) {
        *text = code == ASK_OK ? "" : group->text.c_str();
    }
    return code;
}

void* ask_alloc(ask_group* group, size_t bytes) {
    std::byte* memory = nullptr;
    guarded([&]() -> Result<> {
        if (group == nullptr) {
            return usage("the group is NULL");
        }
        const Turn turn(*group);
        ASK_PASS(turn.check());
        auto given = copy_for(group->arena, bytes);
        ASK_PASS(given);
        memory = *given;
        return {};
    });
    return memory;
}
int ask_free(ask_group* group, void* memory) {
    return guarded([&]() -> Result<> {
        if (group == nullptr) {
            return usage("the group is NULL");
        }
        const Turn turn(*group);
        ASK_PASS(turn.check());
        for (const auto& request : group->requests) {
            for (const std::byte* used : request->in_place) {
                if (used != nullptr && group->arena.same_piece(used, static_cast<std::byte*>(memory))) {
                    return usage("an operation under way uses this memory");
                }
            }
            if (memory != nullptr && (memory == request->copies.in || memory == request->copies.out)) {
                return usage("ask_alloc() did not give this memory");
            }
        }
        return group->arena.release(static_cast<std::byte*>(memory))
                   ? Result<>()
                   : usage("ask_alloc() did not give this memory");
    });
}

int ask_iallreduce(ask_group* group, const void* in, void* out, size_t count, int dtype, int op,
                   ask_request** request) {
    const int checked = guarded([&] {
        auto allowed = check_op(dtype, op);
        return allowed && out == nullptr && count != 0 ? Result<>(usage("the output is NULL")) : allowed;
    });
    return checked != ASK_OK
               ? checked
               : start(group, describe(GroupKind::kAllreduce, op, 0), {in, out, count, dtype}, request);
}
int ask_ireduce(ask_group* group, const void* in, void* out, size_t count, int dtype, int op, uint32_t root,
                ask_request** request) {
    const bool here = group != nullptr && group->rank == root;
    const int checked = guarded([&] {
        auto allowed = check_op(dtype, op);
        return allowed && here && out == nullptr && count != 0 ? Result<>(usage("the output is NULL"))
                                                               : allowed;
    });
    return checked != ASK_OK ? checked
                             : start(group, describe(GroupKind::kReduce, op, root),
                                     {in, here ? out : nullptr, count, dtype}, request);
}
int ask_ibcast(ask_group* group, void* buffer, size_t count, int dtype, uint32_t root,
               ask_request** request) {
    return start(group, describe(GroupKind::kBroadcast, 0, root), {buffer, buffer, count, dtype}, request);
}
int ask_ibarrier(ask_group* group, ask_request** request) {
    return start(group, describe(GroupKind::kBarrier, 0, 0), {nullptr, nullptr, 0, 0}, request);
}

int ask_allreduce(ask_group* group, const void* in, void* out, size_t count, int dtype, int op) {
    return whole(
        [&](ask_request** request) { return ask_iallreduce(group, in, out, count, dtype, op, request); });
}
int ask_reduce(ask_group* group, const void* in, void* out, size_t count, int dtype, int op, uint32_t root) {
    return whole(
        [&](ask_request** request) { return ask_ireduce(group, in, out, count, dtype, op, root, request); });
}
int ask_bcast(ask_group* group, void* buffer, size_t count, int dtype, uint32_t root) {
    return whole(
        [&](ask_request** request) { return ask_ibcast(group, buffer, count, dtype, root, request); });
}
int ask_barrier(ask_group* group) {
    return whole([&](ask_request** request) { return ask_ibarrier(group, request); });
}

int ask_wait(ask_request* request) {
    return request == nullptr ? ASK_OK : guarded([&] { return finish(request); });
}
int ask_test(ask_request* request, int* done) {
    return guarded(
        [&] { return look(request, done, [](auto& session, auto number) { return session.test(number); }); });
}
int ask_wait_for(ask_request* request, uint64_t microseconds, int* done) {
    const auto most = static_cast<uint64_t>(std::chrono::microseconds::max().count());
    const std::chrono::microseconds limit(static_cast<std::int64_t>(std::min(microseconds, most)));
    return guarded([&] {
        return look(request, done,
                    [limit](auto& session, auto number) { return session.wait_for(number, limit); });
    });
}

}  // extern "C"
