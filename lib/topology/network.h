// SPDX-License-Identifier: Apache-2.0
//
// From names to a tree: the switches of a topology, rooted where the task's messages go.
#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/placement/tree.h"
#include "lib/topology/fabric.h"

namespace ask::topology {

struct Network {
    placement::Tree tree;                   // load: messages of the task's senders at each switch
    std::vector<std::string> name;          // per switch of the tree
    std::string destination;                // the receiver, or "destination"
    std::vector<const Host*> senders = {};  // of the fabric: those that send anything
};

inline constexpr const char* kDestination = "destination";  // of messages where no host receives them

// Of the fabric's own task. kUnknown for a sender or receiver that is no host, kInput for one that is both or
// given twice; the text starts with "NAME:LINE: ".
Result<Network> build_network(const Fabric& fabric);

}  // namespace ask::topology
