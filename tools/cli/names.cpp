// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/names.h"

#include <array>
#include <cctype>
#include <cinttypes>
#include <cstdio>

#include <google/protobuf/descriptor.h>

#include "lib/net/host_book.h"

namespace ask::cli {

std::string channel_text(const v1::ChannelId& channel) {
    return control_address(channel.host(), static_cast<std::uint16_t>(channel.port()));
}

std::string instance_text(std::uint64_t instance) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "0x%016" PRIx64, instance);
    return text.data();
}

std::string enum_text(const google::protobuf::EnumValueDescriptor& value) {
    // Values carry their type's name in front: OPERATOR_SUM.
    std::string prefix;
    for (const char c : value.type()->name()) {
        prefix += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    std::string name = value.name();
    if (name.starts_with(prefix + "_")) {
        name.erase(0, prefix.size() + 1);
    }
    for (char& c : name) {
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return name;
}

std::string policy_text(v1::Policy policy) {
    switch (policy) {
#define ASK_POLICY(NAME, Name, number, text, meaning) \
    case v1::POLICY_##NAME:                           \
        return text;
#include "lib/abi/policies.def"
        default:
            return "first-come";
    }
}

std::string op_text(v1::Operator op) {
    const auto* const value = v1::Operator_descriptor()->FindValueByNumber(op);
    return value == nullptr ? "unknown" : enum_text(*value);
}

std::string geometry_text(const v1::Geometry& geometry) {
    if (geometry.short_slots() == 0 && geometry.groups() == 0) {
        return "-";
    }
    std::string text = std::to_string(geometry.short_slots());
    if (geometry.groups() > 0) {
        text += "+" + std::to_string(geometry.groups()) + "x" + std::to_string(geometry.m());
    }
    return text + "*" + std::to_string(geometry.rows());
}

std::string mark_text(const v1::Mark& mark) {
    if (mark.switch_id() == 0) {
        return "none";
    }
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "switch %u, incarnation 0x%08x", mark.switch_id(),
                  mark.incarnation());
    return text.data();
}

}  // namespace ask::cli
