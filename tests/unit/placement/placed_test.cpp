// SPDX-License-Identifier: Apache-2.0
//
// The plan as it is carried out: what --json says of it is the message, and the file's relays and addresses
// are in it.
#include "lib/topology/placed.h"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>
#include <nlohmann/json.hpp>

#include "tools/plan/report.h"

using namespace ask;
using namespace ask::topology;

namespace {

// s1 over s2 and s3; three hosts at s2, two at s3, the receiver at s1.
constexpr const char* kPlacedRacks = R"(
[[switch]]
name = "s1"
relay = "198.19.0.1:4793"
[[switch]]
name = "s2"
parent = "s1"
relay = "198.19.0.2:4793"
control = "tor2:4792"
capacity = 4
memory_mib = 512
[[switch]]
name = "s3"
parent = "s1"
relay = "198.19.0.3:4793"
[[host]]
name = "a"
switch = "s2"
address = "198.18.0.1"
[[host]]
name = "b"
switch = "s2"
address = "198.18.0.2"
load = 4
[[host]]
name = "c"
switch = "s3"
address = "198.18.0.3"
[[host]]
name = "idle"
switch = "s3"
load = 0
[[host]]
name = "r"
switch = "s1"
address = "198.18.0.9"
[task]
receiver = "r"
)";

Fabric fabric_of(const std::string& text) {
    const auto document = read_toml(text, "t");
    REQUIRE_MESSAGE(document.ok(), document.error().text());
    auto topology = read_topology(*document, "t");
    REQUIRE_MESSAGE(topology.ok(), topology.error().text());
    auto fabric = Fabric::build(*std::move(topology));
    REQUIRE_MESSAGE(fabric.ok(), fabric.error().text());
    return *std::move(fabric);
}

std::string refusal_of(const std::string& text) {
    const auto document = read_toml(text, "t");
    REQUIRE(document.ok());
    const auto topology = read_topology(*document, "t");
    REQUIRE_FALSE(topology.ok());
    CHECK(topology.error().code() == Errc::kInput);
    return topology.error().text();
}

nlohmann::json json_of(const std::string& text, std::uint32_t k,
                       placement::Objective objective = placement::Objective::kUtilisation) {
    const Fabric fabric = fabric_of(text);
    const auto network = build_network(fabric).value();
    const plan::PlanRequest request{.objective = objective, .k = k, .options = {}};
    const auto report = plan::make_report(fabric, network, *fabric.topology().message.model, request).value();
    return nlohmann::json::parse(plan::report_json(report));
}

v1::Placement placement_of(const nlohmann::json& json) {
    REQUIRE(json.contains("placement"));
    v1::Placement placement;
    const auto parsed = google::protobuf::util::JsonStringToMessage(json["placement"].dump(), &placement);
    REQUIRE_MESSAGE(parsed.ok(), parsed.ToString());
    return placement;
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
    const auto at = text.find(what);
    REQUIRE(at != std::string::npos);
    return text.replace(at, what.size(), with);
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the plan's JSON is that of the message") {
    const v1::Placement placement = placement_of(json_of(kPlacedRacks, 3));
    // At the receiver's own switch something is saved, too: what s2 and s3 send becomes one.
    REQUIRE(placement.relays_size() == 2);
    CHECK(placement.relays(0).name() == "s1");
    CHECK(placement.relays(0).address() == "198.19.0.1:4793");
    CHECK(placement.relays(0).parent().empty());
    CHECK(placement.relays(1).name() == "s2");
    CHECK(placement.relays(1).parent() == "s1");
    REQUIRE(placement.hosts_size() == 3);
    CHECK(placement.hosts(1).name() == "b");
    CHECK(placement.hosts(1).address() == "198.18.0.2");
    CHECK(placement.hosts(1).sends() == 4);
    CHECK(placement.hosts(1).entry() == "s2");
    CHECK(placement.hosts(2).entry() == "s1");
    CHECK(placement.hosts(1).at() == "s2");
    CHECK(placement.relays(0).control().empty());
    CHECK(placement.relays(1).control() == "tor2:4792");
    CHECK(placement.objective() == "utilisation");
    REQUIRE(placement.links_size() == 3);
    CHECK(placement.links(0).from() == "s1");
    CHECK(placement.links(0).to() == "r");
    CHECK(placement.links(0).messages() == 1);
    CHECK(placement.links(0).bytes() == 0);
    // As it was made, and back.
    v1::Placement again;
    REQUIRE(google::protobuf::util::JsonStringToMessage(placed_json(placement), &again).ok());
    CHECK(google::protobuf::util::MessageDifferencer::Equals(placement, again));
}

TEST_CASE("without switches everything goes to the receiver, and links say what sizes are known") {
    const v1::Placement placement =
        placement_of(json_of(std::string(kPlacedRacks) + "[message]\nbytes = 100\n", 0));
    CHECK(placement.relays_size() == 0);
    for (const v1::PlacedHost& host : placement.hosts()) {
        CHECK(host.entry().empty());
    }
    REQUIRE(placement.links_size() == 3);
    CHECK(placement.links(0).messages() == 6);
    CHECK(placement.links(0).bytes() == 600);
}

