// SPDX-License-Identifier: Apache-2.0
#include "lib/client/send_session.h"

#include <poll.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "lib/abi/consts.h"
#include "lib/base/random.h"
#include "lib/base/task_id.h"
#include "lib/client/agent_link.h"
#include "lib/client/convert.h"
#include "lib/client/task_tuples.h"
#include "lib/client/tuple_ring.h"
#include "lib/rpc/types.h"
#include "lib/tuples/combiner.h"

namespace ask::client {
namespace {

// Tuples between two looks at the agent; between two publications within.
constexpr std::uint32_t kLookEvery = 1U << 16;
constexpr std::uint32_t kPublishEvery = 128;
constexpr std::size_t kRingFds = 3;

Result<v1::LocalRequest> open_request(const SendOptions& options) {
    if (auto id = check_task_id(options.task); !id) {
        return std::move(id).error();
    }
    if (options.to.empty()) {
        return Error(Errc::kUsage, "task " + options.task + ": the receiver's host is empty");
    }
    if (options.deadline.count() <= 0 || options.deadline.count() > UINT32_MAX) {
        return Error(Errc::kUsage, "task " + options.task + ": the deadline must be from 1 ms to 49 days");
    }
    v1::LocalRequest request;
    v1::OpenSend& open = *request.mutable_open_send();
    open.set_task_id(options.task);
    open.set_to(options.to);
    open.set_deadline_ms(static_cast<std::uint32_t>(options.deadline.count()));
    open.set_as_count(options.as_count);
    open.set_can_repeat(options.can_repeat);
    open.set_token(options.token);
    open.set_partial(options.partial);
    open.set_relay(options.relay);
    open.set_answers_progress(options.answers_progress);
    open.set_max_rate(options.max_rate);
    open.set_stream_member(options.stream_member);
    open.set_window(options.window);
    if (options.sample) {
        *open.mutable_sample() = sample_to_proto(*options.sample);
    }
    if (options.merge_window) {
        open.set_merge_window(std::min(*options.merge_window, Combiner::kMaxWindow));
    }
    return request;
}

}  // namespace

class SendSession::Impl {
 public:
    Impl(bool ones, bool pairs, std::uint32_t merge_window, TaskOp op, AgentLink link, TupleRingProducer ring)
        : tuples_(ones, pairs), op_(op), link_(std::move(link)), ring_(std::move(ring)) {
        if (merge_window > 0) {
            combiner_.emplace(combined_by(op), merge_window, make_seed(random_u64));
        }
    }

    static Result<std::unique_ptr<Impl>> open(SendOptions options);
    [[nodiscard]] TaskOp op() const { return op_; }
    [[nodiscard]] std::vector<int> fds() const;
    Result<> send(std::span<const Tuple> tuples) {
        return tuples_.each(tuples, [this](std::span<const Tuple> some) { return hand_in(some); });
    }
    Result<> flush();
    Result<> wait_for_input(int fd);
    Result<> cannot_repeat();
    void note_merged(std::uint64_t tuples) { merged_before_ = tuples; }
    void abandon(const Error& reason, const std::vector<std::string>& lost_relays) {
        link_.give_up(reason, lost_relays);
    }
    Result<TaskStats> finish();

 private:
    Result<> hand_in(std::span<const Tuple> tuples);
    Result<> push(std::span<const Tuple> tuples);
    Result<> wait_for_space();
    void publish();
    auto push_one() {
        return [this](const Tuple& tuple) { return push(std::span(&tuple, 1)); };
    }

