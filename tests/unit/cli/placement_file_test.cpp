// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/placement_file.h"

#include <string>

#include <doctest/doctest.h>

using namespace ask;

namespace {

std::string placement_refusal(const std::string& text) {
    const auto plan = cli::parse_placement(text, "plan.json");
    REQUIRE_FALSE(plan.ok());
    CHECK(plan.error().code() == Errc::kInput);
    return plan.error().text();
}

}  // namespace

TEST_CASE("a placement is read as ask-plan writes it, whole or alone") {
    const std::string alone =
        R"({"relays": [{"name": "s1", "address": "198.18.129.2:4793"},)"
        R"( {"name": "s2", "address": "198.18.130.2:4793", "parent": "s1"}],)"
        R"( "hosts": [{"name": "h1", "address": "198.18.1.2", "sends": 3, "entry": "s2"},)"
        R"( {"name": "h2", "address": "198.18.2.2"}], "links": [{"messages": "3"}]})";
    for (const std::string& text : {alone, R"({"objective": "bytes", "placement": )" + alone + "}"}) {
        const auto plan = cli::parse_placement(text, "plan.json");
        REQUIRE(plan.ok());
        REQUIRE(plan->relays.size() == 2);
        CHECK(plan->relays[0].parent.empty());
        CHECK(plan->relays[1].parent == "s1");
        REQUIRE(plan->hosts.size() == 2);
        CHECK(plan->hosts[0].sends == 3);
        CHECK(plan->hosts[0].entry == "s2");
        CHECK(plan->hosts[1].sends == 1);
        CHECK(plan->hosts[1].entry.empty());
    }
    CHECK(cli::parse_placement("{}", "plan.json")->hosts.empty());
}

TEST_CASE("a placement that is none is refused by name") {
    CHECK(placement_refusal("") == "placement plan.json: is no JSON object");
    CHECK(placement_refusal("[]") == "placement plan.json: is no JSON object");
    CHECK(placement_refusal(R"({"placement": 1})") == "placement plan.json: 'placement' is no object");
    CHECK(placement_refusal(R"({"relays": {}})") == "placement plan.json: 'relays' must be an array");
    CHECK(placement_refusal(R"({"relays": [1]})") == "placement plan.json: a relay is no object");
    CHECK(placement_refusal(R"({"relays": [{"name": "s1"}]})") ==
          "placement plan.json: a relay has no 'address'");
    CHECK(placement_refusal(R"({"hosts": [{"name": 1, "address": "a"}]})") ==
          "placement plan.json: a host 'name' must be a string");
    for (const char* const sends : {"-1", "1.5", "\"3\"", "4294967296"}) {
        CHECK(placement_refusal(std::string(R"({"hosts": [{"name": "h", "address": "a", "sends": )") + sends +
                                "}]}") ==
              "placement plan.json: a host 'sends' must be a whole number from 0 to 4294967295");
    }
    CHECK(placement_refusal(R"({"aggregate": ["s1"], "links": []})")
              .find("is a plan without relays: give switches their `relay`") != std::string::npos);
}

TEST_CASE("without a relay, who sends to it sends to its parent") {
    client::Placement plan;
    plan.relays = {{"s1", "a:1", ""}, {"s2", "b:1", "s1"}, {"s3", "c:1", "s2"}};
    plan.hosts = {{"h1", "1", 1, "s3"}, {"h2", "2", 1, "s2"}, {"h3", "3", 1, ""}};
    const client::Placement middle = plan.without("s2");
    REQUIRE(middle.relays.size() == 2);
    CHECK(middle.relays[1].name == "s3");
    CHECK(middle.relays[1].parent == "s1");
    CHECK(middle.hosts[0].entry == "s3");
    CHECK(middle.hosts[1].entry == "s1");
    const client::Placement rest = middle.without("s1");
    REQUIRE(rest.relays.size() == 1);
    CHECK(rest.relays[0].parent.empty());
    CHECK(rest.hosts[1].entry.empty());
    CHECK(plan.without("s9").relays.size() == 3);
}
