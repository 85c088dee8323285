// SPDX-License-Identifier: Apache-2.0
//
// What ask-plan reads and prints, without the command around it.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "lib/topology/network.h"
#include "lib/topology/topology.h"
#include "tools/plan/picture.h"
#include "tools/plan/report.h"

using namespace ask::plan;
using namespace ask::topology;
using ask::Errc;

namespace {

// The paper's example as a TOML file.
constexpr const char* kExample = R"(
[[switch]]
name = "root"
[[switch]]
name = "left"
parent = "root"
[[switch]]
name = "right"
parent = "root"
[[switch]]
name = "a"
parent = "left"
load = 2
[[switch]]
name = "b"
parent = "left"
load = 6
[[switch]]
name = "c"
parent = "right"
load = 5
[[switch]]
name = "d"
parent = "right"
load = 4
[task]
k = 2
)";

ask::Result<Topology> read(const std::string& text) {
    const ask::topology::Format format = guess_format(text, "t");
    auto document = format == ask::topology::Format::kJson ? read_json(text, "t") : read_toml(text, "t");
    if (!document.ok()) {
        return std::move(document).error();
    }
    return read_topology(*document, "t");
}

ask::Result<Network> network_of(const std::string& text) {
    auto topology = read(text);
    if (!topology.ok()) {
        return std::move(topology).error();
    }
    const auto fabric = Fabric::build(*std::move(topology));
    if (!fabric.ok()) {
        return fabric.error();
    }
    return build_network(*fabric);
}

void check_error(const std::string& text, Errc code, const std::string& says) {
    const auto network = network_of(text);
    REQUIRE_FALSE(network.ok());
    INFO(network.error().text());
    CHECK(network.error().code() == code);
    CHECK(network.error().text().find(says) != std::string::npos);
}

Report report_of(const std::string& text) {
    const Fabric fabric = Fabric::build(read(text).value()).value();
    const Topology& topology = fabric.topology();
    const PlanRequest request{.objective = topology.task.objective, .k = topology.task.k, .options = {}};
    return make_report(fabric, build_network(fabric).value(), *topology.message.model, request).value();
}

std::string two_switches(const std::string& second) {
    return "[[switch]]\nname = \"up\"\n[[switch]]\nname = \"down\"\n" + second;
}

}  // namespace

TEST_CASE("the paper's example is planned as in the paper") {
    const Report report = report_of(kExample);
    CHECK(report.chosen == std::vector<std::string>{"right", "b"});
    CHECK(report.contenders.back().cost.utilisation == 20);
    CHECK(report.contenders.front().cost.utilisation == 51);
    CHECK(report.curve == std::vector<double>{51, 35, 20});
    CHECK(report.links.size() == 7);
    CHECK(report.links.front().to == "destination");
    CHECK(report.links.front().messages == 4);
}

TEST_CASE("links that form no tree are refused with line and names") {
    check_error(two_switches("parent = \"upp\"\n"), Errc::kInput, "t:3: switch 'down': its parent 'upp'");
    check_error(two_switches("load = 1\n"), Errc::kInput,
                "t:3: switch 'down' has no parent, and neither has 'up' (line 1)");
    check_error(two_switches("parent = \"down\"\n"), Errc::kInput, "t:3: switch 'down' is its own ancestor");
    check_error(
        "[[switch]]\nname='x'\nparent='z'\n[[switch]]\nname='y'\nparent='x'\n[[switch]]\nname='z'\nparent='y'"
        "\n",
        Errc::kInput, "t:1: switch 'x' is its own ancestor, a cycle: x -> z -> y -> x");
    check_error("[[switch]]\nname='r'\n[[switch]]\nname='r'\nparent='r'\n", Errc::kInput,
                "t:3: switch 'r': the name is taken by line 1");
}

