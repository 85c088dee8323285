// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/relayd.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/tuples/application.h"
#include "tests/sim/tuples/apps.h"

namespace ask::sim {

namespace {

constexpr Nanos kRelayTick = 500 * kMillisecond;
constexpr Nanos kSignEvery = kSecond;
// With an agent that says nothing.
constexpr Nanos kAgentPatience = 15 * kSecond;

// One of the two: what lib/client's AgentLink does.
class RelayLink {
 public:
    // `cancelled` is of both.
    RelayLink(Host& agent, const bool& cancelled) : agent_(agent), cancelled_(cancelled) {}

    std::function<void(const v1::Progress& progress)> on_progress;

    Result<> connect(v1::LocalRequest request) {
        if (!agent_.up()) {
            return Error(Errc::kUnavailable, "the agent is not there");
        }
        app_ = std::make_unique<AppEnd>(agent_.open(std::move(request)));
        return {};
    }
    [[nodiscard]] bool is_open() const { return app_ != nullptr; }
    [[nodiscard]] Link& link() { return app_->link(); }
    void say(v1::LocalRequest request) { app_->say(std::move(request)); }
    // The next reply that is no Progress.
    Result<v1::LocalReply> next() {
        for (;;) {
            const Nanos give_up_at = sim_now() + kAgentPatience;
            while (link().replies.empty() && !link().session_gone && !cancelled_) {
                if (sim_now() >= give_up_at) {
                    return Error(Errc::kUnavailable, "the agent is silent");
                }
                park(link().to_application.get(), give_up_at);
            }
            auto reply = take();
            ASK_PASS(reply);
            if (*reply) {
                return *std::move(*reply);
            }
        }
    }
    // What has come by now; anything but Progress is an error.
    Result<> poll() {
        while (!link().replies.empty() || link().session_gone) {
            auto reply = take();
            ASK_PASS(reply);
            if (*reply) {
                return Error(Errc::kInternal, "an answer that nobody has asked for");
            }
        }
        return {};
    }
    void give_up(const Error& why, const std::vector<std::string>& lost) {
        v1::LocalRequest request;
        v1::GiveUp& give_up = *request.mutable_give_up();
        give_up.set_reason(why.text());
        give_up.set_code(static_cast<std::int32_t>(why.code()));
        give_up.mutable_lost_relays()->Add(lost.begin(), lost.end());
        say(std::move(request));
    }
    void close() { app_.reset(); }
    void wake_up() {
        if (app_) {
            wake(*link().to_application);
        }
    }
    [[nodiscard]] const std::vector<std::string>& lost_relays() const { return lost_relays_; }

 private:
    // Nothing: it was a Progress.
    Result<std::optional<v1::LocalReply>> take() {
        if (link().replies.empty()) {
            return cancelled_ ? Error(Errc::kAborted, "cancelled")
                              : Error(Errc::kUnavailable, "the agent has died");
        }
        v1::LocalReply reply = std::move(link().replies.front());
        link().replies.pop_front();
        wake(*link().to_session);
        if (reply.has_progress() && reply.progress().wants_answer() && !link().session_gone) {
            v1::LocalRequest alive;
            alive.mutable_alive();
            say(std::move(alive));
        }
        if (reply.has_progress()) {
            on_progress(reply.progress());
            return cancelled_ ? Result<std::optional<v1::LocalReply>>(Error(Errc::kAborted, "cancelled"))
                              : std::optional<v1::LocalReply>();
        }
        if (reply.has_failed()) {
            const v1::Failed& failed = reply.failed();
            lost_relays_.assign(failed.lost_relays().begin(), failed.lost_relays().end());
            return Error(errc_from_number(failed.code(), Errc::kInternal), failed.error());
        }
        return std::optional<v1::LocalReply>(std::move(reply));
    }

    Host& agent_;
    const bool& cancelled_;
    std::unique_ptr<AppEnd> app_;
    std::vector<std::string> lost_relays_;
};

class SealedPart final : public RelayTable {
 public:
    SealedPart(std::shared_ptr<const SimSealed> table, bool last, std::vector<v1::FlowsFrom> flows = {})
        : table_(std::move(table)), last_(last), flows_(std::move(flows)) {}
    [[nodiscard]] bool last() const override { return last_; }
    [[nodiscard]] std::uint64_t bytes_most() const override { return 0; }
    [[nodiscard]] std::vector<v1::FlowsFrom> flows() const override { return flows_; }
    [[nodiscard]] Result<> each(const Visit& visit) const override {
        auto& table = const_cast<SimSealed&>(*table_).table;
        const auto& memory = static_cast<const ReadableMemory&>(table.memory());
        const auto view = TableView::open(memory.slots, memory.keys);
        ASK_PASS(view);
        return view->each_wide(visit);
    }

