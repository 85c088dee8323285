// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/topology.h"

#include <limits>
#include <map>
#include <utility>

#include "lib/net/address.h"
#include "lib/net/host_book.h"
#include "lib/topology/schema.h"

namespace ask::topology {
namespace {

constexpr std::uint64_t kMaxK = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kDefaultShards = 640;
constexpr unsigned kPayloadLimit = 1472;  // an MTU of 1500
constexpr std::uint64_t kMaxMemoryMib = std::uint64_t{1} << 32;

// Where an ask-relayd is called: IPv4:PORT or [IPv6]:PORT, as it is written everywhere.
void read_relay(TableReader& reader, const Value& table, std::string& out) {
    std::string text;
    reader.text("relay", text);
    const Value* const value = table.find("relay");
    if (text.empty() || value == nullptr) {
        return;
    }
    const auto address = host_of_control(text);
    if (!address.ok()) {
        return reader.fail(value->line, "relay '" + text + "': " + address.error().text());
    }
    out = control_address(*address, split_host_port(text)->port);
}

// As the agent's `switch` says it, which may be a name.
void read_control(TableReader& reader, const Value& table, std::string& out) {
    reader.text("control", out);
    const Value* const value = table.find("control");
    if (out.empty() || value == nullptr) {
        return;
    }
    if (const auto valid = check_host_port(out); !valid.ok()) {
        reader.fail(value->line, "control '" + out + "' is not HOST:PORT");
    }
    out = canonical_host_port(out);
}

void read_address(TableReader& reader, const Value& table, std::optional<std::uint32_t>& out) {
    std::string text;
    reader.text("address", text);
    const Value* const value = table.find("address");
    if (text.empty() || value == nullptr) {
        return;
    }
    const auto address = parse_host(text);
    if (!address.ok()) {
        return reader.fail(value->line, "address '" + text + "': " + address.error().text());
    }
    if (!is_host_number(*address)) {
        return reader.fail(value->line, "address '" + text + "' is not the address of a host");
    }
    out = *address;
}

Result<Switch> read_switch(const Value& table, const std::string& source) {
    Switch made;
    made.line = table.line;
    TableReader reader(table, source, "switch");
    reader.require("name");
    reader.text("name", made.name);
    reader.rename("switch '" + made.name + "'");
    reader.text("parent", made.parent);
    reader.real("rate", made.rate, placement::kMinRate, placement::kMaxRate, "messages per second");
    reader.count("load", made.load, placement::kMaxTotalLoad);
    reader.flag("available", made.available);
    read_relay(reader, table, made.relay);
    read_control(reader, table, made.control);
    std::uint64_t capacity = made.capacity;
    reader.count("capacity", capacity, std::numeric_limits<std::uint32_t>::max());
    made.capacity = static_cast<std::uint32_t>(capacity);
    reader.count("memory_mib", made.memory_mib, kMaxMemoryMib);
    if (auto done = reader.finish(); !done.ok()) {
        return std::move(done).error();
    }
    return made;
}

Result<Host> read_host(const Value& table, const std::string& source) {
    Host made;
    made.line = table.line;
    TableReader reader(table, source, "host");
    reader.require("name");
    reader.text("name", made.name);
    reader.rename("host '" + made.name + "'");
    reader.require("switch");
    reader.text("switch", made.attached_to);
    reader.real("rate", made.rate, placement::kMinRate, placement::kMaxRate, "messages per second");
    reader.count("load", made.load, placement::kMaxTotalLoad);
    read_address(reader, table, made.address);
    if (auto done = reader.finish(); !done.ok()) {
        return std::move(done).error();
    }
    return made;
}

Result<Task> read_task(const Value& table, const std::string& source) {
    Task task;
    task.line = table.line;
    TableReader reader(table, source, "task");
    reader.names("senders", task.senders);
    reader.text("receiver", task.receiver);
    std::uint64_t k = task.k;
    reader.count("k", k, kMaxK);
    task.k = static_cast<std::uint32_t>(k);
    std::string objective(placement::objective_name(task.objective));
    reader.text("objective", objective);
    if (auto done = reader.finish(); !done.ok()) {
        return std::move(done).error();
    }
    const auto parsed = placement::parse_objective(objective);
    if (!parsed.ok()) {
        return at_line(source, table.find("objective")->line, "task: " + parsed.error().text());
    }
    task.objective = *parsed;
    return task;
}

Result<std::vector<placement::SizePoint>> read_points(const Value* array, const std::string& source,
                                                      std::uint32_t line) {
    if (array == nullptr || array->kind != Value::Kind::kArray) {
        return at_line(source, array == nullptr ? line : array->line,
                       "message: model 'measured' needs 'points', an array of [servers, bytes]");
    }
    std::vector<placement::SizePoint> points;
    for (const Value& item : array->items) {
        const bool pair = item.kind == Value::Kind::kArray && item.items.size() == 2 &&
                          item.items[0].kind == Value::Kind::kInteger && item.items[0].integer > 0;
        if (!pair) {
            return at_line(source, item.line, "message: a point is [servers, bytes], such as [8, 1200.5]");
        }
        const Value& bytes = item.items[1];
        points.push_back(
            {static_cast<std::uint64_t>(item.items[0].integer),
             bytes.kind == Value::Kind::kInteger ? static_cast<double>(bytes.integer) : bytes.real});
    }
    return points;
}

struct MessageFields {
    std::string model = "constant";
    double bytes = 1;
    std::uint64_t features = 0;
    double dropout = 0;
    double bytes_per_value = 4;
    const Value* points = nullptr;
};

Result<placement::SizeModel> build_model(const MessageFields& fields, const std::string& source,
                                         std::uint32_t line) {
    if (fields.model == "constant") {
        return placement::SizeModel::constant(fields.bytes);
    }
    if (fields.model == "parameter-server") {
        return placement::SizeModel::parameter_server(fields.features, fields.dropout,
                                                      fields.bytes_per_value);
    }
    if (fields.model == "measured") {
        auto points = read_points(fields.points, source, line);
        if (!points.ok()) {
            return std::move(points).error();
        }
        return placement::SizeModel::measured(std::move(*points));
    }
    return Error(Errc::kInput, "model '" + fields.model +
                                   "' is none of constant, parameter-server, measured and word-count");
}

Result<MessageSpec> read_message(const Value& table, const std::string& source) {
    MessageSpec spec;
    spec.line = table.line;
    MessageFields fields;
    std::uint64_t shards = kDefaultShards;
    TableReader reader(table, source, "message");
    reader.text("model", fields.model);
    reader.real("bytes", fields.bytes, 0, 1e15, "bytes");
    reader.count("features", fields.features, placement::kMaxTotalLoad);
    reader.real("dropout", fields.dropout, 0, 1, "values dropped per value");
    reader.real("bytes_per_value", fields.bytes_per_value, 0, 1e6, "bytes");
    fields.points = reader.any("points");
    reader.text("text", spec.text_file);
    reader.count("shards", shards, 1 << 24);
    std::string geometry;
    reader.text("geometry", geometry);
    if (auto done = reader.finish(); !done.ok()) {
        return std::move(done).error();
    }
    spec.shards = static_cast<std::uint32_t>(shards);
    if (fields.model == "word-count") {
        if (spec.text_file.empty()) {
            return at_line(source, spec.line,
                           "message: model 'word-count' needs 'text', a file to count words in");
        }
        if (!geometry.empty()) {
            const auto parsed = parse_geometry(geometry, kPayloadLimit);
            if (!parsed.ok()) {
                return at_line(source, spec.line, "message: geometry: " + parsed.error().text());
            }
            spec.geometry = *parsed;
        }
        return spec;
    }
    if (!geometry.empty()) {
        return at_line(source, spec.line, "message: 'geometry' goes with model 'word-count'");
    }
    auto model = build_model(fields, source, spec.line);
    if (!model.ok()) {
        const bool located = model.error().text().starts_with(source + ":");
        return located ? std::move(model).error()
                       : at_line(source, spec.line, "message: " + model.error().text());
    }
    spec.model = std::move(*model);
    return spec;
}

// What may be there once. Switches and hosts share one space of names: a task, a table of links and a picture
// name both. An address is one relay's, or one host's.
class Names {
 public:
    explicit Names(const std::string& source) : source_(source) {}