TEST_CASE("a rate that is zero, negative or not a number is refused") {
    for (const char* rate : {"0", "0.0", "-1", "-0.5", "nan", "inf", "-inf", "1e300"}) {
        check_error(two_switches("parent = \"up\"\nrate = " + std::string(rate) + "\n"), Errc::kInput,
                    "t:6: switch 'down': rate ");
    }
    check_error(two_switches("parent = \"up\"\nrate = \"fast\"\n"), Errc::kInput,
                "t:6: switch 'down': rate must be a number of messages per second, not a string");
}

TEST_CASE("counts below zero and of other kinds are refused") {
    check_error(two_switches("parent = \"up\"\nload = -1\n"), Errc::kInput, "t:6: switch 'down': load -1");
    check_error(two_switches("parent = \"up\"\nload = 1.5\n"), Errc::kInput, "t:6: switch 'down': load 1.5");
    check_error(two_switches("parent = \"up\"\n[task]\nk = -2\n"), Errc::kInput, "t:7: task: k -2");
    check_error(two_switches("parent = \"up\"\n[task]\nk = 4294967296\n"), Errc::kInput,
                "t:7: task: k 4294967296");
    check_error(two_switches("parent = \"up\"\navailable = 1\n"), Errc::kInput,
                "available must be true or false");
}

TEST_CASE("unknown keys, names and kinds are refused by name") {
    check_error(two_switches("parent = \"up\"\nspeed = 1\n"), Errc::kInput,
                "t:6: switch 'down': unknown key 'speed'; known: name, parent, rate, load, available");
    check_error("[[swich]]\nname = \"a\"\n", Errc::kInput, "t:1: unknown key 'swich'");
    check_error("switch = 3\n", Errc::kInput, "t:1: switch must be an array of tables, not a whole number");
    check_error("switch = [3]\n", Errc::kInput, "t:1: switch holds a whole number");
    check_error("[[switch]]\nload = 1\n", Errc::kInput, "t:1: switch: needs 'name'");
    check_error("[[switch]]\nname = \"\"\n", Errc::kInput, "t:2: switch: name must be 1 to 255 bytes");
    check_error("[[switch]]\nname = \"a\\nb\"\n", Errc::kInput, "without control characters");
    check_error("", Errc::kInput, "at least one [[switch]]");
    check_error(std::string(kExample) + "objective = \"speed\"\n", Errc::kInput,
                "t:28: task: objective 'speed'");
}

TEST_CASE("syntax errors have a line") {
    check_error("[[switch]]\nname = \n", Errc::kInput, "t:2: ");
    check_error("{\"switch\": [\n{\"name\": \"a\",}\n]}", Errc::kInput, "t:2: this is not JSON");
    check_error("{\"switch\": [{\"name\": \"a\", \"rate\": NaN}]}", Errc::kInput, "t:1: this is not JSON");
    check_error("{", Errc::kInput, "t:1: this is not JSON");
    check_error("{\"a\": 1} x", Errc::kInput, "this is not JSON");
    check_error("{\"switch\": [\n{\"name\": \"a\",\n\"name\": \"b\"}]}", Errc::kInput,
                "t:3: 'name' is given twice");
    check_error("{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}", Errc::kInput,
                "nested more than 16");
}

TEST_CASE("JSON knows its lines too, numbers at the end of one included") {
    check_error("{\"switch\": [\n {\"name\": \"a\",\n  \"rate\": -3\n }]}", Errc::kInput,
                "t:3: switch 'a': rate -3");
    check_error("{\"switch\": [\n {\"name\": \"a\"},\n {\"name\": \"b\"}]}", Errc::kInput,
                "t:3: switch 'b' has no parent");
    const Report report = report_of(
        R"({"switch": [{"name": "r", "load": 3, "rate": 2.5}], "task": {"k": 1}, "message": {"bytes": 100}})");
    CHECK(report.contenders.front().cost.bytes == 300);
    CHECK(report.chosen == std::vector<std::string>{"r"});
}

namespace {

// Two racks under a spine; the receiver may be anywhere.
constexpr const char* kRacks = R"(
[[switch]]
name = "spine"
rate = 40
[[switch]]
name = "tor1"
parent = "spine"
rate = 10
[[switch]]
name = "tor2"
parent = "spine"
rate = 20
[[host]]
name = "h1"
switch = "tor1"
[[host]]
name = "h2"
switch = "tor1"
load = 3
[[host]]
name = "h3"
switch = "tor2"
rate = 5
)";

}  // namespace

