// SPDX-License-Identifier: Apache-2.0
//
// Calls to an ask-switchd. Thread-safe; every call has a deadline, and its error names the switch.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "agent/rpc.h"
#include "lib/tuples/types.h"
#include "proto/switch.grpc.pb.h"

namespace ask {

// A task's copy as it came, whole and checked, and what the switch counted.
struct FetchedCopy {
    std::vector<std::string> chunks;  // lib/tuples/fetch_codec.h
    std::uint64_t count = 0;
    std::vector<v1::FetchFlow> flows;
    // By the switch, since the task began.
    [[nodiscard]] std::uint64_t tuples_aggregated() const {
        std::uint64_t sum = 0;
        for (const v1::FetchFlow& flow : flows) {
            sum += flow.stats().tuples_switch();
        }
        return sum;
    }
};

struct FetchOrder {
    std::uint64_t instance = 0;
    Mark mark;  // that the task was opened with
    std::uint64_t epoch = 0;
    bool close = false;    // swaps first
    milliseconds wait{0};  // longest time in which nothing of it comes
};

class SwitchClient {
 public:
    SwitchClient(RpcChannels& channels, std::string address)
        : channels_(channels),
          address_(std::move(address)),
          stub_(v1::Switch::NewStub(channels.get(address_))) {}

    [[nodiscard]] const std::string& address() const { return address_; }
    [[nodiscard]] std::string name() const { return "switch " + address_; }

    Result<v1::SwitchInfo> info(milliseconds wait, RpcCancel* cancel = nullptr);
    Result<v1::SwitchStatus> status(milliseconds wait);
    Result<v1::OpenTaskReply> open_task(const v1::OpenTaskRequest& request, milliseconds wait,
                                        RpcCancel* cancel = nullptr);
    Result<> close_task(std::uint64_t instance, milliseconds wait);
    Result<Mark> join_flow(const v1::JoinFlowRequest& request, milliseconds wait);
    // `replaces`: the incarnation that is registered as far as the caller knows, 0 for none. If the switch
    // has another, it is asked again with that.
    Result<Mark> register_channel(ChannelId channel, std::uint32_t incarnation, std::uint32_t replaces,
                                  milliseconds wait, RpcCancel* cancel = nullptr);
    Result<> unregister_channel(ChannelId channel, std::uint32_t incarnation, milliseconds wait,
                                RpcCancel* cancel = nullptr);
    Result<v1::RenewTasksReply> renew_tasks(const std::vector<std::uint64_t>& instances, milliseconds wait);
    // Stages the whole copy. kAborted: it is another incarnation's than `mark`. kInput: the stream is not
    // what its end says it is.
    Result<FetchedCopy> fetch_copy(const FetchOrder& order, RpcCancel* cancel = nullptr);
    // The copy of a closed epoch has been merged.
    Result<> confirm_copy(std::uint64_t instance, std::uint64_t epoch, milliseconds wait, RpcCancel* cancel);

 private:
    template <typename Request, typename Reply>
    Result<Reply> call(grpc::Status (v1::Switch::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                       const Request& request, milliseconds wait, RpcCancel* cancel = nullptr);

    RpcChannels& channels_;  // outlives this
    std::string address_;
    std::unique_ptr<v1::Switch::Stub> stub_;
};

}  // namespace ask
