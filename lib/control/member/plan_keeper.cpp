// SPDX-License-Identifier: Apache-2.0
#include "lib/control/member/plan_keeper.h"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

namespace ask {
namespace {

constexpr milliseconds kPlanTick{500};
constexpr milliseconds kPlanWait{2000};
// Of a lease: two tries fail before it runs out.
constexpr int kPartsOfLease = 3;
constexpr milliseconds kSoonest{200};

}  // namespace

PlanKeeper::PlanKeeper(std::shared_ptr<ControllerPort> controller) : controller_(std::move(controller)) {
    if (controller_) {
        thread_ = Thread([this] { loop(); });
    }
}

PlanKeeper::~PlanKeeper() {
    {
        const Guard lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) {
        thread_.join();
    }
}

void PlanKeeper::keep(v1::RenewPlanRequest plan, std::chrono::duration<double> lease) {
    const auto every = std::max(std::chrono::duration_cast<Clock::duration>(lease / kPartsOfLease),
                                std::chrono::duration_cast<Clock::duration>(kSoonest));
    const Guard lock(mutex_);
    const std::uint64_t instance = plan.instance();
    kept_[instance] = Kept{.plan = std::move(plan), .every = every, .due = Clock::now() + every};
}

void PlanKeeper::end(std::uint64_t instance, const std::string& refused_by, const std::string& why) {
    {
        const Guard lock(mutex_);
        auto kept = kept_.extract(instance);
        if (kept.empty() || ended_.size() >= kMostEnded) {
            return;
        }
        ended_.push_back({std::move(kept.mapped().plan), refused_by, why});
    }
    changed_.notify_all();
}

void PlanKeeper::loop() {
    Lock lock(mutex_);
    while (!stop_) {
        changed_.wait_for(lock, kPlanTick, [this] { return stop_ || !ended_.empty(); });
        tell_ended(lock);
        renew_due(lock);
    }
    // What has ended by now is still told, as far as somebody answers.
    tell_ended(lock);
}

void PlanKeeper::tell_ended(Lock& lock) {
    while (controller_ && !ended_.empty()) {
        const Ended ended = std::move(ended_.front());
        ended_.pop_front();
        lock.unlock();
        if (!ended.refused_by.empty()) {
            v1::ReportRefusedRequest report;
            report.set_instance(ended.plan.instance());
            report.set_receiver(ended.plan.receiver());
            report.set_plan(ended.plan.plan());
            report.set_switch_(ended.refused_by);
            report.set_reason(ended.why);
            if (auto told = controller_->report_refused(report, kPlanWait); !told) {
                spdlog::warn("task {}: {}", ended.plan.task(), told.error().text());
            }
        }
        v1::ReleasePlanRequest release;
        release.set_instance(ended.plan.instance());
        release.set_receiver(ended.plan.receiver());
        auto told = controller_->release(release, kPlanWait);
        if (!told) {
            spdlog::warn("task {}: {}", ended.plan.task(), told.error().text());
        }
        lock.lock();
        if (!told && stop_) {
            return;  // the others would not fare better
        }
    }
}

void PlanKeeper::renew_due(Lock& lock) {
    for (;;) {
        const auto now = Clock::now();
        const auto due =
            std::ranges::find_if(kept_, [&](const auto& entry) { return entry.second.due <= now; });
        if (stop_ || due == kept_.end()) {
            return;
        }
        due->second.due = now + due->second.every;
        const v1::RenewPlanRequest plan = due->second.plan;
        lock.unlock();
        if (auto renewed = controller_->renew(plan, kPlanWait); !renewed) {
            spdlog::warn("task {}: its plan is not renewed, and it goes on: {}", plan.task(),
                         renewed.error().text());
        }
        lock.lock();
    }
}

}  // namespace ask
