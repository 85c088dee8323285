// SPDX-License-Identifier: Apache-2.0
//
// What `askctl ca` is told.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/tls/authority.h"

namespace ask::cli {

struct AuthorityFlags {
    std::string directory;
    std::optional<unsigned> days;
    std::vector<std::string> names;  // NAME[=ADDRESS[,ADDRESS...]]
    std::string tenant;
    bool role_switch = false;
    bool role_operator = false;
};

// kUsage: one of them can be no certificate; then none should be issued.
Result<std::vector<CertificateOrder>> certificate_orders(const AuthorityFlags& flags);

}  // namespace ask::cli