TEST_CASE("relays and hosts may have IPv6 addresses, of which each has one text") {
    std::string racks = replaced(kPlacedRacks, "198.19.0.2:4793", "[2001:2:0:2:0:0:0:1]:4793");
    racks = replaced(racks, "address = \"198.18.0.2\"", "address = \"2001:2:0:1::0002\"");
    const v1::Placement placement = placement_of(json_of(racks, 3));
    REQUIRE(placement.relays_size() == 2);
    CHECK(placement.relays(1).address() == "[2001:2:0:2::1]:4793");
    CHECK(placement.hosts(1).address() == "2001:2:0:1::2");
    const std::string twice = replaced(racks, "address = \"198.18.0.3\"", "address = \"2001:2:0:1:0::2\"");
    CHECK(contains(refusal_of(twice), "address '2001:2:0:1::2' is taken by line"));
}

TEST_CASE("what is missing for a plan to be carried out is said") {
    const auto no_relay = json_of(replaced(kPlacedRacks, "relay = \"198.19.0.2:4793\"\n", ""), 3);
    CHECK_FALSE(no_relay.contains("placement"));
    CHECK(no_relay["no_placement"] == "switch 's2' has no 'relay'");
    // A relay is needed where something aggregates.
    CHECK(json_of(replaced(kPlacedRacks, "relay = \"198.19.0.2:4793\"\n", ""), 0).contains("placement"));
    CHECK(json_of(replaced(kPlacedRacks, "address = \"198.18.0.3\"\n", ""), 3)["no_placement"] ==
          "host 'c' has no 'address'");
    CHECK(json_of(replaced(kPlacedRacks, "capacity = 4\n", "load = 2\n"), 3)["no_placement"] ==
          "switch 's2' has a 'load' of servers that are no hosts");
    // Of a file that has none of it nobody wants to know.
    const auto plain = json_of("[[switch]]\nname = \"a\"\n[[host]]\nname = \"h\"\nswitch = \"a\"\n", 1);
    CHECK_FALSE(plain.contains("placement"));
    CHECK_FALSE(plain.contains("no_placement"));
}

TEST_CASE("relays and addresses that are none, or somebody else's, are named by line") {
    const auto with = [](const std::string& more) {
        return refusal_of("[[switch]]\nname = \"a\"\nrelay = \"198.19.0.1:4793\"\n" + more);
    };
    for (const char* const relay : {"198.19.0.1", "s1:4793", "198.19.0.1:0", "198.19.0.1:65536", ":4793"}) {
        const std::string said = with("[[switch]]\nname = \"b\"\nrelay = \"" + std::string(relay) + "\"\n");
        CHECK_MESSAGE(contains(said, "t:6: switch 'b': relay '" + std::string(relay) +
                                         "': must be IPv4:PORT or [IPv6]:PORT, not " + relay),
                      said);
    }
    for (const char* const control : {"tor2", "tor2:0", ":4792", "tor2:65536"}) {
        const std::string said =
            with("[[switch]]\nname = \"b\"\ncontrol = \"" + std::string(control) + "\"\n");
        CHECK_MESSAGE(
            contains(said, "t:6: switch 'b': control '" + std::string(control) + "' is not HOST:PORT"), said);
    }
    CHECK(with("[[switch]]\nname = \"b\"\nparent = \"a\"\nrelay = \"198.19.0.1:4793\"\n") ==
          "t:4: switch 'b': relay '198.19.0.1:4793' is taken by line 1");
    CHECK(contains(with("capacity = -1\n"), "t:4: switch 'a': capacity -1 is not a whole number"));
    CHECK(contains(with("memory_mib = 1.5\n"), "t:4: switch 'a': memory_mib"));
    const std::string host = "[[host]]\nname = \"h\"\nswitch = \"a\"\naddress = \"198.18.0.1\"\n";
    for (const char* const address : {"127.0.0.1", "224.1.1.1"}) {
        const std::string said = with(replaced(host, "198.18.0.1", address));
        CHECK_MESSAGE(contains(said, "t:7: host 'h': address '" + std::string(address) +
                                         "' is not the address of a host"),
                      said);
    }
    for (const char* const address : {"h1", "198.18.0", "198.18.0.1:1"}) {
        CHECK(contains(with(replaced(host, "198.18.0.1", address)),
                       std::string("': must be an IPv4 or IPv6 address, not ") + address));
    }
    CHECK(contains(with(replaced(host, "198.18.0.1", "fe80::1")), "fe80::1 is link-local"));
    CHECK(contains(with(replaced(host, "198.18.0.1", "240.0.0.1")), "240.0.0.1 is in 240.0.0.0/4"));
    CHECK(with(host + replaced(host, "\"h\"", "\"i\"")) ==
          "t:8: host 'i': address '198.18.0.1' is taken by line 4");
}
