// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/placement_file.h"

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <limits>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "lib/text/clean.h"

namespace ask::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{4} << 20U;

Error wrong(const std::string& name, const std::string& what) {
    return {Errc::kInput, "placement " + name + ": " + what};
}

// One table of a placement; an error stays, and whatever is asked for after it is empty.
class Fields {
 public:
    Fields(const json& table, std::string name, std::string what)
        : table_(table), name_(std::move(name)), what_(std::move(what)) {
        if (!table_.is_object()) {
            fail("is no object");
        }
    }

    std::string text(const char* key, bool needed) {
        const json* const value = find(key, needed);
        if (value == nullptr) {
            return "";
        }
        if (!value->is_string()) {
            fail(std::string("'") + key + "' must be a string");
            return "";
        }
        return value->get<std::string>();
    }

    std::uint32_t count(const char* key, std::uint32_t otherwise) {
        const json* const value = find(key, false);
        if (value == nullptr) {
            return otherwise;
        }
        if (!value->is_number_unsigned() ||
            value->get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max()) {
            fail(std::string("'") + key + "' must be a whole number from 0 to 4294967295");
            return otherwise;
        }
        return value->get<std::uint32_t>();
    }

    // 64 bits, which proto3's JSON has as text.
    std::uint64_t large(const char* key) {
        const json* const value = find(key, false);
        if (value == nullptr || value->is_number_unsigned()) {
            return value == nullptr ? 0 : value->get<std::uint64_t>();
        }
        std::uint64_t number = 0;
        const std::string text = value->is_string() ? value->get<std::string>() : "";
        const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (text.empty() || code != std::errc() || end != text.data() + text.size()) {
            fail(std::string("'") + key + "' must be a whole number from 0");
        }
        return number;
    }

    double number(const char* key) {
        const json* const value = find(key, false);
        if (value == nullptr || value->is_number()) {
            return value == nullptr ? 0 : value->get<double>();
        }
        fail(std::string("'") + key + "' must be a number");
        return 0;
    }

    [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
    const json* find(const char* key, bool needed) {
        if (error_) {
            return nullptr;
        }
        const auto at = table_.find(key);
        if (at == table_.end() && needed) {
            fail(std::string("has no '") + key + "'");
        }
        return at == table_.end() ? nullptr : &*at;
    }
    void fail(const std::string& why) {
        if (!error_) {
            error_ = wrong(name_, what_ + " " + why);
        }
    }

    const json& table_;
    const std::string name_;
    const std::string what_;
    std::optional<Error> error_;
};

Result<client::PlacedRelay> read_relay(const json& table, const std::string& name) {
    Fields fields(table, name, "a relay");
    client::PlacedRelay relay;
    relay.name = fields.text("name", true);
    relay.address = fields.text("address", true);
    relay.parent = fields.text("parent", false);
    relay.control = fields.text("control", false);
    return fields.error() ? Result<client::PlacedRelay>(*fields.error()) : relay;
}

Result<client::PlacedHost> read_host(const json& table, const std::string& name) {
    Fields fields(table, name, "a host");
    client::PlacedHost host;
    host.name = fields.text("name", true);
    host.address = fields.text("address", true);
    host.sends = fields.count("sends", 1);
    host.entry = fields.text("entry", false);
    host.at = fields.text("at", false);
    return fields.error() ? Result<client::PlacedHost>(*fields.error()) : host;
}

Result<client::PlacedLink> read_link(const json& table, const std::string& name) {
    Fields fields(table, name, "a link");
    client::PlacedLink link;
    link.from = fields.text("from", false);
    link.to = fields.text("to", false);
    link.messages = fields.large("messages");
    link.bytes = fields.number("bytes");
    return fields.error() ? Result<client::PlacedLink>(*fields.error()) : link;
}

// An array that may be missing, as proto3's JSON has it when it is empty.
Result<const json*> array_of(const json& table, const char* key, const std::string& name) {
    static const json kNone = json::array();
    const auto at = table.find(key);
    if (at == table.end()) {
        return &kNone;
    }
    return at->is_array() ? Result<const json*>(&*at)
                          : wrong(name, std::string("'") + key + "' must be an array");
}

}  // namespace

Result<client::Placement> parse_placement(const std::string& text, const std::string& name) {
    const json document = json::parse(text, nullptr, false);
    if (document.is_discarded() || !document.is_object()) {
        return wrong(name, "is no JSON object");
    }
    if (!document.contains("placement") && document.contains("aggregate")) {
        return wrong(name,
                     "is a plan without relays: give switches their `relay` and hosts their `address` in the "
                     "topology");
    }
    const json& plan = document.contains("placement") ? document["placement"] : document;
    if (!plan.is_object()) {
        return wrong(name, "'placement' is no object");
    }
    client::Placement placement;
    const auto relays = array_of(plan, "relays", name);
    ASK_PASS(relays);
    for (const json& each : **relays) {
        auto relay = read_relay(each, name);
        ASK_PASS(relay);
        placement.relays.push_back(*std::move(relay));
    }
    const auto hosts = array_of(plan, "hosts", name);
    ASK_PASS(hosts);
    for (const json& each : **hosts) {
        auto host = read_host(each, name);
        ASK_PASS(host);
        placement.hosts.push_back(*std::move(host));
    }
    const auto links = array_of(plan, "links", name);
    ASK_PASS(links);
    for (const json& each : **links) {
        auto link = read_link(each, name);
        ASK_PASS(link);
        if (!link->from.empty() && !link->to.empty()) {
            placement.links.push_back(*std::move(link));
        }
    }
    return placement;
}

Result<client::Placement> read_placement(const std::string& path) {
    std::ifstream file;
    if (path != "-") {
        file.open(path, std::ios::binary);
    }
    std::istream& from = path == "-" ? std::cin : file;
    if (!from) {
        return Error::from_errno(errno != 0 ? errno : EIO, "placement " + clean_text(path));
    }
    std::string text(kMostBytes + 1, '\0');
    from.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(from.gcount()));
    if (text.size() > kMostBytes) {
        return wrong(clean_text(path), "is longer than " + std::to_string(kMostBytes) + " bytes");
    }
    return parse_placement(text, path == "-" ? "standard input" : clean_text(path));
}

}  // namespace ask::cli