    TaskTuples tuples_;
    TaskOp op_;
    AgentLink link_;
    TupleRingProducer ring_;
    std::optional<Combiner> combiner_;
    std::uint64_t merged_before_ = 0;  // tuples, without a combiner here
    std::uint32_t unpublished_ = 0;    // tuples
    std::size_t since_look_ = 0;       // tuples
};

Result<std::unique_ptr<SendSession::Impl>> SendSession::Impl::open(SendOptions options) {
    auto request = open_request(options);
    if (!request) {
        return std::move(request).error();
    }
    auto link = AgentLink::open({.agent = options.agent,
                                 .task = options.task,
                                 .deadline = options.deadline,
                                 .cancel_fd = options.cancel_fd,
                                 .on_progress = std::move(options.on_progress),
                                 .let_go = options.let_go},
                                *request);
    if (!link) {
        return std::move(link).error();
    }
    std::vector<UniqueFd> fds;
    auto reply = link->next(&fds);
    if (!reply) {
        return std::move(reply).error();
    }
    if (reply->kind_case() != v1::LocalReply::kSendReady || fds.size() != kRingFds) {
        return link->unexpected("a tuple ring");
    }
    auto op = op_from_proto(reply->send_ready().op());
    if (!op) {
        return std::move(op).error().with_context("task " + options.task);
    }
    auto ring = TupleRingProducer::open(std::move(fds[0]), std::move(fds[1]), std::move(fds[2]));
    if (!ring) {
        return std::move(ring).error().with_context("task " + options.task);
    }
    const std::uint32_t window = options.merge_window.value_or(reply->send_ready().merge_window());
    // What is partial has become so where it came from.
    const bool as_they_are = options.partial || options.stream_member != 0;
    const bool counts = options.as_count && options.stream_member == 0;
    return std::make_unique<Impl>(counts || (!as_they_are && *op == TaskOp::kCount),
                                  !as_they_are && *op == TaskOp::kMean,
                                  Combiner::useful(window, options.sample ? options.sample->expected : 0),
                                  *op, *std::move(link), *std::move(ring));
}

std::vector<int> SendSession::Impl::fds() const {
    std::vector<int> all{link_.fd()};
    for (const int fd : ring_.fds()) {
        all.push_back(fd);
    }
    return all;
}

Result<> SendSession::Impl::hand_in(std::span<const Tuple> tuples) {
    if (combiner_) {
        ASK_PASS(combiner_->add(tuples, push_one()));
    } else {
        ASK_PASS(push(tuples));
    }
    // Merged ones count too: a task may fail while hardly anything has to travel.
    since_look_ += tuples.size();
    if (since_look_ < kLookEvery) {
        return {};
    }
    since_look_ = 0;
    publish();
    return link_.poll();
}

Result<> SendSession::Impl::push(std::span<const Tuple> tuples) {
    const auto too_long =
        std::ranges::find_if(tuples, [](const Tuple& tuple) { return tuple.key.size() > ASK_MAX_KEY; });
    if (too_long != tuples.end()) {
        return Error(Errc::kLimit, "a key of " + std::to_string(too_long->key.size()) +
                                       " bytes; the limit is " + std::to_string(ASK_MAX_KEY));
    }
    while (!tuples.empty()) {
        const std::size_t some = std::min<std::size_t>(tuples.size(), kPublishEvery - unpublished_);
        const std::size_t pushed = ring_.try_push(tuples.first(some));
        unpublished_ += static_cast<std::uint32_t>(pushed);
        tuples = tuples.subspan(pushed);
        if (pushed < some) {
            ASK_PASS(wait_for_space());
        } else if (unpublished_ == kPublishEvery) {
            publish();
        }
    }
    return {};
}

void SendSession::Impl::publish() {
    ring_.set_merged(combiner_ ? combiner_->merged() : merged_before_);
    ring_.publish();
    unpublished_ = 0;
}

// Until there is room for any tuple. Asking for much at once keeps both sides from waking each other for
// every tuple.
Result<> SendSession::Impl::wait_for_space() {
    publish();
    while (!ring_.arm(ring_.bytes() / 4)) {
        ASK_PASS(link_.wait_owed(ring_.space_event()));
    }
    return {};
}

Result<> SendSession::Impl::flush() {
    publish();
    return link_.poll();
}

Result<> SendSession::Impl::wait_for_input(int fd) {
    auto flushed = flush();
    return flushed ? link_.wait_readable(fd) : std::move(flushed);
}

Result<> SendSession::Impl::cannot_repeat() {
    v1::LocalRequest request;
    request.mutable_cannot_repeat();
    return link_.request(request);
}

Result<TaskStats> SendSession::Impl::finish() {
    if (combiner_) {
        ASK_PASS(combiner_->drain(push_one()));
    }
    publish();
    v1::LocalRequest request;
    request.mutable_finish_send();
    if (auto sent = link_.request(request); !sent) {
        return std::move(sent).error();
    }
    auto reply = link_.next();
    if (!reply) {
        return std::move(reply).error();
    }
    if (reply->kind_case() != v1::LocalReply::kDone) {
        return link_.unexpected("the end of the task");
    }
    TaskStats stats = stats_from_proto(reply->done().stats());
    stats.seconds = reply->done().seconds();
    return stats;
}

SendSession::SendSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SendSession::SendSession(SendSession&&) noexcept = default;
SendSession& SendSession::operator=(SendSession&&) noexcept = default;
SendSession::~SendSession() = default;

Result<SendSession> SendSession::open(SendOptions options) {
    auto impl = Impl::open(std::move(options));
    if (!impl) {
        return std::move(impl).error();
    }
    return SendSession(*std::move(impl));
}

TaskOp SendSession::op() const {
    return impl_->op();
}
std::vector<int> SendSession::fds() const {
    return impl_->fds();
}
Result<> SendSession::send(std::string_view key, std::int64_t value) {
    const Tuple tuple(key, value);
    return impl_->send(std::span(&tuple, 1));
}
Result<> SendSession::send(std::span<const Tuple> tuples) {
    return impl_->send(tuples);
}
Result<> SendSession::flush() {
    return impl_->flush();
}
Result<> SendSession::wait_for_input(int fd) {
    return impl_->wait_for_input(fd);
}
Result<> SendSession::cannot_repeat() {
    return impl_->cannot_repeat();
}
void SendSession::note_merged(std::uint64_t tuples) {
    impl_->note_merged(tuples);
}
void SendSession::abandon(const Error& reason, const std::vector<std::string>& lost_relays) {
    impl_->abandon(reason, lost_relays);
}
Result<TaskStats> SendSession::finish() {
    return impl_->finish();
}

}  // namespace ask::client
