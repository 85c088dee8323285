// SPDX-License-Identifier: Apache-2.0
//
// Whether a communicator gets a group: a question that all its ranks answer the same way.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "lib/ask/ask.h"
#include "lib/base/unique_fd.h"
#include "lib/pmpi/settings.h"

namespace ask::pmpi {

struct Opened {
    std::string why_not;  // "": it gets one; the same at all ranks
    // The group's members are hosts: of each rank, which. The first rank of a host leads it, and has the
    // group open.
    std::vector<int> host_of;
    ask_group* group = nullptr;
    UniqueFd cancel;                   // the group looks at it as long as it is open
    MPI_Comm on_host = MPI_COMM_NULL;  // ranks of this host, who leads first; null: each has one
};

// Collective over an intracommunicator. Returns an MPI code; *opened is set if it is MPI_SUCCESS.
int open_group(MPI_Comm comm, const Settings& settings, std::size_t arena_bytes, Opened* opened);

}  // namespace ask::pmpi
