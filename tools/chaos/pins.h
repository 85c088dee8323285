// SPDX-License-Identifier: Apache-2.0
//
// The fault injector's maps as ask-chaos sees them: rules in, counters out, by their pins.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lib/base/result.h"
#include "lib/bpf/map.h"
#include "tools/chaos/chaos.h"

namespace ask::chaos {

inline constexpr unsigned kDirections = 2;

constexpr std::uint32_t port_of(unsigned link, unsigned direction) {
    return kDirections * (link - 1) + direction;
}

class Pins {
 public:
    // `dir` is where the daemon pinned its maps.
    static Result<Pins> open(const std::filesystem::path& dir);

    [[nodiscard]] unsigned links() const { return rules_.max_entries() / kDirections; }
    // From its next packet on, the port's packets are numbered anew and treated by the rule.
    Result<> set(std::uint32_t port, const ChaosRule& rule) const;
    Result<ChaosRule> rule(std::uint32_t port) const;
    // Of all CPUs together.
    Result<ChaosDone> done(std::uint32_t port) const;
    [[nodiscard]] ChaosHeld held(std::uint32_t port) const;
    // Of all CPUs together.
    Result<ChaosCarried> carried(std::uint32_t port) const;

 private:
    bpf::Map<std::uint32_t, ChaosRule> rules_;
    bpf::PerCpuArray<ChaosDone> done_;
    bpf::ArrayView<const ChaosHeld> held_;
    bpf::PerCpuArray<ChaosCarried> carried_;
};

// The ends of a link, by name: from, to.
using LinkNames = std::vector<std::array<std::string, 2>>;

// Rules and counters of every link, and the counters' sums. Links without names are those of hosts h1, h2 ...
Result<nlohmann::ordered_json> to_json(const Pins& pins, const LinkNames& names);

}  // namespace ask::chaos
