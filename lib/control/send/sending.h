// SPDX-License-Identifier: Apache-2.0
//
// One send of an application (ask-send), from OpenSend to Done: finds the receiver, gets a channel, registers
// it at the task's switch, joins, streams, and reports success once the receiver has committed the result.
// Sequential code in a thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include <spdlog/common.h>

#include "lib/control/member/beside.h"
#include "lib/control/member/member.h"
#include "lib/control/member/peer_port.h"
#include "lib/control/member/session_io.h"
#include "proto/agent.pb.h"

namespace ask {

class Sending {
 public:
    Sending(Member& member, SessionIo& io, v1::OpenSend request);
    // Answers the application and leaves nothing behind, however it ends.
    void run();

 private:
    Result<> run_steps();
    // Of a stream: one comes each second.
    [[nodiscard]] bool is_window() const { return request_.window() != 0; }
    [[nodiscard]] spdlog::level::level_enum log_level() const {
        return is_window() ? spdlog::level::debug : spdlog::level::info;
    }
    // Steps, each until the deadline.
    Result<> find_receiver();
    Result<> join_task();
    Result<> stream_to_commit();
    // Of what goes by a relay: that has failed or gone, and the receiver's word decides.
    Result<> ask_receiver(const Error& trouble);
    Result<> await_outcome();

    // One try of joining; once it has failed, `retry_` says whether another one may do better.
    Result<> try_join();
    // As the receiver has it, or, where that says so, as a relay has its part of it.
    Result<v1::TaskOffer> find_task();
    Result<v1::TaskOffer> look_up(const std::string& task_id);
    Error explain_look_up(const Error& error);
    // Whom calls go to.
    struct Peer {
        std::uint32_t address = 0;
        std::string name;     // "h4 (198.18.4.2)"
        std::string control;  // "198.18.4.2:4791"
        std::string token;    // that it wants to see
    };
    void turn_to(const Peer& peer);
    Result<> turn_to_relay(const v1::TaskOffer& offer);
    Result<> check_offer(const v1::TaskOffer& offer) const;
    Result<> get_channel();
    void take_other_channel();
    Result<> leave_switch();
    // The switch that it is to register at; switch_id 0: none.
    [[nodiscard]] Mark wanted_mark() const;
    // Address of this host's, which packets to others pass first; empty: none is configured.
    [[nodiscard]] std::string own_switch() const;
    Error note_unregistered(const Error& why);
    // Until when a switch is asked again that does not answer, rather than be done without.
    [[nodiscard]] Clock::time_point patient_until() const;
    Result<> start_afresh();
    // As the switch last said.
    [[nodiscard]] bool is_registered(const v1::TaskOffer& offer) const;
    Result<> register_channel(const v1::TaskOffer& offer);
    Result<v1::JoinReply> register_and_join(const v1::TaskOffer& offer);
    Result<v1::JoinReply> call_join(const v1::TaskOffer& offer);
    Result<> begin_stream(const v1::JoinReply& reply);
    Result<> set_path(std::uint32_t receiver);

    Result<> handle(const SessionIo::Wake& wake);
    Result<> handle_request(const v1::LocalRequest& request);
    Result<> handle_renewed();
    void note_fin_acked();
    Result<> tick();
    Result<> check_progress() const;
    void start_renew();
    void show_progress();
    void describe(const std::string& state);
    [[nodiscard]] v1::AgentTask description(const std::string& state) const;
    [[nodiscard]] StreamState stream_state() const;
    // Runs `call(CallCancel*)`, which waits for somebody else, while the session listens. Fails if the
    // session is to end; else the call's own result is inside.
    template <typename Call>
    auto ask(Call call) -> Result<std::invoke_result_t<Call&, CallCancel*>>;
    // Until something happens, before the stream is ready; fails if the application or the daemon ends
    // meanwhile.
    Result<> listen(Clock::time_point until);
    void show_waiting();
    Result<> pause();
    Result<Path> find_way(std::uint32_t receiver);

    Result<> report_done();
    void give_up(const Error& error);
    void put_channel_back(bool clean);
    void leave(const Error& reason);
    void give_place_back(const Error& reason);
    Result<> unregister(CallCancel* cancel = nullptr);

    Member& member_;
    SessionIo& io_;
    v1::OpenSend request_;
    const std::uint64_t sender_;  // what the receiver knows this send by
    milliseconds deadline_{0};
    milliseconds renew_every_{0};
    Clock::time_point give_up_at_;
    const Clock::time_point started_ = Clock::now();

    Peer root_;  // the receiver
    // It, or a relay on the way to it, which then is all that it is for whoever sends.
    std::uint32_t peer_address_ = 0;
    std::string peer_;
    std::string peer_control_;
    std::string token_;
    bool local_ = false;
    std::unique_ptr<PeerPort> receiver_;
    std::unique_ptr<Renewal> renew_;         // of receiver_
    std::optional<std::uint64_t> by_relay_;  // the task's instance at the receiver

    // The task's instance, from when its receiver has said where to send until something is: one with a
    // placement counts those that it has told.
    std::optional<std::uint64_t> told_;

    v1::TaskOffer offer_;
    std::optional<ChannelLease> lease_;
    std::uint64_t lease_instance_ = 0;  // that the channel was taken for
    bool can_repeat_;                   // the application could send everything once more
    bool retry_ = false;
    std::string without_;  // why it goes past its own switch, which the task is open on; empty: it does not
    bool joined_ = false;
    bool streaming_ = false;
    bool finished_ = false;  // the application has handed in everything
    bool computed_ = false;  // its result is there, and not taken yet
    bool fin_acked_ = false;
    std::uint32_t receiver_address_ = 0;
    bool whole_keys_ = false;  // agreed
    SenderStats final_stats_;  // once fin_acked_
    Clock::time_point last_answer_;
    Clock::time_point next_renew_;
    bool unanswered_ = false;  // the last Renew
    Clock::time_point next_path_;
    std::string trouble_;    // what kept it from getting on last, as the receiver says, or the switch
    std::string waits_for_;  // what the receiver waits for, and takes nothing meanwhile, as it says
    Clock::time_point last_waiting_{};    // when it said so
    std::optional<v1::Outcome> outcome_;  // once the task has ended
};

template <typename Call>
auto Sending::ask(Call call) -> Result<std::invoke_result_t<Call&, CallCancel*>> {
    return run_beside(
        io_.mailbox(), std::move(call), [this](Clock::time_point until) { return listen(until); },
        [this] { show_waiting(); });
}

}  // namespace ask
