// SPDX-License-Identifier: Apache-2.0
//
// What all gRPC calls of the agent share: deadlines, errors that name the peer, and channels that do not give
// up on a peer which comes up late.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <grpc/support/time.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include "lib/base/result.h"
#include "lib/base/runtime.h"
#include "lib/control/member/call_cancel.h"
#include "lib/daemon/grpc_status.h"
#include "lib/rpc/clean_message.h"
#include "lib/rpc/credentials.h"
#include "lib/rpc/hosts6.h"

namespace ask {

using std::chrono::milliseconds;

// gRPC channels by address ("198.18.1.1:4792"), and the calls that are under way. Thread-safe.
//
// gRPC's own timers wait for times of day: when the wall clock is set back, they come late by as much, and
// so would the end of a call that nobody answers. A thread with a monotonic clock ends such calls as well.
class RpcChannels {
 public:
    explicit RpcChannels(std::shared_ptr<RpcCredentials> credentials);
    ~RpcChannels();
    RpcChannels(const RpcChannels&) = delete;
    RpcChannels& operator=(const RpcChannels&) = delete;
    // Kept for a while after its last user, so that the next need not shake hands again; made anew once our
    // certificate has changed.
    std::shared_ptr<grpc::Channel> get(const std::string& address);
    [[nodiscard]] const RpcCredentials& credentials() const { return *credentials_; }
    // That are there, in use or kept.
    [[nodiscard]] std::size_t size();
    // Addresses (HOST:PORT) that a switch's certificate says are its own; the first ones, of a bounded
    // number.
    void learn_switch(const std::vector<std::string>& addresses);
    [[nodiscard]] bool is_learned(const std::string& address);
    // Ends the calls that are under way now; later ones are not affected. For the daemon's end.
    void cancel_calls();

 private:
    friend class RpcCall;
    void end_overdue_calls();

    Mutex mutex_;
    CondVar stopping_;
    bool stop_ = false;
    struct Kept {
        std::shared_ptr<grpc::Channel> channel;
        std::uint64_t generation = 0;  // of the credentials
        std::uint64_t used = 0;        // by the count of uses, the last time
    };
    // Under mutex_.
    void drop_unused();

    const std::shared_ptr<RpcCredentials> credentials_;
    std::map<std::string, Kept> channels_;
    std::set<std::string> learned_;
    std::uint64_t uses_ = 0;
    std::map<grpc::ClientContext*, Clock::time_point> calls_;  // and when each is ended from here
    Thread watch_;
};

// What a call's time is for: its whole answer, or each part of a stream, which may be long.
enum class RpcWait : std::uint8_t { kWhole, kEachPart };

// The context of one call, known to `channels` while it lives, and to `cancel` if there is one.
class RpcCall {
 public:
    RpcCall(RpcChannels& channels, milliseconds wait, CallCancel* cancel = nullptr,
            RpcWait kind = RpcWait::kWhole);
    ~RpcCall();
    RpcCall(const RpcCall&) = delete;
    RpcCall& operator=(const RpcCall&) = delete;

    [[nodiscard]] grpc::ClientContext& context() { return context_; }
    // A part has come: the time for the next one begins.
    void next_part();
    // How the call ended: one that was ended because its time was over says so.
    [[nodiscard]] grpc::Status verdict(const grpc::Status& status) const;

 private:
    RpcChannels& channels_;
    const milliseconds wait_;
    Clock::time_point deadline_;
    grpc::ClientContext context_;
    CancelScope cancel_;  // after what it ends
};

// A span, which gRPC takes from now on by the monotonic clock: of a time of day it would make one by reading
// the wall clock a second time, and that may have been stepped in between.
inline void set_deadline(grpc::ClientContext& context, milliseconds wait) {
    context.set_deadline(gpr_time_from_millis(wait.count(), GPR_TIMESPAN));
}

// The request with what the other end has to know of the hosts in it.
template <typename Request>
Request explained(Request request) {
    if constexpr (HasHosts6<Request>) {
        explain_hosts(request);
    }
    return request;
}

// What is done to every reply before anybody looks at it.
template <typename Reply>
Result<> take_reply(Reply& reply, const std::string& peer) {
    clean_strings(reply);
    if constexpr (HasHosts6<Reply>) {
        ASK_TRY(take_hosts(reply), peer);
    }
    return {};
}

// Calls `method` of `stub` once. The error names `peer`.
template <typename Stub, typename Request, typename Reply>
Result<Reply> call_rpc(RpcChannels& channels, Stub& stub,
                       grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                       const Request& request, milliseconds wait, const std::string& peer,
                       CallCancel* cancel = nullptr) {
    RpcCall call(channels, wait, cancel);
    Reply reply;
    const grpc::Status status = call.verdict((stub.*method)(&call.context(), explained(request), &reply));
    if (!status.ok()) {
        return from_status(status, peer);
    }
    ASK_PASS(take_reply(reply, peer));
    return reply;
}

}  // namespace ask
