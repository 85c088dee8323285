// SPDX-License-Identifier: Apache-2.0
//
// Which interfaces are a switch's ports: those that its configuration names, in full or by a pattern.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/net/netlink.h"

namespace ask {

// An interface's name, or a pattern of such: * ? and [...], as in a shell.
[[nodiscard]] Result<> check_port_name(std::string_view text);
[[nodiscard]] bool is_port_pattern(std::string_view text);

struct PortChoice {
    struct Named {
        InterfaceInfo interface;
        bool in_full = false;  // by its own name, not by a pattern alone
    };
    std::vector<Named> ports;          // in the order of `names`, each once
    std::vector<std::string> missing;  // named in full, and not there
};

// A pattern leaves loopback and bridges out: ports are what is on a bridge, not the bridge. So it does the
// members of bonds that are ports.
[[nodiscard]] PortChoice choose_ports(const std::vector<std::string>& names,
                                      const std::vector<InterfaceInfo>& interfaces);

}  // namespace ask
