// SPDX-License-Identifier: Apache-2.0
//
// Calls to an ask-switchd, by gRPC.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/rpc.h"
#include "lib/control/member/switch_port.h"
#include "lib/tuples/types.h"
#include "proto/switch.grpc.pb.h"

namespace ask {

class SwitchClient final : public SwitchPort {
 public:
    // `allowed`: if it is an error, that is what every call comes to, and nobody is called.
    SwitchClient(RpcChannels& channels, std::string address, Result<> allowed = {})
        : channels_(channels), address_(std::move(address)), allowed_(std::move(allowed)) {}

    [[nodiscard]] const std::string& address() const override { return address_; }

    Result<v1::SwitchInfo> info(milliseconds wait, CallCancel* cancel = nullptr) override;
    Result<v1::SwitchStatus> status(milliseconds wait) override;
    Result<v1::OpenTaskReply> open_task(const v1::OpenTaskRequest& request, milliseconds wait,
                                        CallCancel* cancel = nullptr) override;
    Result<> close_task(std::uint64_t instance, milliseconds wait, CallCancel* cancel = nullptr) override;
    Result<Joined> join_flow(const v1::JoinFlowRequest& request, milliseconds wait) override;
    Registered try_register(const v1::RegisterChannelRequest& request, milliseconds wait,
                            CallCancel* cancel) override;
    Result<> unregister_channel(ChannelId channel, std::uint32_t incarnation, milliseconds wait,
                                CallCancel* cancel = nullptr) override;
    Result<v1::RenewTasksReply> renew_tasks(const std::vector<std::uint64_t>& instances,
                                            milliseconds wait) override;
    Result<CopyEnd> stream_copy(const FetchOrder& order, const TakeEntries& take,
                                CallCancel* cancel = nullptr) override;
    Result<> confirm_copy(const RegionId& region, std::uint64_t epoch, milliseconds wait,
                          CallCancel* cancel = nullptr) override;

 private:
    // The error is as it came; that of call() says what to do.
    template <typename Request, typename Reply>
    Result<Reply> attempt(grpc::Status (v1::Switch::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                   Reply*),
                          const Request& request, milliseconds wait, CallCancel* cancel);
    template <typename Request, typename Reply>
    Result<Reply> call(grpc::Status (v1::Switch::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                       const Request& request, milliseconds wait, CallCancel* cancel = nullptr);

    // By the newest certificate.
    [[nodiscard]] std::unique_ptr<v1::Switch::Stub> stub() const {
        return v1::Switch::NewStub(channels_.get(address_));
    }
    [[nodiscard]] Error explain(Error error) const;
    [[nodiscard]] Error explain_loss(Error error) const;
    // How a call went, and whether it was a switch that has answered.
    [[nodiscard]] Result<> outcome(RpcCall& call, const grpc::Status& status) const;

    void learn(const grpc::AuthContext* auth) const;

    RpcChannels& channels_;  // outlives this
    const std::string address_;
    const Result<> allowed_;
};

}  // namespace ask
