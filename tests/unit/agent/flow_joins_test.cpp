// SPDX-License-Identifier: Apache-2.0
#include "agent/flow_joins.h"

#include <atomic>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace ask;

namespace {

constexpr milliseconds kPatient{60000};

v1::JoinFlowRequest request_of(std::uint64_t instance) {
    v1::JoinFlowRequest request;
    request.set_instance(instance);
    return request;
}

// Each flow's nonce is its instance; instance 13 is refused.
std::vector<FlowJoins::Answer> answers_to(const FlowJoins::Requests& requests) {
    std::vector<FlowJoins::Answer> answers;
    for (const auto& request : requests) {
        answers.push_back(request.instance() == 13
                              ? FlowJoins::Answer(Error(Errc::kUnknown, "no task"))
                              : FlowJoins::Answer(SwitchPort::Joined{{}, request.instance()}));
    }
    return answers;
}

// A switch that answers the first call when it is told to.
struct SlowSwitch {
    std::vector<FlowJoins::Answer> carry(const FlowJoins::Requests& requests, milliseconds wait) {
        {
            Lock lock(mutex);
            sizes.push_back(requests.size());
            waits.push_back(wait);
            called.notify_all();
            called.wait(lock, [this] { return open; });
        }
        return answers_to(requests);
    }
    FlowJoins::Carry carrier() {
        return
            [this](const FlowJoins::Requests& requests, milliseconds wait) { return carry(requests, wait); };
    }
    void await_call() {
        Lock lock(mutex);
        called.wait(lock, [this] { return !sizes.empty(); });
    }
    void answer() {
        const Guard lock(mutex);
        open = true;
        called.notify_all();
    }

    Mutex mutex;
    CondVar called;
    bool open = false;
    std::vector<std::size_t> sizes;
    std::vector<milliseconds> waits;
};

}  // namespace

TEST_CASE("flows that come while a call is under way join together, and each hears its own answer") {
    constexpr std::uint64_t kFlows = 100;
    FlowJoins joins;
    SlowSwitch at;
    std::thread first([&] { CHECK(joins.join(request_of(1), kPatient, at.carrier())->ok()); });
    at.await_call();
    std::atomic<unsigned> right{0};
    std::vector<std::thread> others;
    for (std::uint64_t i = 0; i < kFlows; ++i) {
        others.emplace_back([&, i] {
            const auto answer = joins.join(request_of(i), kPatient, at.carrier());
            const bool refused = !answer->ok() && answer->error().code() == Errc::kUnknown;
            right += i == 13 ? refused : answer->ok() && (*answer)->nonce == i;
        });
    }
    while (joins.waiting() < kFlows) {
        std::this_thread::yield();
    }
    at.answer();
    first.join();
    for (std::thread& other : others) {
        other.join();
    }
    CHECK(right == kFlows);
    CHECK(at.sizes == std::vector<std::size_t>{1, FlowJoins::kMost, kFlows - FlowJoins::kMost});
}

TEST_CASE("who has less time leaves without an answer, and takes none from the others") {
    FlowJoins joins;
    SlowSwitch at;
    std::thread first([&] { CHECK(joins.join(request_of(1), kPatient, at.carrier())->ok()); });
    at.await_call();
    CHECK_FALSE(joins.join(request_of(2), milliseconds(1), at.carrier()).has_value());
    std::thread patient([&] { CHECK((*joins.join(request_of(3), kPatient, at.carrier()))->nonce == 3); });
    while (joins.waiting() < 1) {
        std::this_thread::yield();
    }
    at.answer();
    first.join();
    patient.join();
    CHECK(at.sizes == std::vector<std::size_t>{1, 1});
    CHECK(at.waits.back() > kPatient / 2);
}