 private:
    std::shared_ptr<const SimSealed> table_;
    const bool last_;
    const std::vector<v1::FlowsFrom> flows_;
};

class SimBelow final : public RelayBelow {
 public:
    // No reserve: all of its table comes at the end.
    SimBelow(RelayLink& link, Oracle& oracle, std::string relay, const v1::OpenRelayRequest& order,
             std::uint64_t reserve)
        : link_(link), oracle_(oracle), relay_(std::move(relay)), order_(order), reserve_(reserve) {}

    Result<v1::OpenRelayReply> open() override {
        v1::LocalRequest request;
        v1::OpenReceive& open = *request.mutable_open_receive();
        open.set_task_id(order_.own_task_id());
        open.set_senders(order_.senders());
        open.set_op(order_.op());
        open.set_deadline_ms(order_.deadline_ms());
        *open.mutable_geometry() = order_.geometry();
        open.set_aggregators(order_.aggregators());
        open.set_partial(true);
        open.set_answers_progress(true);
        open.set_reserve_bytes(reserve_);
        open.set_token(order_.own_token());
        ASK_PASS(link_.connect(std::move(request)));
        auto reply = link_.next();
        ASK_PASS(reply);
        if (!reply->has_receive_ready()) {
            return Error(Errc::kInternal, "an answer that does not fit an open task");
        }
        const v1::ReceiveReady& ready = reply->receive_ready();
        oracle_.relays(ready.instance(), order_.instance());
        v1::OpenRelayReply opened;
        opened.set_agent(ready.agent());
        opened.set_aggregators(ready.aggregators());
        opened.set_note(ready.aggregators() == 0 ? ready.note() : "");
        return opened;
    }
    Result<std::unique_ptr<RelayTable>> next() override {
        if (std::exchange(has_part_, false)) {
            v1::LocalRequest request;
            request.mutable_part_taken();
            link_.say(std::move(request));
        }
        auto reply = link_.next();
        ASK_PASS(reply);
        if (reply->has_part() && link_.link().result) {
            has_part_ = true;
            return std::unique_ptr<RelayTable>(std::make_unique<SealedPart>(link_.link().result, false));
        }
        if (!reply->has_done() || !link_.link().result) {
            return Error(Errc::kInternal, "an answer that does not fit a result");
        }
        const auto& names = reply->done().sender_names();
        const auto& flows = reply->done().flows();
        oracle_.came_to_relay(order_.instance(), relay_, {names.begin(), names.end()});
        return std::unique_ptr<RelayTable>(std::make_unique<SealedPart>(
            link_.link().result, true, std::vector<v1::FlowsFrom>(flows.begin(), flows.end())));
    }
    void taking(const std::string& waits_for) override {
        const Nanos now = sim_now();
        if (now < next_sign_ || link_.link().session_gone) {
            return;
        }
        next_sign_ = now + std::min(kSignEvery, Nanos{order_.deadline_ms()} * kMillisecond / 4);
        v1::LocalRequest request;
        request.mutable_taking()->set_waits_for(waits_for);
        link_.say(std::move(request));
    }
    void alive() override {
        if (!link_.link().session_gone) {
            v1::LocalRequest request;
            request.mutable_alive();
            link_.say(std::move(request));
        }
    }
    [[nodiscard]] std::vector<std::string> lost_relays() const override { return link_.lost_relays(); }
    void abandon(const Error& why) override { link_.give_up(why, {}); }
    Result<> confirm() override {
        v1::LocalRequest request;
        request.mutable_taken();
        link_.say(std::move(request));
        auto reply = link_.next();
        ASK_PASS(reply);
        return reply->has_confirmed() ? Result<>() : Error(Errc::kInternal, "no confirmation");
    }

 private:
    RelayLink& link_;
    Oracle& oracle_;
    const std::string relay_;
    const v1::OpenRelayRequest& order_;
    const std::uint64_t reserve_;
    bool has_part_ = false;
    Nanos next_sign_ = 0;
};

class SimAbove final : public RelayAbove {
 public:
    SimAbove(RelayLink& link, Oracle& oracle, const v1::OpenRelayRequest& order)
        : link_(link), oracle_(oracle), order_(order) {}

