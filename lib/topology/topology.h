// SPDX-License-Identifier: Apache-2.0
//
// What a topology file says (docs/placement.md has the schema), checked name by name: every switch and host
// is known once, every number is in range, every address is one. Whether the links form a tree is fabric.h's
// question.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/placement/problem.h"
#include "lib/topology/document.h"
#include "lib/tuples/types.h"

namespace ask::topology {

struct Switch {
    std::string name;
    std::string parent;  // empty: the root
    double rate = 1;     // of the link towards the parent, messages per second
    std::uint64_t load = 0;
    bool available = true;
    std::string relay;             // control address of its ask-relayd; empty: it has none
    std::string control = {};      // of itself, as its relay's agent is told of it; empty: not known
    std::uint32_t capacity = 0;    // tasks that it may aggregate for at a time; 0: no limit
    std::uint64_t memory_mib = 0;  // that tasks may ask for there in all; 0: nobody counts
    std::uint32_t line = 0;
};

struct Host {
    std::string name;
    std::string attached_to;                    // a switch
    double rate = 1;                            // of its link; matters for the receiver only
    std::uint64_t load = 1;                     // messages it sends
    std::optional<std::uint32_t> address = {};  // its packets' source, by number (lib/net/host_book.h)
    std::uint32_t line = 0;
};

// What to plan. From the file's [task], then from the command line.
struct Task {
    std::optional<std::vector<std::string>> senders;  // absent: every host but the receiver
    std::string receiver;                             // a host; empty: the destination is above the root
    std::uint32_t k = 1;
    placement::Objective objective = placement::Objective::kUtilisation;
    std::uint32_t line = 0;
};

// How long messages are. The word count of a text is measured by the caller, who can read files.
struct MessageSpec {
    std::optional<placement::SizeModel> model;
    std::string text_file;  // for model = "word-count"
    std::uint32_t shards = 0;
    std::optional<Geometry> geometry;  // of packets that the words travel in; absent: words and counts alone
    std::uint32_t line = 0;            // 0: nothing is said of messages
};

struct Topology {
    std::string source;  // the file's name, for errors
    std::vector<Switch> switches;
    std::vector<Host> hosts;
    Task task;
    MessageSpec message;
};

// kInput, or kUsage for an objective that does not exist; the text starts with "NAME:LINE: ". Understands the
// schema of docs/placement.md and what `tools/lab status --json` prints.
Result<Topology> read_topology(const Value& document, const std::string& name);

}  // namespace ask::topology
