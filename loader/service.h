// SPDX-License-Identifier: Apache-2.0
//
// The control interface (proto/switch.proto) on the controller: checks what comes from outside, translates,
// streams.
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <mutex>
#include <string>

#include "lib/control/switch/controller.h"
#include "loader/ports.h"
#include "proto/switch.grpc.pb.h"

namespace ask {

// Streams under way: bounded in number and time, since each holds a thread of the server and a reader may
// stop reading. Whoever has all that he may leaves others some.
class FetchGate {
 public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::size_t kMaxFetches = 64;
    static constexpr std::size_t kMaxOfOne = kMaxFetches - kMaxFetches / 8;
    static constexpr std::chrono::seconds kMaxTime{60};

    // A fetch's place; ends with it.
    class Pass {
     public:
        Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)), entry_(other.entry_) {}
        Pass& operator=(Pass&&) = delete;
        Pass(const Pass&) = delete;
        Pass& operator=(const Pass&) = delete;
        ~Pass();

     private:
        friend class FetchGate;
        struct Entry {
            grpc::ServerContext* context = nullptr;
            Clock::time_point deadline;
            std::string reader;
        };
        Pass(FetchGate* gate, std::list<Entry>::iterator entry) : gate_(gate), entry_(entry) {}

        FetchGate* gate_;
        std::list<Entry>::iterator entry_;
    };

    // `reader`: whose it is. kLimit: too many at once.
    Result<Pass> enter(grpc::ServerContext* context, const std::string& reader);
    // Cancels fetches that have taken too long.
    void expire();

 private:
    std::mutex mutex_;
    std::list<Pass::Entry> entries_;
};

class SwitchService final : public v1::Switch::Service {
 public:
    // All must outlive it.
    SwitchService(Controller& controller, const DataPlane& plane, const PinDir& pins, const PortTable& ports)
        : controller_(controller), plane_(plane), pins_(pins), ports_(ports) {}

    // A connection was turned away; from any thread, as is asking how many were.
    void count_refused() { refused_.fetch_add(1, std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

    // Call now and then.
    void tick() { gate_.expire(); }

    grpc::Status GetInfo(grpc::ServerContext* context, const v1::GetSwitchInfoRequest* request,
                         v1::SwitchInfo* reply) override;
    grpc::Status RegisterChannel(grpc::ServerContext* context, const v1::RegisterChannelRequest* request,
                                 v1::RegisterChannelReply* reply) override;
    grpc::Status UnregisterChannel(grpc::ServerContext* context, const v1::UnregisterChannelRequest* request,
                                   v1::UnregisterChannelReply* reply) override;
    grpc::Status OpenTask(grpc::ServerContext* context, const v1::OpenTaskRequest* request,
                          v1::OpenTaskReply* reply) override;
    grpc::Status JoinFlow(grpc::ServerContext* context, const v1::JoinFlowRequest* request,
                          v1::JoinFlowReply* reply) override;
    grpc::Status JoinFlows(grpc::ServerContext* context, const v1::JoinFlowsRequest* request,
                           v1::JoinFlowsReply* reply) override;
    grpc::Status RenewTasks(grpc::ServerContext* context, const v1::RenewTasksRequest* request,
                            v1::RenewTasksReply* reply) override;
    grpc::Status FetchCopy(grpc::ServerContext* context, const v1::FetchCopyRequest* request,
                           grpc::ServerWriter<v1::FetchChunk>* writer) override;
    grpc::Status ConfirmCopy(grpc::ServerContext* context, const v1::ConfirmCopyRequest* request,
                             v1::ConfirmCopyReply* reply) override;
    grpc::Status CloseTask(grpc::ServerContext* context, const v1::CloseTaskRequest* request,
                           v1::CloseTaskReply* reply) override;
    grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetSwitchStatusRequest* request,
                           v1::SwitchStatus* reply) override;

 private:
    grpc::Status open_group(const grpc::ServerContext& context, const v1::OpenTaskRequest& request,
                            v1::OpenTaskReply* reply);
    Result<std::uint64_t> join_one(const Caller& caller, const v1::JoinFlowRequest& request);
    void fill_mark(v1::Mark* mark) const;

    Controller& controller_;
    const DataPlane& plane_;
    const PinDir& pins_;
    const PortTable& ports_;
    FetchGate gate_;
    std::atomic<std::uint64_t> refused_{0};
    std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace ask