TEST_CASE("a receiver roots the tree at its switch, and links keep their rates") {
    const Network network = network_of(std::string(kRacks) + "[task]\nreceiver = \"h3\"\n").value();
    CHECK(network.destination == "h3");
    CHECK(network.name[network.tree.root()] == "tor2");
    CHECK(network.tree.rate(2) == 5);   // tor2 -> h3
    CHECK(network.tree.rate(0) == 20);  // spine -> tor2
    CHECK(network.tree.rate(1) == 10);  // tor1 -> spine
    CHECK(network.tree.load(1) == 4);
    CHECK(network.tree.load(2) == 0);
    CHECK(network.tree.parent(0) == 2);
}

TEST_CASE("senders choose the load, and must exist and not receive") {
    CHECK(network_of(kRacks).value().tree.total_load() == 5);
    const Network one =
        network_of(std::string(kRacks) + "[task]\nsenders = [\"h1\"]\nreceiver = \"h3\"\n").value();
    CHECK(one.tree.total_load() == 1);
    check_error(std::string(kRacks) + "[task]\nsenders = [\"h9\"]\n", Errc::kUnknown,
                "t:24: sender 'h9' is no host");
    check_error(std::string(kRacks) + "[task]\nreceiver = \"tor1\"\n", Errc::kUnknown,
                "receiver 'tor1' is no host");
    check_error(std::string(kRacks) + "[task]\nsenders = [\"h1\"]\nreceiver = \"h1\"\n", Errc::kInput,
                "sender 'h1' is the receiver too");
    check_error(std::string(kRacks) + "[task]\nsenders = [\"h1\", \"h1\"]\n", Errc::kInput, "given twice");
    check_error(std::string(kRacks) + "[[host]]\nname = \"h4\"\nswitch = \"tor9\"\n", Errc::kInput,
                "t:24: host 'h4': 'tor9' is no switch");
    check_error(std::string(kRacks) + "[[host]]\nname = \"tor1\"\nswitch = \"tor1\"\n", Errc::kInput,
                "the name is taken by line 5");
}

TEST_CASE("message models are read and checked") {
    const auto bytes = [](const std::string& message) {
        return report_of(std::string(kExample) + "[message]\n" + message).contenders.front().cost.bytes;
    };
    CHECK(bytes("bytes = 10\n") == 510);
    CHECK(bytes("model = \"parameter-server\"\nfeatures = 100\ndropout = 0.5\nbytes_per_value = 2\n") ==
          5100);
    CHECK(bytes("model = \"measured\"\npoints = [[1, 7], [17, 20.5]]\n") == 51 * 7);
    const auto refused = [](const std::string& message, const std::string& says) {
        check_error(std::string(kExample) + "[message]\n" + message, Errc::kInput, says);
    };
    refused("model = \"size\"\n", "t:28: message: model 'size'");
    refused("bytes = 0\n", "t:28: message: message size");
    refused("model = \"parameter-server\"\n", "t:28: message: a parameter server needs");
    refused("model = \"measured\"\npoints = [[1]]\n", "t:30: message: a point is");
    refused("model = \"measured\"\n", "needs 'points'");
    refused("model = \"word-count\"\n", "needs 'text'");
    refused("model = \"word-count\"\ntext = \"t\"\ngeometry = \"99\"\n", "t:28: message: geometry: ");
    refused("bytes = 10\ngeometry = \"16*8\"\n", "t:28: message: 'geometry' goes with");
}

