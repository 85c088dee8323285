// SPDX-License-Identifier: Apache-2.0
#include "relay/sessions.h"

#include <chrono>
#include <utility>

#include "lib/base/event_fd.h"
#include "lib/client/convert.h"
#include "lib/client/receive_session.h"
#include "lib/client/send_session.h"
#include "lib/rpc/types.h"

namespace ask {
namespace {

// An agent that takes longer hangs, or its switch does: the task's next run is refused by it, or is not.
constexpr std::chrono::milliseconds kLetGo{3000};

class ReceivedTable final : public RelayTable {
 public:
    explicit ReceivedTable(client::ReceiveResult result) : result_(std::move(result)) {}
    [[nodiscard]] bool last() const override { return result_.last; }
    [[nodiscard]] std::uint64_t bytes_most() const override { return result_.report.table_bytes_most; }
    [[nodiscard]] Result<> each(const Visit& visit) const override { return result_.table.each_wide(visit); }
    [[nodiscard]] std::vector<v1::FlowsFrom> flows() const override {
        std::vector<v1::FlowsFrom> all;
        all.reserve(result_.report.flows.size());
        for (const client::FlowsFromReport& from : result_.report.flows) {
            v1::FlowsFrom& entry = all.emplace_back();
            entry.set_host(from.host);
            entry.set_relay(from.relay);
            entry.set_joined(from.joined);
            entry.set_finished(from.finished);
            entry.set_packets(from.packets);
            entry.set_frame_bytes(from.frame_bytes);
            entry.set_retransmissions(from.retransmissions);
        }
        return all;
    }

 private:
    client::ReceiveResult result_;
};

class ReceiveBelow final : public RelayBelow {
 public:
    explicit ReceiveBelow(client::ReceiveOptions options) : options_(std::move(options)) {}

    Result<v1::OpenRelayReply> open() override {
        auto session = client::ReceiveSession::open(options_);
        ASK_PASS(session);
        session_ = *std::move(session);
        const client::ReceiveInfo& info = session_->info();
        v1::OpenRelayReply reply;
        reply.set_agent(info.agent);
        reply.set_aggregators(info.aggregators);
        reply.set_note(info.aggregators == 0 ? info.note : "");
        reply.set_switch_address(info.switch_address);
        return reply;
    }
    Result<std::unique_ptr<RelayTable>> next() override {
        auto result = session_->wait();
        ASK_PASS(result);
        return std::unique_ptr<RelayTable>(std::make_unique<ReceivedTable>(*std::move(result)));
    }
    void taking(const std::string& waits_for) override { session_->taking(waits_for); }
    void alive() override { session_->alive(); }
    [[nodiscard]] std::vector<std::string> lost_relays() const override { return session_->lost_relays(); }
    void abandon(const Error& why) override { session_->abandon(why); }
    Result<> confirm() override { return session_->confirm(); }
    void close() { session_.reset(); }

 private:
    const client::ReceiveOptions options_;
    std::optional<client::ReceiveSession> session_;
};

class SendAbove final : public RelayAbove {
 public:
    explicit SendAbove(client::SendOptions options) : options_(std::move(options)) {}

    Result<> open() override {
        auto session = client::SendSession::open(options_);
        ASK_PASS(session);
        session_ = *std::move(session);
        return {};
    }
    Result<> send(std::span<const Tuple> tuples) override { return session_->send(tuples); }
    Result<> flush() override { return session_->flush(); }
    Result<> cannot_repeat() override { return session_->cannot_repeat(); }
    Result<> finish() override {
        const auto finished = session_->finish();
        ASK_PASS(finished);
        return {};
    }
    void abandon(const Error& why, const std::vector<std::string>& lost_relays) override {
        session_->abandon(why, lost_relays);
    }
    void close() { session_.reset(); }

 private:
    const client::SendOptions options_;
    std::optional<client::SendSession> session_;
};

RelayProgress progress_of(const client::TaskProgress& now) {
    return {.senders_joined = now.senders_joined,
            .senders_finished = now.senders_finished,
            .tuples_in = now.stats.tuples_in,
            .cannot_repeat = now.cannot_repeat,
            .table_bytes_most = now.table_bytes_most};
}

class ClientSessions final : public RelaySessions {
 public:
    ClientSessions(const std::string& agent, const v1::OpenRelayRequest& order, std::uint64_t reserve_bytes,
                   RelayHooks hooks)
        : hooks_(std::move(hooks)),
          below_(receive_options(agent, order, reserve_bytes)),
          above_(send_options(agent, order)) {}

    RelayBelow& below() override { return below_; }
    RelayAbove& above() override { return above_; }
    void cancel() override { cancel_.notify(); }
    void close() override {
        below_.close();
        above_.close();
    }

 private:
    client::ReceiveOptions receive_options(const std::string& agent, const v1::OpenRelayRequest& order,
                                           std::uint64_t reserve_bytes) {
        client::ReceiveOptions options;
        options.agent = agent;
        options.task = order.own_task_id();
        options.senders = order.senders();
        // Known: whoever opened it has looked.
        const auto op = client::op_from_proto(order.op());
        options.op = op.ok() ? *op : client::TaskOp::kSum;
        options.deadline = std::chrono::milliseconds(order.deadline_ms());
        if (const auto geometry = geometry_fields(order.geometry()); geometry.ok()) {
            options.geometry = *geometry;
        }
        options.aggregators = order.aggregators();
        options.partial = true;
        options.answers_progress = true;
        options.let_go = kLetGo;
        options.reserve = reserve_bytes;
        options.token = order.own_token();
        options.cancel_fd = cancel_.fd();
        options.on_progress = [this](const client::TaskProgress& now) { hooks_.on_below(progress_of(now)); };
        return options;
    }
    client::SendOptions send_options(const std::string& agent, const v1::OpenRelayRequest& order) {
        client::SendOptions options;
        options.agent = agent;
        options.task = order.parent_task_id();
        options.to = order.parent();
        options.merge_window = 0;  // every key comes once
        options.deadline = std::chrono::milliseconds(order.deadline_ms());
        options.can_repeat = true;  // as long as all those below can
        options.partial = true;
        options.relay = order.name();
        options.answers_progress = true;
        options.let_go = kLetGo;
        options.token = order.parent_token();
        options.cancel_fd = cancel_.fd();
        options.on_progress = [this](const client::TaskProgress& now) { hooks_.on_above(now.waits_for); };
        return options;
    }

    const RelayHooks hooks_;
    EventFd cancel_;
    ReceiveBelow below_;
    SendAbove above_;
};

}  // namespace

MakeRelaySessions relay_sessions(std::string agent) {
    return [agent = std::move(agent)](const v1::OpenRelayRequest& order, std::uint64_t reserve_bytes,
                                      RelayHooks hooks) {
        return std::unique_ptr<RelaySessions>(
            std::make_unique<ClientSessions>(agent, order, reserve_bytes, std::move(hooks)));
    };
}

}  // namespace ask
