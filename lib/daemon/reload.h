// SPDX-License-Identifier: Apache-2.0
//
// What SIGHUP does in a daemon: the configuration is read again, and what can change while it runs changes.
#pragma once

#include <set>
#include <string>

#include "lib/base/result.h"
#include "lib/daemon/config.h"

namespace ask {

// What two configurations differ in.
struct ConfigChange {
    std::vector<std::string> taken;    // these change now
    std::vector<std::string> restart;  // these when the daemon starts anew
};

// `live`: the keys that can change.
[[nodiscard]] ConfigChange compare(const ConfigSnapshot& before, const ConfigSnapshot& now,
                                   const std::set<std::string>& live);

// Logs what a SIGHUP came to, and lets `current` be what the daemon runs with from now on. `read` is how
// reading the configuration again went, and `now` what was read. False: nothing may change.
bool take_reload(const Result<ConfigAction>& read, const ConfigSnapshot& now,
                 const std::set<std::string>& live, ConfigSnapshot* current);

}  // namespace ask