    Result<> open() override {
        v1::LocalRequest request;
        v1::OpenSend& open = *request.mutable_open_send();
        open.set_task_id(order_.parent_task_id());
        open.set_to(order_.parent());
        open.set_deadline_ms(order_.deadline_ms());
        open.set_can_repeat(true);
        open.set_token(order_.parent_token());
        open.set_partial(true);
        open.set_relay(order_.name());
        open.set_answers_progress(true);
        ASK_PASS(link_.connect(std::move(request)));
        auto reply = link_.next();
        ASK_PASS(reply);
        return reply->has_send_ready() ? Result<>() : Error(Errc::kInternal, "no way to send");
    }
    Result<> send(std::span<const Tuple> tuples) override {
        auto all = std::make_shared<Tuples>(given_.empty() ? Tuples() : *given_.back());
        for (const Tuple& tuple : tuples) {
            all->emplace_back(tuple.key, tuple.value);
        }
        given_.push_back(all);
        SimIntake& intake = *link_.link().intake;
        intake.tuples = all;
        intake.handed_in = all->size();
        if (intake.has_more) {
            intake.has_more();
        }
        park(nullptr, sim_now() + kMicrosecond);
        return link_.poll();
    }
    Result<> flush() override { return link_.poll(); }
    Result<> cannot_repeat() override {
        v1::LocalRequest request;
        request.mutable_cannot_repeat();
        link_.say(std::move(request));
        return {};
    }
    Result<> finish() override {
        v1::LocalRequest request;
        request.mutable_finish_send();
        link_.say(std::move(request));
        auto reply = link_.next();
        ASK_PASS(reply);
        if (!reply->has_done()) {
            return Error(Errc::kInternal, "an answer that does not fit the end of a task");
        }
        oracle_.relay_succeeded(order_.task_id(), order_.instance(), order_.name());
        return {};
    }
    void abandon(const Error& why, const std::vector<std::string>& lost_relays) override {
        link_.give_up(why, lost_relays);
    }

 private:
    RelayLink& link_;
    Oracle& oracle_;
    const v1::OpenRelayRequest& order_;
    std::vector<std::shared_ptr<const Tuples>> given_;  // keys are borrowed until they have left
};

class SimSessions final : public RelaySessions {
 public:
    SimSessions(Host& agent, Oracle& oracle, std::uint32_t host, v1::OpenRelayRequest order,
                std::uint64_t reserve, RelayHooks hooks)
        : order_(std::move(order)),
          hooks_(std::move(hooks)),
          link_below_(agent, cancelled_),
          link_above_(agent, cancelled_),
          below_(link_below_, oracle, full_name(host), order_, reserve),
          above_(link_above_, oracle, order_) {
        link_below_.on_progress = [this](const v1::Progress& now) {
            hooks_.on_below({.senders_joined = now.senders_joined(),
                             .senders_finished = now.senders_finished(),
                             .tuples_in = now.stats().tuples_in(),
                             .cannot_repeat = now.cannot_repeat(),
                             .table_bytes_most = now.table_bytes_most()});
        };
        link_above_.on_progress = [this](const v1::Progress& now) { hooks_.on_above(now.waits_for()); };
    }
    RelayBelow& below() override { return below_; }
    RelayAbove& above() override { return above_; }
    void cancel() override {
        cancelled_ = true;
        link_below_.wake_up();
        link_above_.wake_up();
    }
    void close() override {
        link_below_.close();
        link_above_.close();
    }

 private:
    const v1::OpenRelayRequest order_;
    const RelayHooks hooks_;
    bool cancelled_ = false;
    RelayLink link_below_;
    RelayLink link_above_;
    SimBelow below_;
    SimAbove above_;
};

}  // namespace

RelayDaemon::RelayDaemon(const Cast& cast, Oracle& oracle, std::uint32_t host)
    : Server(cast.world), cast_(cast), oracle_(oracle), host_(host) {}

RelayDaemon::~RelayDaemon() {
    kill();
}

void RelayDaemon::start() {
    cast_.world.note("relay %u: starts", host_);
    constexpr std::uint64_t kRoom = std::uint64_t{4} << 30U;
    RelayLimits limits{
        .memory_bytes = kRoom, .reserve_bytes = 4U << 20U, .parents = {AddressRange{.first = 0, .bits = 0}}};
    if (cast_.world.plan.relay_room > 0) {
        limits.max_relays = cast_.world.plan.relay_room;
    }
    const bool in_parts = cast_.world.plan.relay_part > 0;
    const auto make = [this, in_parts](const v1::OpenRelayRequest& order, std::uint64_t reserve,
                                       RelayHooks hooks) {
        return std::unique_ptr<RelaySessions>(std::make_unique<SimSessions>(
            *cast_.hosts[host_], oracle_, host_, order, in_parts ? reserve : 0, std::move(hooks)));
    };
    relays_ = std::make_unique<Relays>(limits, make);
    boot();
    threads().spawn([this] {
        for (;;) {
            park(nullptr, cast_.world.clock.now() + kRelayTick);
            relays_->tick();
        }
    });
}

void RelayDaemon::kill() {
    if (!up()) {
        return;
    }
    cast_.world.note("relay %u: is killed", host_);
    die();
    relays_.reset();
}

void RelayDaemon::stop() {
    cast_.world.note("relay %u: is stopped", host_);
    threads().stop();
}

void RelayDaemon::go_on() {
    if (threads().stopped()) {
        cast_.world.note("relay %u: goes on", host_);
        threads().go_on();
    }
}

void RelayDaemon::check_nothing_left() {
    if (up() && !threads().stopped() && relays_->size() > 0) {
        cast_.world.fail(Promise::kLeft, "relay " + std::to_string(host_) + ": tasks are left over");
    }
}

}  // namespace ask::sim
