// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include <toml++/toml.h>

#include "lib/topology/document.h"

namespace ask::topology {
namespace {

// Depth is bounded by the parser, which refuses more than 256 levels.
Value convert(const toml::node& node) {
    Value value;
    value.line = node.source().begin.line;
    switch (node.type()) {
        case toml::node_type::table:
            value.kind = Value::Kind::kTable;
            for (const auto& [key, member] : *node.as_table()) {
                value.members.push_back({std::string(key.str()), convert(member)});
            }
            break;
        case toml::node_type::array:
            value.kind = Value::Kind::kArray;
            for (const auto& item : *node.as_array()) {
                value.items.push_back(convert(item));
            }
            break;
        case toml::node_type::string:
            value.kind = Value::Kind::kString;
            value.text = node.as_string()->get();
            break;
        case toml::node_type::integer:
            value.kind = Value::Kind::kInteger;
            value.integer = node.as_integer()->get();
            break;
        case toml::node_type::floating_point:
            value.kind = Value::Kind::kReal;
            value.real = node.as_floating_point()->get();
            break;
        case toml::node_type::boolean:
            value.kind = Value::Kind::kBool;
            value.boolean = node.as_boolean()->get();
            break;
        default:  // dates and times mean nothing here: a null is no value of any kind that is asked for
            break;
    }
    return value;
}

}  // namespace

Result<Value> read_toml(std::string_view text, const std::string& name) {
    try {
        return convert(toml::parse(text, name));
    } catch (const toml::parse_error& error) {
        return at_line(name, error.source().begin.line, std::string(error.description()));
    }
}

}  // namespace ask::topology
