// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/upkeep.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "lib/abi/wire.h"

namespace ask {
namespace {

constexpr bool kSurvives = true;
constexpr bool kIsLost = false;

void add_stake(v1::Upkeep& upkeep, std::string_view what, const std::string& id, bool survives) {
    for (v1::Stake& stake : *upkeep.mutable_stakes()) {
        if (stake.what() == what) {
            stake.add_ids(id);
            return;
        }
    }
    v1::Stake& stake = *upkeep.add_stakes();
    stake.set_what(std::string(what));
    stake.set_survives_restart(survives);
    stake.add_ids(id);
}

// A run of one: its stream is at stake.
bool is_window(const v1::AgentStatus& status, const std::string& task) {
    return std::ranges::any_of(status.streams(), [&](const v1::AgentStream& stream) {
        return task.starts_with(stream.name() + "-w") &&
               task.find_first_not_of("0123456789abcdef-", stream.name().size() + 2) == std::string::npos;
    });
}

template <typename Status>
v1::Upkeep& begin_upkeep(Status& status, bool whole) {
    v1::Upkeep& upkeep = *status.mutable_upkeep();
    upkeep.Clear();
    upkeep.set_wire_version(ASK_WIRE_VERSION);
    upkeep.set_whole(whole);
    return upkeep;
}

}  // namespace

void set_upkeep(v1::AgentStatus& status, bool whole) {
    v1::Upkeep& upkeep = begin_upkeep(status, whole);
    for (const v1::AgentTask& task : status.tasks()) {
        // One that is committed is listed for as long as not all of its senders have heard so.
        if (task.state() != "failed" && !is_window(status, task.id())) {
            const bool kept = task.state().starts_with("kept until ");
            add_stake(upkeep, kept ? "kept result" : "task", task.id(), kIsLost);
        }
    }
    // What a stream has is kept by its applications: a window's run fails, and begins again.
    for (const v1::AgentStream& stream : status.streams()) {
        add_stake(upkeep, "stream", stream.name(), kSurvives);
    }
    for (const v1::AgentGroup& group : status.groups()) {
        if (group.state() != "failed" && group.state() != "left") {
            add_stake(upkeep, "group", group.id(), kIsLost);
        }
    }
}

void set_upkeep(v1::SwitchStatus& status, bool whole) {
    v1::Upkeep& upkeep = begin_upkeep(status, whole);
    for (const v1::SwitchTask& task : status.tasks()) {
        add_stake(upkeep, task.service() == "values" ? "group" : "task", task.id(), kSurvives);
    }
}

void set_upkeep(v1::RelayStatus& status, bool whole) {
    v1::Upkeep& upkeep = begin_upkeep(status, whole);
    for (const v1::RelayedTask& task : status.relays()) {
        if (task.state() != "committed" && task.state() != "failed") {
            add_stake(upkeep, "relayed task", task.task_id(), kIsLost);
        }
    }
}

void set_upkeep(v1::ControllerStatus& status, bool whole) {
    v1::Upkeep& upkeep = begin_upkeep(status, whole);
    for (const v1::ControllerPlan& plan : status.plans()) {
        add_stake(upkeep, "plan", plan.task(), kSurvives);
    }
}

}  // namespace ask
