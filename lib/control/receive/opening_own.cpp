// SPDX-License-Identifier: Apache-2.0
//
// How a receive is opened on its senders' own switches, each on first need. One that is away or refuses is
// done without: its senders' tuples come here as they are, and that is said by name.
#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/abi/limits.h"
#include "lib/control/member/convert.h"
#include "lib/control/member/patience.h"
#include "lib/control/receive/receiving.h"

namespace ask {
namespace {

// Its senders wait for it, and others of the task for those: less than for the only switch of a task.
constexpr milliseconds kOwnRetryFor{3000};
// The next window asks again.
constexpr milliseconds kOwnRetryOfWindow{500};
constexpr milliseconds kOwnLeast{500};

}  // namespace

// Those that a run before this one has lost.
void Receiving::leave_out_switches() {
    const int most = std::min(request_.without_switches_size(), static_cast<int>(ASK_MAX_SENDERS));
    for (int i = 0; i < most; ++i) {
        const std::string& address = request_.without_switches(i);
        task_->own->refused(address,
                            "switch " + clean_name(address) + " has lost what it had of the task's last run");
    }
}

std::shared_ptr<SwitchPort> Receiving::switch_called(const std::string& address) {
    const bool is_ours = member_.own_switch && member_.own_switch->address() == address;
    return is_ours ? member_.own_switch : std::shared_ptr<SwitchPort>(member_.network.switch_at(address));
}

Result<> Receiving::open_wanted() {
    while (task_->own) {
        const auto wanted =
            member_.registry.with(*task_, [](const ReceiveTask& task) { return task.own->next(); });
        if (!wanted) {
            return {};
        }
        ASK_PASS(open_own(*wanted));
    }
    return {};
}

// However many are away, each takes its time from when it was named, and hardly any after that.
Result<> Receiving::open_own(const OwnSwitches::Wanted& wanted) {
    const auto client = switch_called(wanted.address);
    const auto now = Clock::now();
    const auto patience = is_window() ? kOwnRetryOfWindow : kOwnRetryFor;
    const auto until = wanted.since + std::min(patience, task_->deadline / 4);
    const auto left = std::chrono::ceil<milliseconds>(until - now);
    auto reply =
        ask_switch_to_open(*client, {.patience = std::max(left, std::min(kOwnLeast, task_->deadline / 4)),
                                     .until = now + task_->deadline,
                                     .optional = true});
    ASK_PASS(reply);
    tell_going_on();
    return *reply ? take_own(wanted.address, client, **reply) : refuse_own(wanted.address, reply->error());
}

Result<> Receiving::take_own(const std::string& address, const std::shared_ptr<SwitchPort>& client,
                             const v1::OpenTaskReply& reply) {
    const auto mark = mark_from_proto(reply.mark());
    if (!mark || mark->switch_id == 0) {
        leave_open(address);
        return refuse_own(address, {Errc::kInput, client->name() + " does not say which switch it is"});
    }
    if (const TaskSwitch* const known = find_switch(task_->switches, *mark); known != nullptr) {
        // The same one by another of its addresses: nobody else knows that number.
        if (known->nonce != reply.nonce()) {
            leave_open(address);
            return refuse_own(address,
                              {Errc::kInput, client->name() + " says that it is " + known->client->name() +
                                                 ", and has another region"});
        }
        member_.registry.settle_own(*task_, address, *mark, "");
        return {};
    }
    if (task_->switches.size() >= ASK_MAX_TASK_SWITCHES) {
        leave_open(address);
        return refuse_own(
            address, {Errc::kLimit, "the task is open on " + std::to_string(ASK_MAX_TASK_SWITCHES) +
                                        " switches already, and " + client->name() + " would be one more"});
    }
    const auto added = add_switch(client, reply);
    ASK_PASS(added);
    if ((*added)->arrivals) {
        ASK_PASS(start_swapper(**added));
    }
    spdlog::log(task_->log_level(), "task {}: open on {}, {} aggregators an AA", task_->id, client->name(),
                (*added)->aggregators);
    member_.registry.settle_own(*task_, address, *mark, "");
    return {};
}

Result<> Receiving::refuse_own(const std::string& address, const Error& why) {
    // It may be open there, if its answer was lost.
    if (std::ranges::find(perhaps_open_, address) != perhaps_open_.end()) {
        leave_open(address);
    }
    if (request_.require_region()) {
        return why;
    }
    spdlog::warn("task {}: not opened on a sender's own switch: {}", task_->id, why.text());
    member_.registry.settle_own(*task_, address, {}, clean_text(why.text()));
    return {};
}

}  // namespace ask
