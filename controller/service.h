// SPDX-License-Identifier: Apache-2.0
//
// The RPCs of ask-controld: who may, what it comes to, and how long it took.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/control/placing/placing.h"
#include "lib/control/switch/lease_clock.h"
#include "lib/rpc/caller.h"
#include "proto/controller.grpc.pb.h"

namespace ask {

// How long admitting took: counts of calls up to each bound, and of all.
struct AdmitTimes {
    static constexpr std::array<double, 11> kBounds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                                       0.01,   0.025,   0.05,   0.1,   0.25};
    std::array<std::uint64_t, kBounds.size() + 1> calls{};  // by the first bound that is not below; or none
    double seconds = 0;
};

struct SwitchFigures {
    std::string name;
    std::uint32_t capacity = 0;
    std::uint32_t taken = 0;
    std::uint64_t refusals = 0;
    bool available = false;
};

// For metrics.
struct ControllerFigures {
    placing::Counters counters;
    AdmitTimes admits;
    std::size_t plans = 0;
    std::uint32_t plans_max = 0;
    std::vector<SwitchFigures> switches;
};

// Thread-safe.
class ControllerService final : public v1::Controller::Service {
 public:
    ControllerService(placing::Ground ground, std::string topology, const placing::Settings& settings);

    // Call every second.
    void tick();
    void change(const placing::Settings& settings);
    void follow(placing::Ground ground, std::string topology);
    [[nodiscard]] ControllerFigures figures();

    // A connection was turned away; from any thread, as is asking how many were.
    void count_refused() { refused_.fetch_add(1, std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

    grpc::Status Admit(grpc::ServerContext* context, const v1::AdmitRequest* request,
                       v1::AdmitReply* reply) override;
    grpc::Status Renew(grpc::ServerContext* context, const v1::RenewPlanRequest* request,
                       v1::RenewPlanReply* reply) override;
    grpc::Status Release(grpc::ServerContext* context, const v1::ReleasePlanRequest* request,
                         v1::ReleasePlanReply* reply) override;
    grpc::Status ReportRefused(grpc::ServerContext* context, const v1::ReportRefusedRequest* request,
                               v1::AdmitReply* reply) override;
    grpc::Status SetAvailable(grpc::ServerContext* context, const v1::SetAvailableRequest* request,
                              v1::SetAvailableReply* reply) override;
    grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetControllerStatusRequest* request,
                           v1::ControllerStatus* reply) override;

 private:
    [[nodiscard]] placing::Time now() const { return clock_.now(Clock::now()); }
    Result<> admit(const Caller& caller, const v1::AdmitRequest& request, v1::AdmitReply* reply);
    Result<> renew(const Caller& caller, const v1::RenewPlanRequest& request, v1::RenewPlanReply* reply);
    Result<> report_refused(const Caller& caller, const v1::ReportRefusedRequest& request,
                            v1::AdmitReply* reply);
    void note_time(Clock::duration took);
    void write_plans(const Caller& caller, placing::Time at, v1::ControllerStatus* reply) const;
    void write_switches(placing::Time at, v1::ControllerStatus* reply) const;
    void write_counters(v1::ControllerStatus* reply) const;

    std::mutex mutex_;
    LeaseClock clock_;  // under mutex_, as all that follows
    placing::Placing placing_;
    std::string topology_;
    AdmitTimes times_;
    std::atomic<std::uint64_t> refused_{0};
    const Clock::time_point started_ = Clock::now();
};

}  // namespace ask
