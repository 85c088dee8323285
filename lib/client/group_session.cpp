// SPDX-License-Identifier: Apache-2.0
#include "lib/client/group_session.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "lib/base/task_id.h"
#include "lib/client/agent_link.h"
#include "lib/client/shared_memory.h"
#include "lib/text/clean.h"

namespace ask::client {
namespace {

constexpr std::size_t kReadyFds = 4;
constexpr std::uint32_t kMaxMembers = 64;
constexpr auto kUnsupported = static_cast<std::int32_t>(Errc::kUnsupported);

Error usage(const GroupOptions& options, const std::string& what) {
    return {Errc::kUsage, "group " + options.group + ": " + what};
}

Result<v1::LocalRequest> open_request(const GroupOptions& options) {
    if (auto id = check_task_id(options.group); !id) {
        return std::move(id).error();
    }
    if (options.size == 0) {
        return usage(options, "a size of 0");
    }
    if (options.size > kMaxMembers) {
        return Error(Errc::kLimit, "group " + options.group + ": " + std::to_string(options.size) +
                                       " members; the limit is " + std::to_string(kMaxMembers));
    }
    if (options.rank >= options.size) {
        return usage(options, "rank " + std::to_string(options.rank) + " of a size of " +
                                  std::to_string(options.size));
    }
    if (options.root.empty()) {
        return usage(options, "the root's host is empty");
    }
    if (options.deadline.count() <= 0 || options.deadline.count() > UINT32_MAX) {
        return usage(options, "the deadline must be from 1 ms to 49 days");
    }
    v1::LocalRequest request;
    v1::OpenGroup& open = *request.mutable_open_group();
    open.set_group(options.group);
    open.set_rank(options.rank);
    open.set_size(options.size);
    open.set_root(options.root);
    open.set_deadline_ms(static_cast<std::uint32_t>(options.deadline.count()));
    open.set_token(options.token);
    open.set_arena_bytes(options.arena_bytes);
    open.set_no_switch(options.no_switch);
    open.set_shrink_of(options.shrink_of);
    open.set_operations(options.operations);
    return request;
}

// Bytes of its input, and of its output, if they can be counted.
std::optional<std::uint64_t> vector_bytes(const GroupDescriptor& descriptor) {
    std::uint64_t bytes = 0;
    return __builtin_mul_overflow(descriptor.count, group_type_bytes(descriptor.type), &bytes)
               ? std::nullopt
               : std::optional(bytes);
}

}  // namespace

class GroupSession::Impl {
 public:
    Impl(GroupOptions options, AgentLink link, GroupRingUser ring, UniqueFd arena_fd, SharedMapping arena,
         const v1::GroupReady& ready)
        : options_(std::move(options)),
          link_(std::move(link)),
          ring_(std::move(ring)),
          arena_fd_(std::move(arena_fd)),
          arena_(std::move(arena)),
          instance_(ready.instance()),
          note_(ready.note()) {
        // An older agent does not say.
        options_.rank = ready.size() == 0 ? options_.rank : ready.rank();
        options_.size = ready.size() == 0 ? options_.size : ready.size();
    }

    static Result<std::unique_ptr<Impl>> open(GroupOptions options);

    [[nodiscard]] std::span<std::byte> arena() const { return {arena_.data(), arena_.size()}; }
    [[nodiscard]] std::uint64_t instance() const { return instance_; }
    [[nodiscard]] const std::string& note() const { return note_; }
    [[nodiscard]] const GroupOptions& options() const { return options_; }
    [[nodiscard]] const std::optional<Error>& error() const { return error_; }
    Result<GroupOptions> survivor();
    Result<GroupOptions> grown(std::uint32_t size);
    Result<std::uint64_t> submit(const GroupDescriptor& descriptor);
    Result<bool> wait_until(std::uint64_t number, AgentLink::Clock::time_point limit);
    Result<> wait(std::uint64_t number);
    Result<bool> test(std::uint64_t number);
    Result<> close();
    [[nodiscard]] std::vector<int> fds() const;

 private:
    [[nodiscard]] Result<> check(const GroupDescriptor& descriptor) const;
    Result<> fail(Error error);
    Result<bool> take(std::uint64_t number);
    void take_completions();

