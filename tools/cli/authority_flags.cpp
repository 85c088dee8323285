// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/authority_flags.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace ask::cli {
namespace {

std::vector<std::string> split_at_commas(const std::string& text) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        parts.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

}  // namespace

Result<std::vector<CertificateOrder>> certificate_orders(const AuthorityFlags& flags) {
    std::vector<CertificateOrder> orders;
    for (const std::string& named : flags.names) {
        CertificateOrder order;
        order.tenant = flags.tenant;
        order.role_operator = flags.role_operator;
        order.role_switch = flags.role_switch;
        order.days = flags.days.value_or(order.days);
        const std::size_t equals = named.find('=');
        order.name = named.substr(0, equals);
        if (equals != std::string::npos) {
            order.addresses = split_at_commas(named.substr(equals + 1));
        }
        ASK_PASS(check_order(order));
        orders.push_back(std::move(order));
    }
    return orders;
}

}  // namespace ask::cli
