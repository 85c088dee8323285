// SPDX-License-Identifier: Apache-2.0
//
// What must hold before a commit (docs/protocol.md): the flows that a switch has are those that joined, and
// of each that has ended, what was sent is what is there. Whoever adds a place where a tuple may be extends
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/tuples/types.h"
#include "proto/switch.pb.h"

namespace ask {

// A flow that joined, by what its two ends say of it.
struct FlowAccount {
    std::string sender;  // its name
    ChannelId channel;
    std::uint32_t incarnation = 0;
    Mark via;                           // none: no switch is on its way
    std::uint64_t nonce = 0;            // of the flow there
    std::optional<std::uint64_t> sent;  // tuples, as its FIN says; nothing: it has not ended
    std::uint64_t received = 0;         // tuples that came here one by one
};

struct Mismatch {
    Error error;
    // A program that is slow may have aggregated and not yet counted: a settled report may tell otherwise.
    bool may_settle = false;
};

// Of the flows that go through the switch called so, and what it reports. kSwitchLost: its region is not made
// of what these senders have sent. `settled`: all that had been aggregated when the copy was read is counted.
[[nodiscard]] std::optional<Mismatch> compare_flows(std::span<const FlowAccount> joined,
                                                    const std::string& switch_name,
                                                    std::span<const v1::FetchFlow> reported, bool settled);
// Of one that nothing was taken from on its way. kAborted.
[[nodiscard]] std::optional<Mismatch> compare_flow(const FlowAccount& flow);

}  // namespace ask
