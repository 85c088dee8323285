// SPDX-License-Identifier: Apache-2.0
//
// From names to a tree: the switches of a topology, rooted where the task's messages go.
#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/placement/tree.h"
#include "tools/plan/topology.h"

namespace ask::plan {

struct Network {
    placement::Tree tree;           // load: messages of the task's senders at each switch
    std::vector<std::string> name;  // per switch of the tree
    std::string destination;        // the receiver, or "destination"
};

// kInput for a parent or switch that does not exist, no root, two roots or a cycle (naming its switches);
// kUnknown for a sender or receiver that is no host; the text starts with "NAME:LINE: ". With a receiver, the
// tree is rooted at its switch: links keep their rates, whichever way messages now take.
Result<Network> build_network(const Topology& topology);

}  // namespace ask::plan