    Result<> add(const Switch& made) {
        const std::string what = "switch '" + made.name + "'";
        ASK_PASS(add(what + ": the name", made.name, made.line, names_));
        return made.relay.empty()
                   ? Result<>()
                   : add(what + ": relay '" + made.relay + "'", made.relay, made.line, relays_);
    }
    Result<> add(const Host& made) {
        const std::string what = "host '" + made.name + "'";
        ASK_PASS(add(what + ": the name", made.name, made.line, names_));
        if (!made.address) {
            return {};
        }
        const std::string address = format_host(*made.address);
        return add(what + ": address '" + address + "'", address, made.line, hosts_);
    }

 private:
    using Seen = std::map<std::string, std::uint32_t>;

    Result<> add(const std::string& what, const std::string& name, std::uint32_t line, Seen& seen) const {
        const auto [entry, fresh] = seen.try_emplace(name, line);
        if (fresh) {
            return {};
        }
        return at_line(source_, line, what + " is taken by line " + std::to_string(entry->second));
    }

    const std::string& source_;
    Seen names_;
    Seen relays_;
    Seen hosts_;
};

Result<> read_nodes(TableReader& reader, Topology& topology) {
    Names names(topology.source);
    const auto switches = tables_of(reader.any("switch"), topology.source, "switch");
    if (!switches.ok()) {
        return switches.error();
    }
    for (const Value* table : *switches) {
        auto made = read_switch(*table, topology.source);
        if (!made.ok()) {
            return std::move(made).error();
        }
        if (auto added = names.add(*made); !added.ok()) {
            return added;
        }
        topology.switches.push_back(std::move(*made));
    }
    const auto hosts = tables_of(reader.any("host"), topology.source, "host");
    if (!hosts.ok()) {
        return hosts.error();
    }
    for (const Value* table : *hosts) {
        auto made = read_host(*table, topology.source);
        if (!made.ok()) {
            return std::move(made).error();
        }
        if (auto added = names.add(*made); !added.ok()) {
            return added;
        }
        topology.hosts.push_back(std::move(*made));
    }
    return {};
}

Result<const Value*> table_member(TableReader& reader, const std::string& source, std::string_view key) {
    const Value* value = reader.any(key);
    if (value != nullptr && value->kind != Value::Kind::kTable) {
        return at_line(source, value->line,
                       std::string(key) + " must be a table, not " + std::string(kind_name(value->kind)));
    }
    return value;
}

// A lab of one switch, `sw`, has every other node at it. Its state is for people; only names matter here.
Result<Topology> read_star(const Value& document, const std::string& name) {
    Topology topology;
    topology.source = name;
    topology.message.model = placement::SizeModel::constant(1).value();
    const auto nodes = tables_of(document.find("nodes"), name, "nodes");
    if (!nodes.ok()) {
        return nodes.error();
    }
    for (const Value* node : *nodes) {
        const Value* called = node->find("node");
        if (called == nullptr || called->kind != Value::Kind::kString || called->text.empty()) {
            return at_line(name, node->line, "a node of a lab needs its name in 'node'");
        }
        if (called->text == "sw") {
            topology.switches.push_back(
                {.name = called->text, .parent = {}, .relay = {}, .line = node->line});
        } else if (called->text != "chaos") {  // what is in the middle of links sends nothing
            topology.hosts.push_back({.name = called->text, .attached_to = "sw", .line = node->line});
        }
    }
    if (topology.switches.size() != 1) {
        return at_line(name, document.line,
                       "a lab has exactly one switch 'sw', not " + std::to_string(topology.switches.size()));
    }
    return topology;
}

Result<Topology> read_file(const Value& document, const std::string& name) {
    Topology topology;
    topology.source = name;
    topology.message.model = placement::SizeModel::constant(1).value();
    TableReader reader(document, name, "");
    if (auto nodes = read_nodes(reader, topology); !nodes.ok()) {
        return std::move(nodes).error();
    }
    // Those beside the tree, which a lab has and a plan goes without.
    if (const auto links = tables_of(reader.any("link"), name, "link"); !links.ok()) {
        return links.error();
    }
    const auto task = table_member(reader, name, "task");
    const auto message = table_member(reader, name, "message");
    if (!task.ok() || !message.ok()) {
        return task.ok() ? message.error() : task.error();
    }
    if (*task != nullptr) {
        auto read = read_task(**task, name);
        if (!read.ok()) {
            return std::move(read).error();
        }
        topology.task = std::move(*read);
    }
    if (*message != nullptr) {
        auto read = read_message(**message, name);
        if (!read.ok()) {
            return std::move(read).error();
        }
        topology.message = std::move(*read);
    }
    if (auto done = reader.finish(); !done.ok()) {
        return std::move(done).error();
    }
    if (topology.switches.empty()) {
        return at_line(name, document.line == 0 ? 1 : document.line,
                       "a topology needs at least one [[switch]]");
    }
    return topology;
}

}  // namespace

Result<Topology> read_topology(const Value& document, const std::string& name) {
    if (document.kind != Value::Kind::kTable) {
        return at_line(name, document.line,
                       "a topology is a table, not " + std::string(kind_name(document.kind)));
    }
    const bool lab = document.find("lab") != nullptr && document.find("nodes") != nullptr;
    const Value* several = lab ? document.find("topology") : nullptr;
    if (several != nullptr) {
        return read_topology(*several, name);
    }
    return lab ? read_star(document, name) : read_file(document, name);
}

}  // namespace ask::topology
