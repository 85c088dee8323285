// SPDX-License-Identifier: Apache-2.0
#include "lib/client/receive_session.h"

#include <algorithm>
#include <utility>

#include "lib/base/task_id.h"
#include "lib/client/agent_link.h"
#include "lib/client/convert.h"
#include "lib/client/receive_request.h"
#include "lib/rpc/hosts6.h"
#include "lib/rpc/types.h"

namespace ask::client {
namespace {

constexpr Nanos kLongestSwapInterval = 3600 * kSecond;
constexpr std::size_t kTableFds = 2;
// A run without the switch's memory may still lose its dedupe state; one that goes on failing is nothing to
// wait for.
constexpr std::uint32_t kMostRuns = 3;
constexpr std::chrono::milliseconds kSignEvery{1000};

Result<> check(const ReceiveOptions& options) {
    if (auto id = check_task_id(options.task); !id) {
        return id;
    }
    const std::string task = "task " + options.task + ": ";
    if (options.senders == 0 && options.stream.empty()) {
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
    if (options.geometry && options.default_geometry) {
        return Error(Errc::kUsage, task + "a geometry is given and the default is wanted: which?");
    }
    if (options.allow_incomplete && options.policy == TaskPolicy::kReplace) {
        // Packets of a sender that dies may carry others' tuples there.
        return Error(Errc::kUsage, task + "an incomplete result needs the policy first-come, not replace");
    }
    if (options.geometry) {
        ASK_TRY(validate(*options.geometry), "task " + options.task);
    }
    return {};
}

v1::LocalRequest again_request(const ReceiveOptions& options) {
    v1::LocalRequest request;
    v1::OpenAgain& open = *request.mutable_open_again();
    open.set_task_id(options.task);
    open.set_deadline_ms(static_cast<std::uint32_t>(options.deadline.count()));
    return request;
}

v1::Placement placement_to_proto(const Placement& placement) {
    v1::Placement plan;
    for (const PlacedRelay& relay : placement.relays) {
        v1::PlacedRelay& entry = *plan.add_relays();
        entry.set_name(relay.name);
        entry.set_address(relay.address);
        entry.set_parent(relay.parent);
        entry.set_control(relay.control);
    }
    for (const PlacedHost& host : placement.hosts) {
        v1::PlacedHost& entry = *plan.add_hosts();
        entry.set_name(host.name);
        entry.set_address(host.address);
        entry.set_sends(host.sends);
        entry.set_entry(host.entry);
        entry.set_at(host.at);
    }
    for (const PlacedLink& link : placement.links) {
        v1::PlacedLink& entry = *plan.add_links();
        entry.set_from(link.from);
        entry.set_to(link.to);
        entry.set_messages(link.messages);
        entry.set_bytes(link.bytes);
    }
    return plan;
}

v1::LocalRequest open_request(const ReceiveOptions& options, std::uint32_t run,
                              const std::vector<std::string>& without_switches) {
    v1::LocalRequest request;
    v1::OpenReceive& open = *request.mutable_open_receive();
    const bool again =
        run < kMostRuns && !options.require_region && !options.partial && options.stream.empty();
    fill_open_receive(open, options, again ? Again::kYes : Again::kNo, without_switches);
    open.set_task_id(options.task);
    open.set_stream(options.stream);
    open.set_window(options.window);
    return request;
}

ReceiveInfo info_from_proto(const v1::ReceiveReady& ready) {
    ReceiveInfo info;
    info.instance = ready.instance();
    if (const auto geometry = geometry_fields(ready.geometry()); geometry.ok()) {
        info.geometry = *geometry;
    }
    info.aggregators = ready.aggregators();
    info.note = ready.note();
    info.no_memory = ready.no_memory();
    info.back_bytes = ready.back_bytes();
    info.geometry_reason = ready.geometry_reason();
    info.no_relays = ready.no_relays();
    info.agent = ready.agent();
    info.switch_address = ready.switch_address();
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

ReceiveReport report_from_proto(const v1::Done& done, std::uint32_t runs) {
    ReceiveReport report{
        .stats = stats_from_proto(done.stats()),
        .senders = senders_from_proto(done),
        .kept_for = std::chrono::seconds(done.keep_seconds()),
        .fetched = done.fetched(),
        .swaps = done.swaps(),
        .runs = runs,
        .missing = {},
        .switches = {},
        .without = {},
        .op = op_from_proto(done.op()).ok() ? std::optional(*op_from_proto(done.op())) : std::nullopt,
        .table_bytes_most = done.table_bytes_most(),
        .relays = {},
        .flows = {}};
    report.stats.seconds = done.seconds();
    for (const v1::SwitchOfTask& at : done.switches()) {
        report.switches.push_back({.address = at.address(),
                                   .aggregators = at.aggregators(),
                                   .back_bytes = at.back_bytes(),
                                   .note = at.note(),
                                   .senders = {at.senders().begin(), at.senders().end()},
                                   .swaps = at.swaps(),
                                   .tuples = at.tuples()});
    }
    for (const v1::SenderWithout& without : done.without()) {
        report.without.push_back({without.sender(), without.reason()});
    }
    for (const v1::RelayOfTask& relay : done.relays()) {
        report.relays.push_back({.name = relay.name(),
                                 .address = relay.address(),
                                 .parent = relay.parent(),
                                 .senders = relay.senders(),
                                 .hosts = {relay.hosts().begin(), relay.hosts().end()}});
    }
    for (const v1::FlowsFrom& flows : done.flows()) {
        report.flows.push_back({.host = flows.host(),
                                .relay = flows.relay(),
                                .joined = flows.joined(),
                                .finished = flows.finished(),
                                .packets = flows.packets(),
                                .frame_bytes = flows.frame_bytes(),
                                .retransmissions = flows.retransmissions()});
    }
    for (const v1::Missing& missing : done.missing()) {
        report.missing.push_back({missing.name(), missing.senders(), missing.reason()});
    }
    return report;
}

}  // namespace

std::string describe(const MissingSenders& missing) {
    return missing.name.empty()
               ? "nothing of " + std::to_string(missing.senders) + " sender(s): " + missing.reason
               : "an unknown subset of " + missing.name + "'s tuples: " + missing.reason;
}

void fill_open_receive(v1::OpenReceive& open, const ReceiveOptions& options, Again again,
                       const std::vector<std::string>& without_switches) {
    open.set_senders(options.senders);
    open.set_op(op_to_proto(options.op));
    open.set_deadline_ms(static_cast<std::uint32_t>(options.deadline.count()));
    if (options.geometry) {
        *open.mutable_geometry() = geometry_to_proto(*options.geometry);
    }
    open.set_aggregators(options.aggregators);
    if (options.swap) {
        v1::SwapSettings& swap = *open.mutable_swap();
        swap.set_packets(options.swap->packets);
        swap.set_tuples(options.swap->tuples);
        swap.set_interval_ms(static_cast<std::uint32_t>(options.swap->interval / kMillisecond));
    }
    open.set_no_switch(options.no_switch);
    open.set_own_switches(options.own_switches);
    open.mutable_without_switches()->Add(without_switches.begin(), without_switches.end());
    open.set_no_back(options.no_back);
    open.set_require_region(options.require_region);
    open.set_policy(policy_to_proto(options.policy));
    open.set_auto_geometry(!options.geometry && !options.default_geometry);
    open.set_can_repeat(again == Again::kYes);
    open.set_allow_incomplete(options.allow_incomplete);
    open.mutable_from()->Add(options.from.begin(), options.from.end());
    open.set_token(options.token);
    open.set_partial(options.partial);
    open.set_reserve_bytes(options.reserve);
    open.set_answers_progress(options.answers_progress);
    if (options.place) {
        v1::PlaceWish& wish = *open.mutable_place();
        wish.set_objective(options.place->objective);
        wish.set_k(options.place->k);
        wish.mutable_excluded()->Add(options.place->excluded.begin(), options.place->excluded.end());
    }
    if (options.placement) {
        *open.mutable_placement() = placement_to_proto(*options.placement);
    }
}

class ReceiveSession::Impl {
 public:
    explicit Impl(ReceiveOptions options)
        : options_(std::move(options)), without_switches_(options_.without_switches) {}

    // Of the first run or another.
    Result<> open();
    [[nodiscard]] const ReceiveInfo& info() const { return info_; }
    Result<ReceiveResult> wait();
    void taking(const std::string& waits_for);
    void alive();
    Result<> confirm();
    void abandon(const Error& reason) { link_->give_up(reason); }
    [[nodiscard]] const std::vector<std::string>& lost_relays() const { return link_->lost_relays(); }

 private:
    Result<ReceiveResult> wait_for_run();
    Result<ResultMap> table_of(std::vector<UniqueFd> fds);
    Result<> open_run();
    void tell_lost() const;
    void next_run(const Error& why);
    void plan_again();
    Result<> note_ready(const v1::LocalReply& reply);
    void tell_socket(int fd) {
        if (options_.on_socket) {
            options_.on_socket(fd);
        }
    }

    ReceiveOptions options_;
    std::uint32_t run_ = 1;
    std::vector<std::string> without_switches_;  // that runs before this one have lost, by their addresses
    std::optional<AgentLink> link_;
    ReceiveInfo info_;
    std::chrono::steady_clock::time_point next_sign_;
    bool has_part_ = false;  // its caller has, as the agent knows
    bool ready_ = false;     // what the run got is in info_
};

// Where nothing is sampled, the first that is heard may be that a relay is not to be had.
Result<> ReceiveSession::Impl::open() {
    auto opened = open_run();
    while (!opened && opened.error().code() == Errc::kRunAgain && link_ && options_.stream.empty()) {
        next_run(opened.error());
        opened = open_run();
    }
    if (!opened) {
        tell_lost();
    }
    return opened;
}

void ReceiveSession::Impl::tell_lost() const {
    if (link_ && options_.on_lost) {
        options_.on_lost(link_->lost_relays(), link_->lost_switches());
    }
}

Result<> ReceiveSession::Impl::open_run() {
    // The agent's side of an earlier run is over once it has said so; its end of the socket goes first.
    tell_socket(-1);
    link_.reset();
    auto link = AgentLink::open(
        {.agent = options_.agent,
         .task = options_.task,
         .deadline = options_.deadline,
         .cancel_fd = options_.cancel_fd,
         .on_progress = options_.on_progress,
         .let_go = options_.let_go},
        options_.again ? again_request(options_) : open_request(options_, run_, without_switches_));
    ASK_PASS(link);
    link_ = *std::move(link);
    tell_socket(link_->fd());
    auto reply = link_->next();
    ASK_PASS(reply);
    ready_ = false;
    return reply->kind_case() == v1::LocalReply::kReceiveAccepted ? Result<>() : note_ready(*reply);
}

Result<> ReceiveSession::Impl::note_ready(const v1::LocalReply& reply) {
    if (reply.kind_case() != v1::LocalReply::kReceiveReady) {
        return link_->unexpected("an open task");
    }
    ready_ = true;
    info_ = info_from_proto(reply.receive_ready());
    if (options_.on_open) {
        options_.on_open(info_);
    }
    return {};
}

Result<ReceiveResult> ReceiveSession::Impl::wait() {
    for (;;) {
        auto result = wait_for_run();
        if (result.ok() || result.error().code() != Errc::kRunAgain || !options_.stream.empty()) {
            if (!result) {
                tell_lost();
            }
            return result;
        }
        next_run(result.error());
        ASK_PASS(open());
    }
}

void ReceiveSession::Impl::next_run(const Error& why) {
    if (options_.on_run_again) {
        options_.on_run_again(why);
    }
    ++run_;
    plan_again();
    options_.swap.reset();
    if (!options_.default_geometry && ready_) {
        options_.geometry = info_.geometry;
    }
}

// Without the relays or the switches that were lost, or, on the last run, without anything that could be.
void ReceiveSession::Impl::plan_again() {
    if (options_.own_switches && !options_.no_switch && run_ < kMostRuns && !link_->lost_switches().empty()) {
        without_switches_.insert(without_switches_.end(), link_->lost_switches().begin(),
                                 link_->lost_switches().end());
        return;
    }
    if (options_.placement && run_ < kMostRuns && !link_->lost_relays().empty()) {
        for (const std::string& relay : link_->lost_relays()) {
            options_.placement = options_.placement->without(relay);
        }
        return;
    }
    if (options_.place && run_ < kMostRuns && !link_->lost_relays().empty()) {
        std::vector<std::string>& excluded = options_.place->excluded;
        excluded.insert(excluded.end(), link_->lost_relays().begin(), link_->lost_relays().end());
        return;
    }
    options_.place.reset();
    options_.placement.reset();
    options_.no_switch = true;
}

Result<ReceiveResult> ReceiveSession::Impl::wait_for_run() {
    if (std::exchange(has_part_, false)) {
        v1::LocalRequest taken;
        taken.mutable_part_taken();
        link_->listen_anew();
        ASK_PASS(link_->request(taken));
    }
    std::vector<UniqueFd> fds;
    auto reply = link_->next(&fds);
    ASK_PASS(reply);
    if (!ready_) {
        ASK_PASS(note_ready(*reply));
        reply = link_->next(&fds);
        ASK_PASS(reply);
    }
    const bool part = reply->kind_case() == v1::LocalReply::kPart && options_.reserve > 0;
    if (!part && reply->kind_case() != v1::LocalReply::kDone) {
        return link_->unexpected("a result");
    }
    auto table = table_of(std::move(fds));
    ASK_PASS(table);
    if (part) {
        has_part_ = true;
        ReceiveResult result{*std::move(table), {}, false};
        result.report.table_bytes_most = reply->part().table_bytes_most();
        return result;
    }
    // The result is there, whatever its hosts are called.
    [[maybe_unused]] const auto explained = take_hosts(reply->done());
    auto report = report_from_proto(reply->done(), run_);
    for (const TaskSwitchReport& at : report.switches) {
        info_.aggregators += at.aggregators;
        info_.back_bytes += at.back_bytes;
    }
    return ReceiveResult{*std::move(table), std::move(report), true};
}

Result<ResultMap> ReceiveSession::Impl::table_of(std::vector<UniqueFd> fds) {
    if (fds.size() != kTableFds) {
        return link_->unexpected("a table");
    }
    auto table = ResultMap::open(std::move(fds[0]), std::move(fds[1]));
    ASK_TRY(table, "task " + options_.task);
    return table;
}

void ReceiveSession::Impl::taking(const std::string& waits_for) {
    const auto now = std::chrono::steady_clock::now();
    if (link_ && now >= next_sign_) {
        next_sign_ = now + std::min(kSignEvery, options_.deadline / 4);
        v1::LocalRequest request;
        request.mutable_taking()->set_waits_for(waits_for);
        link_->hint(request);
    }
}

void ReceiveSession::Impl::alive() {
    const auto now = std::chrono::steady_clock::now();
    if (link_ && now >= next_sign_) {
        next_sign_ = now + std::min(kSignEvery, options_.deadline / 4);
        link_->alive();
    }
}

Result<> ReceiveSession::Impl::confirm() {
    v1::LocalRequest request;
    request.mutable_taken();
    link_->listen_anew();
    ASK_PASS(link_->request(request));
    auto reply = link_->next();
    ASK_PASS(reply);
    return reply->kind_case() == v1::LocalReply::kConfirmed ? Result<>()
                                                            : link_->unexpected("a confirmation");
}

ReceiveSession::ReceiveSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ReceiveSession::ReceiveSession(ReceiveSession&&) noexcept = default;
ReceiveSession& ReceiveSession::operator=(ReceiveSession&&) noexcept = default;
ReceiveSession::~ReceiveSession() = default;

Result<ReceiveSession> ReceiveSession::open(ReceiveOptions options) {
    ASK_PASS(check(options));
    auto impl = std::make_unique<Impl>(std::move(options));
    ASK_PASS(impl->open());
    return ReceiveSession(std::move(impl));
}

const ReceiveInfo& ReceiveSession::info() const {
    return impl_->info();
}
Result<ReceiveResult> ReceiveSession::wait() {
    return impl_->wait();
}
const std::vector<std::string>& ReceiveSession::lost_relays() const {
    return impl_->lost_relays();
}
void ReceiveSession::abandon(const Error& reason) {
    impl_->abandon(reason);
}
void ReceiveSession::taking(const std::string& waits_for) {
    impl_->taking(waits_for);
}
void ReceiveSession::alive() {
    impl_->alive();
}
Result<> ReceiveSession::confirm() {
    return impl_->confirm();
}

}  // namespace ask::client
