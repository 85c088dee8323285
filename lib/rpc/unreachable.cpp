// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/unreachable.h"

namespace ask {

std::string why_unreachable(const std::string& address, std::string_view said) {
    const auto contains = [said](std::string_view part) { return said.find(part) != std::string_view::npos; };
    if (contains("DNS resolution failed") || contains("Domain name not found")) {
        return "the name \"" + address.substr(0, address.rfind(':')) + "\" does not resolve";
    }
    if (contains("Connection refused")) {
        return "nobody listens at " + address + " (connection refused)";
    }
    if (contains("No such file or directory")) {
        return "there is no socket " + address;
    }
    for (const std::string_view way : {"No route to host", "Network is unreachable", "Host is down"}) {
        if (contains(way)) {
            return "no way leads to " + address + " (" + std::string(way) + ")";
        }
    }
    if (contains("imed out") || contains("Deadline") || contains("no answer in time")) {
        return address + " does not answer: the host is down, or a firewall drops what is sent there";
    }
    return std::string(said);
}

}  // namespace ask
