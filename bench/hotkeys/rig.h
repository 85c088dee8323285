// SPDX-License-Identifier: Apache-2.0
//
// The switch under test: the real program and maps, the real controller behind gRPC, in the network namespace
// and bpffs that bench/hotkeys/run has made. Packets go in by the feeder, on this thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <grpcpp/server.h>

#include "agent/rpc.h"
#include "agent/switch_client.h"
#include "bench/feeder/feeder.h"
#include "lib/control/switch/controller.h"
#include "loader/service.h"
#include "proto/common.pb.h"

namespace ask::bench {

inline constexpr std::uint32_t kSenderAddress = 0xC6120102;    // 198.18.1.2, behind port p1
inline constexpr std::uint32_t kReceiverAddress = 0xC6120202;  // 198.18.2.2, behind port p2
inline constexpr ChannelId kChannel{kSenderAddress, ASK_CHANNEL_PORT_BASE};

class Rig {
 public:
    static Result<std::unique_ptr<Rig>> create(const std::string& bpffs, const std::string& swap_barrier);
    ~Rig();
    Rig(const Rig&) = delete;
    Rig& operator=(const Rig&) = delete;

    // Of the bench's channel, new with each task.
    [[nodiscard]] std::uint32_t incarnation() const { return incarnation_; }
    [[nodiscard]] std::shared_ptr<SwitchClient> client() const { return client_; }
    // Opens a task and joins the bench's channel, with fresh dedupe state.
    Result<v1::OpenTaskReply> open(const v1::OpenTaskRequest& request, const CheckSecret& secret);
    Result<> close(std::uint64_t instance);
    // What the switch did with the task's tuples.
    Result<ask_flow_stats> counts(std::uint64_t instance) const;
    Result<ControllerReport> report() const { return controller_->report(); }

    // Into the switch, as if from the sender's port.
    [[nodiscard]] Feeder& feeder() { return *feeder_; }

 private:
    Rig(PinDir pins, DataPlane plane, std::shared_ptr<RpcCredentials> credentials)
        : pins_(std::move(pins)),
          plane_(std::move(plane)),
          credentials_(std::move(credentials)),
          server_credentials_(credentials_->of_server()) {}

    PinDir pins_;
    DataPlane plane_;
    PortTable ports_;
    std::unique_ptr<SwitchStore> store_;
    std::unique_ptr<Controller> controller_;
    std::unique_ptr<SwitchService> service_;
    const std::shared_ptr<RpcCredentials> credentials_;
    const std::shared_ptr<grpc::ServerCredentials> server_credentials_;
    std::unique_ptr<grpc::Server> server_;
    RpcChannels channels_{credentials_};
    std::shared_ptr<SwitchClient> client_;
    std::optional<Feeder> feeder_;
    std::uint32_t incarnation_ = 0;
};

}  // namespace ask::bench
