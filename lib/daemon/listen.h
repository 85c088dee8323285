// SPDX-License-Identifier: Apache-2.0
//
// Why a daemon cannot listen: gRPC and the HTTP server of the metrics do not say.
#pragma once

#include <string>

#include "lib/base/result.h"

namespace ask {

// Tries whether a TCP server may listen at `address` (HOST:PORT), which the option `key` names. kExists: the
// port is in use. kUnknown: the address is not this machine's, or the name does not resolve. kDenied: the
// port is privileged.
Result<> check_listen(const std::string& key, const std::string& address);

}  // namespace ask
