// SPDX-License-Identifier: Apache-2.0
//
// What `askctl doctor` looks at: the kernel, this machine's interfaces, files and daemons, and the way to
// other hosts. Nothing is changed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "tools/cli/doctor/facts.h"

namespace ask::cli::doctor {

struct Questions {
    std::string agent_config;     // file; empty: /etc/ask/agentd.toml, if it is there
    std::string switch_config;    // and /etc/ask/switchd.toml
    std::vector<std::string> to;  // other hosts, as ask-send --to has them
};

// Takes as long as silent hosts are waited for.
[[nodiscard]] Facts gather(const Questions& questions);

// Its parts.
[[nodiscard]] LinkFacts look_at_link(const std::string& name);
struct PathQuestion {
    std::string name;
    std::string address;  // IPv4; empty: it does not resolve
};
// Fills in all but the agent's answer.
[[nodiscard]] PathFacts look_at_path(const PathQuestion& question);

}  // namespace ask::cli::doctor
