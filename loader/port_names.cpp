// SPDX-License-Identifier: Apache-2.0
#include "loader/port_names.h"

#include <fnmatch.h>

#include <algorithm>

#include "lib/daemon/config.h"
#include "lib/text/escape.h"

namespace ask {

Result<> check_port_name(std::string_view text) {
    if (!is_port_pattern(text) && is_utf8(text)) {
        return check_interface(text);
    }
    const bool clean = text.find_first_of("/: \t") == std::string_view::npos && is_utf8(text);
    return clean ? Result<>()
                 : Error(Errc::kUsage, "must be an interface's name, or a pattern of names such as veth*");
}

bool is_port_pattern(std::string_view text) {
    return text.find_first_of("*?[") != std::string_view::npos;
}

namespace {

// A name may be any bytes, and messages have text.
bool fits_pattern(const InterfaceInfo& one, const std::string& pattern) {
    return !one.loopback && one.kind != "bridge" && is_utf8(one.name) &&
           ::fnmatch(pattern.c_str(), one.name.c_str(), 0) == 0;
}

// What a pattern has found, and whose packets are those of a bond that is a port itself.
void leave_members_out(PortChoice& choice) {
    const std::vector<PortChoice::Named> found = choice.ports;
    std::erase_if(choice.ports, [&found](const PortChoice::Named& port) {
        return !port.in_full && std::ranges::any_of(found, [&port](const PortChoice::Named& bond) {
            return bond.interface.kind == "bond" && bond.interface.index == port.interface.master;
        });
    });
}

}  // namespace

PortChoice choose_ports(const std::vector<std::string>& names, const std::vector<InterfaceInfo>& interfaces) {
    PortChoice choice;
    const auto is_chosen = [&choice](const InterfaceInfo& one) {
        return std::ranges::any_of(choice.ports, [&one](const PortChoice::Named& port) {
            return port.interface.index == one.index;
        });
    };
    for (const std::string& name : names) {
        const bool pattern = is_port_pattern(name);
        bool found = false;
        for (const InterfaceInfo& one : interfaces) {
            const bool fits = pattern ? fits_pattern(one, name) : one.name == name;
            found = found || fits;
            if (fits && !is_chosen(one)) {
                choice.ports.push_back({.interface = one, .in_full = !pattern});
            }
        }
        if (!found && !pattern) {
            choice.missing.push_back(name);
        }
    }
    // A pattern in front of the name would have it pass for one of many.
    for (PortChoice::Named& port : choice.ports) {
        port.in_full = port.in_full || std::ranges::find(names, port.interface.name) != names.end();
    }
    leave_members_out(choice);
    return choice;
}

}  // namespace ask
