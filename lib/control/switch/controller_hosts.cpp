// SPDX-License-Identifier: Apache-2.0
//
// Hosts with IPv6, whose numbers programs find by their addresses. There are as many entries as channels and
// tasks may be, each of which has one host: they never run out.
#include <arpa/inet.h>

#include <spdlog/spdlog.h>

#include "lib/control/switch/controller.h"
#include "lib/control/switch/host_address.h"
#include "lib/net/host_book.h"

namespace ask {

// For one channel or task more.
Result<> Controller::enter_host(std::uint32_t number) {
    if (!is_ipv6_number(number)) {
        return {};
    }
    if (store_.hosts() == nullptr) {
        return Error(Errc::kUnsupported, "this switch does not read IPv6");
    }
    const auto address = ipv6_of(number);
    if (!address) {
        return Error(Errc::kInput, format_host(number) + " is of no known address");
    }
    if (!host_users_.contains(number)) {
        ASK_TRY(store_.hosts()->set(program_address(*address), htonl(number)), "host " + format_host(number));
    }
    ++host_users_[number];
    return {};
}

// For one that is gone.
void Controller::leave_host(std::uint32_t number) {
    const auto users = host_users_.find(number);
    if (users == host_users_.end() || --users->second > 0) {
        return;
    }
    host_users_.erase(users);
    if (const auto erased = store_.hosts()->erase(program_address(ipv6_of(number).value_or(Ipv6Address{})));
        !erased.ok()) {
        spdlog::error("host {}: {}", format_host(number), erased.error().text());
    }
}

// A predecessor's, whose numbers channels and tasks have.
Result<> Controller::adopt_hosts() const {
    if (store_.hosts() == nullptr) {
        return {};
    }
    const auto keys = store_.hosts()->keys();
    ASK_PASS(keys);
    for (const ask_ipv6& key : *keys) {
        if (const auto entered = enter_ipv6(address_of(key)); !entered.ok()) {
            spdlog::warn("{}; forgotten", entered.error().text());
        }
    }
    return {};
}

Result<> Controller::clear_unused_hosts() const {
    if (store_.hosts() == nullptr) {
        return {};
    }
    const auto keys = store_.hosts()->keys();
    ASK_PASS(keys);
    for (const ask_ipv6& key : *keys) {
        if (!host_users_.contains(number_of(address_of(key)))) {
            ASK_PASS(store_.hosts()->erase(key));
        }
    }
    return {};
}

}  // namespace ask
