// SPDX-License-Identifier: Apache-2.0
//
// The switch under test: the real program and maps, the real controller behind gRPC, in the network namespace
// and bpffs that bench/common/rig.sh has made. Packets go in by the feeder, on this thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <grpcpp/server.h>

#include "agent/rpc.h"
#include "agent/switch_client.h"
#include "bench/feeder/feeder.h"
#include "lib/control/switch/controller.h"
#include "lib/tuples/types.h"
#include "loader/service.h"
#include "proto/common.pb.h"

namespace ask::bench {

inline constexpr std::uint32_t kSenderAddress = 0xC6120102;    // 198.18.1.2, behind port p1
inline constexpr std::uint32_t kReceiverAddress = 0xC6120202;  // 198.18.2.2, behind port p2
inline constexpr ChannelId kChannel{kSenderAddress, ASK_CHANNEL_PORT_BASE};
inline constexpr CheckSecret kSecret{0x1234, 0x5678};  // of all flows

// What a bench needs of its switch beyond what it has by default.
struct RigSettings {
    std::string swap_barrier = "auto";
    unsigned channels = 1;         // of the sending host: kChannel's and the ports after it
    std::uint64_t sram_bytes = 0;  // per pipeline; 0: as ask-switchd has it
    std::uint64_t back_bytes = 0;  // of all back levels
};

class Rig {
 public:
    static Result<std::unique_ptr<Rig>> create(const std::string& bpffs, const RigSettings& settings);
    ~Rig();
    Rig(const Rig&) = delete;
    Rig& operator=(const Rig&) = delete;

    // Of the bench's channels, new with each task.
    [[nodiscard]] std::uint32_t incarnation() const { return incarnation_; }
    [[nodiscard]] std::shared_ptr<SwitchClient> client() const { return client_; }
    [[nodiscard]] const std::vector<ChannelId>& channels() const { return own_channels_; }
    // Of a new task of sums, first come, in one copy, for the caller to go on with.
    v1::OpenTaskRequest new_task(const Geometry& geometry);
    // Opens a task and joins the bench's channels, with fresh dedupe state.
    Result<v1::OpenTaskReply> open(const v1::OpenTaskRequest& request);
    // For the receiver, of a task that is open.
    [[nodiscard]] FlowTerms terms(std::uint64_t instance, ChannelId channel, Mark mark) const;
    Result<> close(std::uint64_t instance);
    // What the switch did with the task's tuples, all channels together. kInternal: its counts do not add up
    // to what was fed.
    Result<ask_flow_stats> counts(std::uint64_t instance, std::uint64_t packets, std::uint64_t tuples) const;
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
    std::unique_ptr<PortTable> ports_;
    std::unique_ptr<SwitchStore> store_;
    std::unique_ptr<Controller> controller_;
    std::unique_ptr<SwitchService> service_;
    const std::shared_ptr<RpcCredentials> credentials_;
    const std::shared_ptr<grpc::ServerCredentials> server_credentials_;
    std::unique_ptr<grpc::Server> server_;
    RpcChannels channels_{credentials_};
    std::shared_ptr<SwitchClient> client_;
    std::optional<Feeder> feeder_;
    std::vector<ChannelId> own_channels_;
    std::uint32_t incarnation_ = 0;
    std::uint64_t last_instance_ = 0x1000;
};

// Tuples that travelled on, for whatever reason.
[[nodiscard]] std::uint64_t tuples_left(const ask_flow_stats& stats);

}  // namespace ask::bench
