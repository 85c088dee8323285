// SPDX-License-Identifier: Apache-2.0
#include "agent/flow_joins.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lib/control/member/patience.h"

namespace ask {

std::optional<FlowJoins::Answer> FlowJoins::join(const v1::JoinFlowRequest& request, milliseconds wait,
                                                 const Carry& carry) {
    const auto wish = std::make_shared<Wish>(Wish{request, Clock::now() + wait, {}});
    Lock lock(mutex_);
    waiting_.push_back(wish);
    while (!wish->answer) {
        if (!carrying_) {
            carry_waiting(lock, carry);
        } else if (!changed_.wait_until(lock, wish->until, [&] { return wish->answer || !carrying_; })) {
            std::erase(waiting_, wish);
            return std::nullopt;
        }
    }
    return std::move(wish->answer);
}

// Those that came first. For as long as the most patient of them waits: a short time that one has is not the
// others'.
void FlowJoins::carry_waiting(Lock& lock, const Carry& carry) {
    const auto count = static_cast<std::ptrdiff_t>(std::min(waiting_.size(), kMost));
    const std::vector<std::shared_ptr<Wish>> batch(waiting_.begin(), waiting_.begin() + count);
    waiting_.erase(waiting_.begin(), waiting_.begin() + count);
    Requests requests;
    Clock::time_point until;
    for (const auto& wish : batch) {
        requests.push_back(wish->request);
        until = std::max(until, wish->until);
    }
    carrying_ = true;
    lock.unlock();
    auto answers = carry(requests, at_most(milliseconds::max(), until));
    lock.lock();
    carrying_ = false;
    for (std::size_t i = 0; i < batch.size(); ++i) {
        batch[i]->answer = std::move(answers.at(i));
    }
    changed_.notify_all();
}

}  // namespace ask
