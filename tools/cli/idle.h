// SPDX-License-Identifier: Apache-2.0
//
// `askctl idle`: whether a daemon may be restarted or replaced, and what stands against it. Text only: no
// I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/common.pb.h"
#include "tools/cli/to_json.h"

namespace ask::cli {

// A daemon, and what it says of itself.
struct Standing {
    std::string who;  // "agent h1"
    std::string version;
    v1::Upkeep upkeep;
};

struct IdleQuestion {
    bool restart = false;                       // what survives a restart does not count
    std::optional<std::uint32_t> wire_version;  // one that speaks these packets is not in the way
};

// What of it stands against what is asked for, by name; empty: nothing.
[[nodiscard]] std::string in_the_way(const Standing& daemon, const IdleQuestion& question);

// kUnsupported: it is of a release that does not say. kDenied: it has shown but a part, and nothing in that
// is in the way.
[[nodiscard]] Result<> check_said(const Standing& daemon, const IdleQuestion& question);

[[nodiscard]] std::string idle_text(const std::vector<Standing>& daemons, const IdleQuestion& question);
[[nodiscard]] Json idle_json(const std::vector<Standing>& daemons, const IdleQuestion& question);

}  // namespace ask::cli
