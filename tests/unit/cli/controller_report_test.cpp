// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/controller_report.h"

#include <string>

#include <doctest/doctest.h>

using namespace ask;
using namespace ask::cli;

namespace {

v1::ControllerStatus busy() {
    v1::ControllerStatus status;
    status.set_uptime_seconds(12);
    auto* const plan = status.add_plans();
    plan->set_task("hits");
    plan->set_instance(0xff00000000000001U);
    plan->set_plan(0xfe00000000000002U);
    plan->set_receiver("h9");
    plan->set_hosts(40);
    plan->set_sends(1200);
    plan->set_age_seconds(3);
    plan->set_lease_left_seconds(28);
    for (int number = 0; number < 8; ++number) {
        plan->add_switches("s" + std::to_string(number));
    }
    auto* const straight = status.add_plans();
    straight->set_task("few");
    straight->set_tenant("search");
    straight->set_note("no switch would save anything");
    auto* const spine = status.add_switches();
    spine->set_name("spine");
    spine->set_relay("198.19.0.1:4793");
    spine->set_capacity(4);
    spine->set_taken(4);
    spine->set_memory_mib(100);
    spine->set_memory_taken_mib(60);
    spine->set_reason("full");
    auto* const tor = status.add_switches();
    tor->set_name("tor");
    tor->set_refusals(2);
    tor->set_last_refusal("host 198.18.0.1: no memory");
    tor->set_reason("without a relay");
    return status;
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("plans are listed with their switches, or why there are none") {
    const std::string text = plans_text(busy());
    CHECK_MESSAGE(contains(text, "s0,s1,s2,s3,s4,s5 +2"), text);
    CHECK_MESSAGE(contains(text, "1,200"), text);
    CHECK_MESSAGE(contains(text, "no switch would save anything"), text);
    CHECK(plans_text({}) == "no plans\n");
    v1::ControllerStatus young;
    young.set_uptime_seconds(10);
    young.set_young_seconds(20);
    CHECK(plans_text(young) == "started 10 s ago: tasks get no switches for 20 s more\nno plans\n");
}

TEST_CASE("switches are listed with what is taken, and why they are not proposed") {
    const std::string text = relays_text(busy());
    CHECK_MESSAGE(contains(text, "4 of 4"), text);
    CHECK_MESSAGE(contains(text, "60 of 100"), text);
    CHECK_MESSAGE(contains(text, "without a relay"), text);
    CHECK_MESSAGE(contains(text, "host 198.18.0.1: no memory"), text);
    CHECK(contains(relays_text({}), "shown to operators"));
}

TEST_CASE("numbers of 64 bits are strings in JSON") {
    const Json plans = plans_json(busy());
    REQUIRE(plans.size() == 2);
    CHECK(plans[0]["instance"] == "0xff00000000000001");
    CHECK(plans[0]["plan"] == "0xfe00000000000002");
    CHECK(plans[0]["switches"].size() == 8);
    CHECK(relays_json(busy())[0]["memory_taken_mib"] == 60);
}
