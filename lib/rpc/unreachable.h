// SPDX-License-Identifier: Apache-2.0
//
// Calls that nobody answers, in words.
#pragma once

#include <string>
#include <string_view>

namespace ask {

// Why nobody answered a call to `address` (HOST:PORT, or unix:PATH), by what gRPC said: in words that tell a
// name that does not resolve from a port where nobody listens and a host that is silent.
[[nodiscard]] std::string why_unreachable(const std::string& address, std::string_view said);

}  // namespace ask
