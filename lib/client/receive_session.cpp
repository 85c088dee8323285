// SPDX-License-Identifier: Apache-2.0
#include "lib/client/receive_session.h"

#include <algorithm>
#include <utility>

#include "lib/client/agent_link.h"
#include "lib/client/convert.h"

namespace ask::client {
namespace {

constexpr Nanos kLongestSwapInterval = 3600 * kSecond;
constexpr std::size_t kTableFds = 2;

Result<> check(const ReceiveOptions& options) {
    if (auto id = check_task_id(options.task); !id) {
        return id;
    }
    const std::string task = "task " + options.task + ": ";
    if (options.senders == 0) {
        return Error(Errc::kUsage, task + "the number of senders must be at least 1");
    }
    if (options.deadline.count() <= 0 || options.deadline.count() > UINT32_MAX) {
        return Error(Errc::kUsage, task + "the deadline must be from 1 ms to 49 days");
    }
    if (options.no_switch && options.require_region) {
        return Error(Errc::kUsage, task + "a region is required and the switch is left out: choose one");
    }
    if (options.aggregators > ASK_MAX_AGGREGATORS) {
        return Error(Errc::kUsage, task + std::to_string(options.aggregators) +
                                       " aggregators; the limit is " + std::to_string(ASK_MAX_AGGREGATORS));
    }
    if (options.swap && (options.swap->interval < 0 || options.swap->interval > kLongestSwapInterval)) {
        return Error(Errc::kUsage, task + "a swap interval must be from 1 ms to an hour");
    }
    if (options.geometry && options.auto_geometry) {
        return Error(Errc::kUsage, task + "a geometry is given and to be chosen: which?");
    }
    if (options.geometry) {
        ASK_TRY(validate(*options.geometry), "task " + options.task);
    }
    return {};
}

v1::LocalRequest open_request(const ReceiveOptions& options) {
    v1::LocalRequest request;
    v1::OpenReceive& open = *request.mutable_open_receive();
    open.set_task_id(options.task);
    open.set_senders(options.senders);
    open.set_op(op_to_proto(options.op));
    open.set_deadline_ms(static_cast<std::uint32_t>(options.deadline.count()));
    if (options.geometry) {
        v1::Geometry& geometry = *open.mutable_geometry();
        geometry.set_short_slots(options.geometry->short_slots);
        geometry.set_groups(options.geometry->groups);
        geometry.set_m(options.geometry->m);
        geometry.set_rows(options.geometry->rows);
    }
    open.set_aggregators(options.aggregators);
    if (options.swap) {
        v1::SwapSettings& swap = *open.mutable_swap();
        swap.set_packets(options.swap->packets);
        swap.set_tuples(options.swap->tuples);
        swap.set_interval_ms(static_cast<std::uint32_t>(options.swap->interval / kMillisecond));
    }
    open.set_no_switch(options.no_switch);
    open.set_require_region(options.require_region);
    open.set_policy(policy_to_proto(options.policy));
    open.set_auto_geometry(options.auto_geometry);
    return request;
}

ReceiveInfo info_from_proto(const v1::ReceiveReady& ready) {
    ReceiveInfo info;
    info.instance = ready.instance();
    info.geometry.short_slots = static_cast<std::uint8_t>(ready.geometry().short_slots());
    info.geometry.groups = static_cast<std::uint8_t>(ready.geometry().groups());
    info.geometry.m = static_cast<std::uint8_t>(ready.geometry().m());
    info.geometry.rows = static_cast<std::uint8_t>(ready.geometry().rows());
    info.aggregators = ready.aggregators();
    info.note = ready.note();
    info.geometry_reason = ready.geometry_reason();
    return info;
}

std::vector<NamedStats> senders_from_proto(const v1::Done& done) {
    std::vector<NamedStats> senders;
    const int count = std::min(done.per_sender_size(), done.sender_names_size());
    for (int i = 0; i < count; ++i) {
        senders.push_back({done.sender_names(i), stats_from_proto(done.per_sender(i))});
        senders.back().stats.seconds = done.seconds();
    }
    return senders;
}

}  // namespace

class ReceiveSession::Impl {
 public:
    Impl(std::string task, AgentLink link, ReceiveInfo info)
        : task_(std::move(task)), link_(std::move(link)), info_(std::move(info)) {}

    static Result<std::unique_ptr<Impl>> open(ReceiveOptions options);
    [[nodiscard]] const ReceiveInfo& info() const { return info_; }
    Result<ReceiveResult> wait();

 private:
    std::string task_;
    AgentLink link_;
    ReceiveInfo info_;
};

Result<std::unique_ptr<ReceiveSession::Impl>> ReceiveSession::Impl::open(ReceiveOptions options) {
    if (auto good = check(options); !good) {
        return std::move(good).error();
    }
    auto link = AgentLink::open({.agent = options.agent,
                                 .task = options.task,
                                 .deadline = options.deadline,
                                 .cancel_fd = options.cancel_fd,
                                 .on_progress = std::move(options.on_progress)},
                                open_request(options));
    if (!link) {
        return std::move(link).error();
    }
    auto reply = link->next();
    if (!reply) {
        return std::move(reply).error();
    }
    if (reply->kind_case() != v1::LocalReply::kReceiveReady) {
        return link->unexpected("an open task");
    }
    return std::make_unique<Impl>(options.task, *std::move(link), info_from_proto(reply->receive_ready()));
}

Result<ReceiveResult> ReceiveSession::Impl::wait() {
    std::vector<UniqueFd> fds;
    auto reply = link_.next(&fds);
    if (!reply) {
        return std::move(reply).error();
    }
    if (reply->kind_case() != v1::LocalReply::kDone || fds.size() != kTableFds) {
        return link_.unexpected("a result");
    }
    const v1::Done& done = reply->done();
    auto table = ResultMap::open(std::move(fds[0]), std::move(fds[1]));
    if (!table) {
        return std::move(table).error().with_context("task " + task_);
    }
    ReceiveResult result{*std::move(table), stats_from_proto(done.stats()), senders_from_proto(done),
                         done.fetched(), done.swaps()};
    result.stats.seconds = done.seconds();
    return result;
}

ReceiveSession::ReceiveSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ReceiveSession::ReceiveSession(ReceiveSession&&) noexcept = default;
ReceiveSession& ReceiveSession::operator=(ReceiveSession&&) noexcept = default;
ReceiveSession::~ReceiveSession() = default;

Result<ReceiveSession> ReceiveSession::open(ReceiveOptions options) {
    auto impl = Impl::open(std::move(options));
    if (!impl) {
        return std::move(impl).error();
    }
    return ReceiveSession(*std::move(impl));
}

const ReceiveInfo& ReceiveSession::info() const {
    return impl_->info();
}
Result<ReceiveResult> ReceiveSession::wait() {
    return impl_->wait();
}

}  // namespace ask::client
