// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/upkeep.h"

#include <doctest/doctest.h>

#include "lib/abi/wire.h"

namespace ask {
namespace {

void add_task(v1::AgentStatus& status, const char* id, const char* role, const char* state) {
    v1::AgentTask& task = *status.add_tasks();
    task.set_id(id);
    task.set_role(role);
    task.set_state(state);
}

TEST_CASE("an agent would lose tasks, results that it keeps and groups, but none that have failed") {
    v1::AgentStatus status;
    set_upkeep(status, true);
    CHECK(status.upkeep().wire_version() == ASK_WIRE_VERSION);
    CHECK(status.upkeep().whole());
    CHECK(status.upkeep().stakes().empty());
    add_task(status, "a", "receiver", "streaming");
    add_task(status, "b", "sender", "streaming");
    add_task(status, "c", "receiver", "failed");
    add_task(status, "d", "receiver", "kept until 12:00:00, not taken");
    status.add_groups()->set_state("left");
    v1::AgentGroup& group = *status.add_groups();
    group.set_state("open");
    group.set_id("sums");
    set_upkeep(status, false);
    CHECK_FALSE(status.upkeep().whole());
    REQUIRE(status.upkeep().stakes_size() == 3);
    CHECK(status.upkeep().stakes(0).what() == "task");
    REQUIRE(status.upkeep().stakes(0).ids_size() == 2);
    CHECK(status.upkeep().stakes(0).ids(1) == "b");
    CHECK(status.upkeep().stakes(1).what() == "kept result");
    CHECK(status.upkeep().stakes(2).ids(0) == "sums");
    CHECK_FALSE(status.upkeep().stakes(0).survives_restart());
}

TEST_CASE("a switch's tasks and groups survive a restart, and so do a controller's plans") {
    v1::SwitchStatus status;
    status.add_tasks()->set_service("tuples");
    status.add_tasks()->set_service("values");
    set_upkeep(status, true);
    REQUIRE(status.upkeep().stakes_size() == 2);
    CHECK(status.upkeep().stakes(0).what() == "task");
    CHECK(status.upkeep().stakes(1).what() == "group");
    CHECK(status.upkeep().stakes(0).survives_restart());
    CHECK(status.upkeep().stakes(1).survives_restart());
    v1::ControllerStatus controller;
    controller.add_plans()->set_task("hits");
    set_upkeep(controller, true);
    REQUIRE(controller.upkeep().stakes_size() == 1);
    CHECK(controller.upkeep().stakes(0).survives_restart());
}

TEST_CASE("a relay would lose what has not ended") {
    v1::RelayStatus status;
    for (const char* const state : {"committed", "failed", "waiting for the parent"}) {
        v1::RelayedTask& task = *status.add_relays();
        task.set_state(state);
        task.set_task_id(state);
    }
    set_upkeep(status, true);
    REQUIRE(status.upkeep().stakes_size() == 1);
    REQUIRE(status.upkeep().stakes(0).ids_size() == 1);
    CHECK(status.upkeep().stakes(0).ids(0) == "waiting for the parent");
    CHECK_FALSE(status.upkeep().stakes(0).survives_restart());
}

}  // namespace
}  // namespace ask