    GroupOptions options_;
    AgentLink link_;
    GroupRingUser ring_;
    UniqueFd arena_fd_;
    SharedMapping arena_;
    std::uint64_t instance_;
    std::string note_;
    struct Ended {
        bool whole = false;
        std::string why;  // not
    };
    std::map<std::uint64_t, std::optional<Ended>> under_way_;  // by number
    std::uint64_t whole_ = 0;                                  // the last operation that has ended whole
    std::optional<Error> error_;
};

Result<std::unique_ptr<GroupSession::Impl>> GroupSession::Impl::open(GroupOptions options) {
    auto request = open_request(options);
    ASK_PASS(request);
    auto link = AgentLink::open({.agent = options.agent,
                                 .task = options.group,
                                 .deadline = options.deadline,
                                 .kind = "group",
                                 .cancel_fd = options.cancel_fd},
                                *request);
    ASK_PASS(link);
    std::vector<UniqueFd> fds;
    auto reply = link->next(&fds);
    ASK_PASS(reply);
    if (reply->kind_case() != v1::LocalReply::kGroupReady || fds.size() != kReadyFds) {
        return link->unexpected("a group's memory");
    }
    const auto bytes = shared_memory_bytes(fds[0]);
    ASK_TRY(bytes, "group " + options.group);
    if (*bytes < reply->group_ready().arena_bytes() ||
        reply->group_ready().arena_bytes() < options.arena_bytes) {
        return link->unexpected("an arena of the size that was asked for");
    }
    auto arena = SharedMapping::map(fds[0], reply->group_ready().arena_bytes());
    ASK_TRY(arena, "group " + options.group);
    auto ring = GroupRingUser::open(std::move(fds[1]), std::move(fds[2]), std::move(fds[3]));
    ASK_TRY(ring, "group " + options.group);
    return std::make_unique<Impl>(std::move(options), *std::move(link), *std::move(ring), std::move(fds[0]),
                                  *std::move(arena), reply->group_ready());
}

// What the agent would fail the group for.
Result<> GroupSession::Impl::check(const GroupDescriptor& descriptor) const {
    if (descriptor.kind < GroupKind::kAllreduce || descriptor.kind > GroupKind::kBarrier) {
        return usage(options_, "no such kind of operation");
    }
    if (descriptor.kind == GroupKind::kBarrier) {
        return {};
    }
    const bool reduces = descriptor.kind != GroupKind::kBroadcast;
    if (group_type_bytes(descriptor.type) == 0) {
        return usage(options_, "no such type of values");
    }
    if (reduces && (descriptor.op < GroupOp::kSum || descriptor.op > GroupOp::kSum16)) {
        return usage(options_, "no such operator");
    }
    if (reduces && descriptor.op == GroupOp::kSum16 && options_.size > kSum16Members) {
        return Error(Errc::kLimit, "group " + options_.group + ": sums of 16 bits are for up to " +
                                       std::to_string(kSum16Members) + " members, here are " +
                                       std::to_string(options_.size));
    }
    if (descriptor.kind != GroupKind::kAllreduce && descriptor.root >= options_.size) {
        return usage(options_, "root " + std::to_string(descriptor.root) + " of a size of " +
                                   std::to_string(options_.size));
    }
    const auto bytes = vector_bytes(descriptor);
    const bool both = descriptor.kind == GroupKind::kAllreduce ||
                      (descriptor.kind == GroupKind::kReduce && descriptor.root == options_.rank);
    if (both && descriptor.in == descriptor.out && bytes != 0U) {
        return usage(options_, "an output where the input is");
    }
    for (const std::uint64_t offset : {descriptor.in, descriptor.out}) {
        if (offset % kGroupAlignment != 0) {
            return usage(options_, "values at " + std::to_string(offset) +
                                       " of the arena: must be a multiple of " +
                                       std::to_string(kGroupAlignment));
        }
        if (!bytes || *bytes > arena_.size() || offset > arena_.size() - *bytes) {
            return Error(Errc::kLimit, "group " + options_.group + ": " + std::to_string(descriptor.count) +
                                           " values at " + std::to_string(offset) +
                                           " are beyond its arena of " + std::to_string(arena_.size()) +
                                           " bytes");
        }
    }
    return {};
}

Result<std::uint64_t> GroupSession::Impl::submit(const GroupDescriptor& descriptor) {
    if (error_) {
        return *error_;
    }
    ASK_PASS(check(descriptor));
    take_completions();
    auto number = ring_.submit(descriptor);
    if (number) {
        under_way_.emplace(*number, std::nullopt);
    }
    return number;
}

Result<> GroupSession::Impl::fail(Error error) {
    if (!error_) {
        error_ = std::move(error);
    }
    return *error_;
}

void GroupSession::Impl::take_completions() {
    while (const auto done = ring_.next()) {
        whole_ = done->code == 0 ? std::max(whole_, done->number) : whole_;
        const auto at = under_way_.find(done->number);
        if (at != under_way_.end() && (done->code == 0 || done->code == kUnsupported)) {
            at->second = Ended{done->code == 0, std::string(done->why())};
        }
        // What else one fails with fails the group: its text comes by the socket.
    }
}

// Whether the operation has ended, and is forgotten.
Result<bool> GroupSession::Impl::take(std::uint64_t number) {
    take_completions();
    const auto at = under_way_.find(number);
    if (at == under_way_.end()) {
        return usage(options_, "operation " + std::to_string(number) + " is not under way");
    }
    if (!at->second) {
        return false;
    }
    const Ended ended = *std::move(at->second);
    under_way_.erase(at);
    if (!ended.whole) {
        return Error(Errc::kUnsupported, "group " + options_.group + ": " + clean_text(ended.why));
    }
    return true;
}

Result<bool> GroupSession::Impl::test(std::uint64_t number) {
    auto done = take(number);
    if (!done || *done) {
        return done;
    }
    if (error_) {
        return *error_;
    }
    if (auto heard = link_.poll(); !heard) {
        return fail(std::move(heard).error()).error();
    }
    return false;
}

Result<bool> GroupSession::Impl::wait_until(std::uint64_t number, AgentLink::Clock::time_point limit) {
    for (;;) {
        auto done = take(number);
        if (!done || *done) {
            return done;
        }
        if (error_) {
            return *error_;
        }
        if (ring_.arm()) {
            continue;
        }
        const auto woken = link_.wait_until(ring_.event(), limit);
        if (!woken) {
            // What has ended before the group failed is whole; the agent says only once why it has.
            auto failed = fail(Error(woken.error()));
            done = take(number);
            return done && *done ? done : Result<bool>(failed.error());
        }
        if (!*woken) {
            return take(number);
        }
    }
}

Result<> GroupSession::Impl::wait(std::uint64_t number) {
    const auto done = wait_until(number, AgentLink::Clock::time_point::max());
    return done ? Result<>() : Result<>(done.error());
}

Result<> GroupSession::Impl::close() {
    if (error_) {
        return *error_;
    }
    if (!under_way_.empty()) {
        return usage(options_,
                     "operation " + std::to_string(under_way_.begin()->first) + " has not been waited for");
    }
    v1::LocalRequest request;
    request.mutable_close_group();
    if (auto sent = link_.request(request); !sent) {
        return fail(std::move(sent).error());
    }
    auto reply = link_.next();
    if (!reply) {
        return fail(std::move(reply).error());
    }
    return reply->kind_case() == v1::LocalReply::kGroupLeft ? Result<>()
                                                            : fail(link_.unexpected("the group's end"));
}

// What to open the survivors' group with.
Result<GroupOptions> GroupSession::Impl::survivor() {
    if (!error_) {
        return usage(options_, "it has not failed, so it does not shrink");
    }
    take_completions();
    GroupOptions options = options_;
    options.shrink_of = instance_;
    options.operations = whole_;
    return options;
}

Result<GroupOptions> GroupSession::Impl::grown(std::uint32_t size) {
    if (size < options_.size) {
        return usage(options_, "it has " + std::to_string(options_.size) + " members, and cannot grow to " +
                                   std::to_string(size));
    }
    GroupOptions options = options_;
    options.shrink_of = options.operations = 0;
    options.size = size;
    ASK_PASS(open_request(options));
    ASK_PASS(close());
    error_ = usage(options_, "it has grown: the larger one is another");
    return options;
}

std::vector<int> GroupSession::Impl::fds() const {
    std::vector<int> all{link_.fd(), arena_fd_.get()};
    for (const int fd : ring_.fds()) {
        all.push_back(fd);
    }
    return all;
}

GroupSession::GroupSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GroupSession::GroupSession(GroupSession&&) noexcept = default;
GroupSession& GroupSession::operator=(GroupSession&&) noexcept = default;
GroupSession::~GroupSession() = default;

Result<GroupSession> GroupSession::open(GroupOptions options) {
    auto impl = Impl::open(std::move(options));
    if (!impl) {
        return std::move(impl).error();
    }
    return GroupSession(*std::move(impl));
}

std::span<std::byte> GroupSession::arena() const {
    return impl_->arena();
}
std::uint64_t GroupSession::instance() const {
    return impl_->instance();
}
std::uint32_t GroupSession::rank() const {
    return impl_->options().rank;
}
std::uint32_t GroupSession::size() const {
    return impl_->options().size;
}
Result<GroupSession> GroupSession::shrink() {
    auto options = impl_->survivor();
    return options ? open(*std::move(options)) : Result<GroupSession>(std::move(options).error());
}
Result<GroupSession> GroupSession::grow(std::uint32_t size) {
    auto options = impl_->grown(size);
    return options ? open(*std::move(options)) : Result<GroupSession>(std::move(options).error());
}
const std::string& GroupSession::note() const {
    return impl_->note();
}
Result<std::uint64_t> GroupSession::submit(GroupDescriptor descriptor) {
    return impl_->submit(descriptor);
}
Result<> GroupSession::wait(std::uint64_t number) {
    return impl_->wait(number);
}
Result<bool> GroupSession::wait_for(std::uint64_t number, std::chrono::microseconds limit) {
    const auto now = AgentLink::Clock::now();
    const auto most =
        std::chrono::duration_cast<std::chrono::microseconds>(AgentLink::Clock::time_point::max() - now);
    return impl_->wait_until(number, limit < most ? now + limit : AgentLink::Clock::time_point::max());
}
Result<bool> GroupSession::test(std::uint64_t number) {
    return impl_->test(number);
}
const std::optional<Error>& GroupSession::error() const {
    return impl_->error();
}
Result<> GroupSession::close() {
    return impl_->close();
}
std::vector<int> GroupSession::fds() const {
    return impl_->fds();
}

}  // namespace ask::client
