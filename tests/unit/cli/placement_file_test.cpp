// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/placement_file.h"

#include <cstdint>
#include <string>
#include <vector>

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
        R"({"relays": [{"name": "s1", "address": "198.18.129.2:4793", "control": "198.18.129.1:4792"},)"
        R"( {"name": "s2", "address": "198.18.130.2:4793", "parent": "s1"}],)"
        R"( "hosts": [{"name": "h1", "address": "198.18.1.2", "sends": 3, "entry": "s2", "at": "s4"},)"
        R"( {"name": "h2", "address": "198.18.2.2"}],)"
        R"( "links": [{"messages": "3"}, {"from": "s4", "to": "s2", "messages": "3", "bytes": 1.5},)"
        R"( {"from": "s2", "to": "s1", "messages": 1}]})";
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
        CHECK(plan->hosts[0].at == "s4");
        CHECK(plan->relays[0].control == "198.18.129.1:4792");
        CHECK(plan->relays[1].control.empty());
        // One without ends says nothing.
        REQUIRE(plan->links.size() == 2);
        CHECK(plan->links[0].from == "s4");
        CHECK(plan->links[0].messages == 3);
        CHECK(plan->links[0].bytes == 1.5);
        CHECK(plan->links[1].messages == 1);
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
    for (const char* const messages : {"-1", "1.5", "\"\"", "\"3x\"", "true"}) {
        CHECK(placement_refusal(std::string(R"({"links": [{"messages": )") + messages + "}]}") ==
              "placement plan.json: a link 'messages' must be a whole number from 0");
    }
    CHECK(placement_refusal(R"({"links": [{"bytes": "1"}]})") ==
          "placement plan.json: a link 'bytes' must be a number");
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

TEST_CASE("what came to a relay that is left out crosses the links that its one flow did") {
    client::Placement plan;
    plan.relays = {{"s1", "a:1", ""}, {"s3", "c:1", "s1"}, {"s4", "d:1", "s3"}};
    plan.hosts = {{"h1", "1", 2, "s3", "s3"}, {"h2", "2", 5, "s4", "s4"}, {"h3", "3", 1, "s1", "s2"}};
    plan.links = {{"s1", "h9", 1, 10}, {"s2", "s1", 2, 20}, {"s3", "s2", 1, 30}, {"s4", "s3", 1, 40}};
    const auto messages = [](const client::Placement& of) {
        std::vector<std::uint64_t> all;
        for (const client::PlacedLink& link : of.links) {
            all.push_back(link.messages);
        }
        return all;
    };
    // Two sends and a relay.
    const client::Placement middle = plan.without("s3");
    CHECK(messages(middle) == std::vector<std::uint64_t>{1, 4, 3, 1});
    CHECK(middle.links[0].bytes == 10);
    CHECK(middle.links[1].bytes == 0);
    CHECK(middle.links[2].bytes == 0);
    CHECK(middle.links[3].bytes == 40);
    CHECK(messages(middle.without("s4")) == std::vector<std::uint64_t>{1, 8, 7, 5});
    // Up to the receiver: a relay and a send of its own.
    CHECK(messages(plan.without("s1")) == std::vector<std::uint64_t>{2, 2, 1, 1});
    CHECK(messages(plan.without("s9")) == messages(plan));
    // Links that lead round in a circle are nobody's plan, and no reason to hang.
    plan.links = {{"s3", "s4", 1, 0}, {"s4", "s3", 1, 0}};
    CHECK(plan.without("s3").links.size() == 2);
}
