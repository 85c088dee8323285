// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/reload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

namespace ask {

ConfigChange compare(const ConfigSnapshot& before, const ConfigSnapshot& now,
                     const std::set<std::string>& live) {
    ConfigChange change;
    for (const auto& [key, value] : now.values) {
        const auto known = before.values.find(key);
        if (known == before.values.end() || known->second != value) {
            (live.contains(key) ? change.taken : change.restart).push_back(key);
        }
    }
    return change;
}

bool take_reload(const Result<ConfigAction>& read, const ConfigSnapshot& now,
                 const std::set<std::string>& live, ConfigSnapshot* current) {
    if (!read.ok()) {
        spdlog::error("SIGHUP: {}; everything stays as it is", read.error().text());
        return false;
    }
    if (now.file.empty()) {
        spdlog::warn("SIGHUP: {}; everything stays as it is",
                     current->file.empty() ? "there is no configuration file to read again"
                                           : current->file + " is gone");
        return false;
    }
    const ConfigChange change = compare(*current, now, live);
    current->file = now.file;
    for (const std::string& key : change.taken) {
        current->values[key] = now.values.at(key);
    }
    spdlog::info("SIGHUP: {} read again; changed: {}", now.file,
                 change.taken.empty() ? "nothing" : fmt::format("{}", fmt::join(change.taken, ", ")));
    if (!change.restart.empty()) {
        spdlog::warn("SIGHUP: only a restart changes {}", fmt::join(change.restart, ", "));
    }
    return true;
}

}  // namespace ask
