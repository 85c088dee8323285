// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/stranger.h"

#include <string>

#include "lib/rpc/types.h"
#include "tests/sim/tuples/apps.h"

namespace ask::sim {

namespace {

constexpr milliseconds kPatience{2000};

}  // namespace

void Stranger::start() {
    threads_.spawn([this] {
        for (std::uint32_t i = 0; i < cast_.world.plan.stranger; ++i) {
            park(nullptr, cast_.world.clock.now() + some_time(random_, 5, 15));
            try_something();
        }
    });
}

int Stranger::some_of(int all) {
    return static_cast<int>(random_.below(static_cast<std::uint64_t>(all)));
}

void Stranger::try_something() {
    const auto number = static_cast<std::uint32_t>(random_.below(cast_.switchds.size()));
    SimSwitch at(cast_, number, cast_.world.plan.nodes());
    const auto seen = at.status(kPatience);
    if (!seen.ok()) {
        return;
    }
    if (random_.below(2) == 0 && seen->tasks_size() > 0) {
        take_task(at, seen->tasks(some_of(seen->tasks_size())), *seen);
    } else if (seen->channels_size() > 0) {
        take_channel(at, seen->channels(some_of(seen->channels_size())));
    }
}

// Under a name of its own, since two of one tenant cannot have one.
void Stranger::take_task(SimSwitch& at, const v1::SwitchTask& task, const v1::SwitchStatus& seen) {
    cast_.world.note("stranger: at task %s", task.id().c_str());
    switch (random_.below(4)) {
        case 0: {
            [[maybe_unused]] const auto closed = at.close_task(task.instance(), kPatience);
            v1::OpenTaskRequest open;
            open.set_id("stranger");
            open.set_instance(task.instance());
            *open.mutable_geometry() = task.geometry();
            open.set_op(task.op());
            open.set_copies(1);
            open.set_aggregators(1);
            [[maybe_unused]] const auto opened = at.open_task(open, kPatience, nullptr);
            break;
        }
        case 1: {
            v1::JoinFlowRequest join;
            join.set_instance(task.instance());
            if (seen.channels_size() > 0) {
                const auto& channel = seen.channels(some_of(seen.channels_size()));
                *join.mutable_channel() = channel.channel();
                join.set_incarnation(channel.incarnation());
            }
            join.set_secret(secret_to_bytes({random_.next(), random_.next()}));
            [[maybe_unused]] const auto joined = at.join_flow(join, kPatience);
            break;
        }
        case 2: {
            [[maybe_unused]] const auto fetched = at.fetch_copy({.region = {task.instance(), task.nonce()},
                                                                 .mark = {},
                                                                 .epoch = task.epoch(),
                                                                 .close = true,
                                                                 .wait = kPatience},
                                                                nullptr);
            break;
        }
        default: {
            [[maybe_unused]] const auto confirmed = at.confirm_copy(
                {task.instance(), task.nonce()}, random_.below(2) + task.epoch() - 1, kPatience, nullptr);
        }
    }
}

void Stranger::take_channel(SimSwitch& at, const v1::SwitchChannel& channel) {
    const auto id = channel_fields(channel.channel());
    if (!id.ok()) {
        return;
    }
    cast_.world.note("stranger: at a channel of host %u", host_of(id->host));
    if (random_.below(2) == 0) {
        [[maybe_unused]] const auto gone =
            at.unregister_channel(*id, channel.incarnation(), kPatience, nullptr);
        return;
    }
    v1::RegisterChannelRequest request;
    *request.mutable_channel() = channel.channel();
    request.set_incarnation(static_cast<std::uint32_t>(random_.next()) | 1U);
    request.set_replaces(channel.incarnation());
    [[maybe_unused]] const auto taken = at.try_register(request, kPatience, nullptr);
}

}  // namespace ask::sim