TEST_CASE("a lab's description is a topology: one switch and its hosts") {
    const Network network = network_of(R"({
  "lab": "lab", "state": "/run/ask-lab/lab", "complete": true,
  "nodes": [{"node": "sw", "address": "198.18.0.1", "pid": 1}, {"node": "h1"}, {"node": "h2", "pid": null}]
})")
                                .value();
    CHECK(network.tree.size() == 1);
    CHECK(network.tree.total_load() == 2);
    // What is in the middle of its links sends nothing.
    CHECK(network_of(R"({"lab": "x", "nodes": [{"node": "sw"}, {"node": "h1"}, {"node": "chaos"}]})")
              .value()
              .tree.total_load() == 1);
    check_error(R"({"lab": "x", "nodes": [{"node": "h1"}]})", Errc::kInput,
                "a lab has exactly one switch 'sw', not 0");
}

TEST_CASE("a lab of several switches describes them as a file would, links beside the tree too") {
    const std::string start = R"({"lab": "x", "nodes": [{"node": "s1"}], "links": [], "topology": )";
    const Network network = network_of(start + R"({
  "switch": [{"name": "s1"}, {"name": "s2", "parent": "s1", "available": false}, {"name": "s3", "parent": "s1"}],
  "host": [{"name": "h1", "switch": "s2", "load": 3}, {"name": "h2", "switch": "s3"}],
  "link": [{"from": "s2", "to": "s3"}], "task": {"receiver": "h2"}}})")
                                .value();
    CHECK(network.tree.size() == 3);
    CHECK(network.tree.total_load() == 3);
    CHECK(network.destination == "h2");
    check_error(start + R"({"switch": [{"name": "s1"}], "links": []}})", Errc::kInput, "unknown key 'links'");
    check_error(start + R"({"switch": [{"name": "s1"}], "link": {}}})", Errc::kInput,
                "link must be an array of tables, not a table");
    check_error(start + "5}", Errc::kInput, "a topology is a table, not a whole number");
}

TEST_CASE("the JSON report is JSON whatever the names are") {
    const Report report = report_of("[[switch]]\nname = \"<a> & \\\"b\\\" \\\\ c\"\nload = 2\n");
    const auto parsed = nlohmann::json::parse(report_json(report));
    CHECK(parsed["aggregate"][0] == "<a> & \"b\" \\ c");
    CHECK(parsed["costs"].size() == 7);
    CHECK(parsed["links"][0]["messages"] == 1);
    CHECK(parsed["k"] == 1);
}

TEST_CASE("pictures escape names and show every switch once") {
    const Report report = report_of("[[switch]]\nname = \"<a> & \\\"b\\\"\"\nload = 2\n");
    const std::string svg = picture_svg(report).value();
    CHECK(svg.find("&lt;a&gt; &amp; &quot;b&quot;") != std::string::npos);
    CHECK(svg.find("<a>") == std::string::npos);
    CHECK(picture_dot(report).find("\"<a> & \\\"b\\\"\"") != std::string::npos);
    const std::string example = picture_svg(report_of(kExample)).value();
    std::size_t circles = 0;
    for (std::size_t at = example.find("<circle"); at != std::string::npos;
         at = example.find("<circle", at + 1)) {
        ++circles;
    }
    CHECK(circles == 7);
}

TEST_CASE("a tree too large to draw is refused, and DOT offered") {
    Report report;
    report.links.resize(kMaxDrawnSwitches + 1);
    CHECK(picture_svg(report).error().text().find("--dot") != std::string::npos);
}

TEST_CASE("the text report names switches, strategies and links") {
    const std::string text = report_text(report_of(kExample));
    for (const char* part :
         {"aggregate at right, b", "all-red", "greedy", "chosen", "39.2 %", "right -> root", "aggregates"}) {
        CHECK(text.find(part) != std::string::npos);
    }
    CHECK(report_text(report_of("[[switch]]\nname = \"r\"\n")).find("nowhere") != std::string::npos);
}

TEST_CASE("every objective can be planned for") {
    for (const std::string objective : {"utilisation", "bottleneck", "bytes"}) {
        const Report report = report_of(std::string(kExample) + "objective = \"" + objective + "\"\n");
        CHECK(report.objective == objective);
        CHECK(report.chosen.size() <= 2);
        CHECK(report.curve.empty() == (objective == "bottleneck"));
    }
}
