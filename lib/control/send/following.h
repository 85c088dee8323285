// SPDX-License-Identifier: Apache-2.0
//
// A member of a stream (ask-send --follow): asks its receiver's agent how far the stream is, one call held
// back there at a time, and tells the application of what has changed. The windows are sends of their own.
// Sequential code in a thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "lib/control/member/beside.h"
#include "lib/control/member/member.h"
#include "lib/control/member/peer_port.h"
#include "lib/control/member/session_io.h"
#include "lib/control/send/clock_offset.h"
#include "proto/agent.pb.h"

namespace ask {

class Following {
 public:
    Following(Member& member, SessionIo& io, v1::FollowStream request);
    // Answers the application and leaves nothing behind, however it ends.
    void run();

 private:
    Result<> run_steps();
    Result<> find_receiver();
    Result<> follow();
    Result<> handle(const SessionIo::Wake& wake);
    Result<> take_request(const v1::FollowStream& request);
    void start_call();
    Result<> take_answer();
    Result<> note_failed(const Error& error);
    Result<> note_known(const google::protobuf::RepeatedField<std::uint64_t>& windows);
    void take_windows(const v1::FollowStreamReply& reply);
    void note_answer(const v1::FollowStreamReply& reply);
    Result<> tell();
    [[nodiscard]] v1::FollowStreamRequest call_request() const;
    // It has been told of windows of its own: from then on nothing but its application ends it.
    [[nodiscard]] bool is_member() const;
    // Nothing is waited for any more.
    [[nodiscard]] bool is_done() const;
    void say_lost();
    void describe();

    Member& member_;
    SessionIo& io_;
    v1::FollowStream request_;
    const std::uint64_t session_;  // in the list of what is followed
    milliseconds deadline_{0};
    Clock::time_point give_up_at_;  // to find the stream
    std::optional<Clock::time_point> refused_since_;
    std::string peer_;     // "h4 (198.18.4.2)"
    std::string control_;  // "198.18.4.2:4791"
    std::unique_ptr<PeerPort> receiver_;

    using Answer = Result<v1::FollowStreamReply>;
    using Call = CallBeside<std::function<Answer(CallCancel*)>>;
    std::unique_ptr<Call> call_;
    std::int64_t asked_ms_ = 0;
    unsigned calls_ = 0;
    Clock::time_point next_call_ = Clock::now();
    bool was_member_ = false;
    // That the application has heard of, from this agent or one before it, and that are not committed; it
    // hears of no others.
    std::set<std::uint64_t> known_;
    ClockOffset clock_;
    std::uint64_t version_ = 0;
    v1::StreamState state_;  // as of now
    v1::StreamState told_;   // as the application knows it
    bool has_told_ = false;
    std::string trouble_;  // why nothing is heard
};

}  // namespace ask
