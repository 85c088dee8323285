// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/idle.h"

#include <doctest/doctest.h>

namespace ask::cli {
namespace {

constexpr std::uint32_t kWire = 0xA5;

Standing daemon_with(const char* what, int count, bool survives) {
    Standing daemon{.who = "ask-switchd at sw:4792", .version = "0.1.0", .upkeep = {}};
    daemon.upkeep.set_wire_version(kWire);
    daemon.upkeep.set_whole(true);
    if (count > 0) {
        v1::Stake& stake = *daemon.upkeep.add_stakes();
        stake.set_what(what);
        stake.set_survives_restart(survives);
        for (int at = 0; at < count; ++at) {
            stake.add_ids("t" + std::to_string(at));
        }
    }
    return daemon;
}

TEST_CASE("what is in the way depends on what is to be done") {
    const Standing busy = daemon_with("task", 2, true);
    CHECK(in_the_way(daemon_with("task", 0, false), {}).empty());
    CHECK(in_the_way(busy, {}) == "2 tasks (t0, t1)");
    CHECK(in_the_way(busy, {.restart = true, .wire_version = {}}).empty());
    CHECK(in_the_way(busy, {.restart = false, .wire_version = kWire}).empty());
    CHECK(in_the_way(busy, {.restart = false, .wire_version = kWire + 1}) == "2 tasks (t0, t1)");
    CHECK(in_the_way(daemon_with("kept result", 1, false), {.restart = true, .wire_version = {}}) ==
          "1 kept result (t0)");
    CHECK(in_the_way(daemon_with("task", 9, false), {}) == "9 tasks (t0, t1, t2, t3, ...)");
}

TEST_CASE("as text and as JSON") {
    const std::vector<Standing> daemons{daemon_with("task", 1, true)};
    CHECK(idle_text(daemons, {}) ==
          "ask-switchd at sw:4792: 1 task (t0); version 0.1.0, packets of version 0xa5\n");
    const IdleQuestion restart{.restart = true, .wire_version = {}};
    CHECK(idle_text(daemons, restart) ==
          "ask-switchd at sw:4792: idle; not in the way: 1 task (t0); version 0.1.0, packets of version "
          "0xa5\n");
    const Json json = idle_json(daemons, restart);
    CHECK(json[0]["idle"] == true);
    CHECK(json[0]["wire_version"] == kWire);
    CHECK(json[0]["stakes"][0]["ids"] == nlohmann::json({"t0"}));
}

TEST_CASE("a daemon that says nothing, or shows but a part, is not taken for idle") {
    Standing daemon = daemon_with("task", 0, false);
    CHECK(check_said(daemon, {}).ok());
    daemon.upkeep.set_whole(false);
    REQUIRE_FALSE(check_said(daemon, {}).ok());
    CHECK(check_said(daemon, {}).error().code() == Errc::kDenied);
    CHECK(check_said(daemon, {.restart = false, .wire_version = kWire}).ok());
    daemon = daemon_with("task", 1, false);
    daemon.upkeep.set_whole(false);
    CHECK(check_said(daemon, {}).ok());
    daemon.upkeep.set_wire_version(0);
    REQUIRE_FALSE(check_said(daemon, {}).ok());
    CHECK(check_said(daemon, {}).error().code() == Errc::kUnsupported);
}

}  // namespace
}  // namespace ask::cli
