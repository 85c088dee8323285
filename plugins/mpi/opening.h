// SPDX-License-Identifier: Apache-2.0
//
// Whether a communicator gets a group: a question that all its ranks answer the same way.
#pragma once

#include <mpi.h>

#include <string>

#include "lib/ask/ask.h"
#include "lib/base/unique_fd.h"
#include "plugins/mpi/settings.h"

namespace ask::pmpi {

struct Opened {
    ask_group* group = nullptr;  // null: MPI does it
    std::string why_not;         // the same at all ranks
    UniqueFd cancel;             // the group looks at it as long as it is open
};

// Collective over an intracommunicator of 2 to ASK_GROUP_MAX_SIZE ranks. Returns an MPI code; *opened is set
// if it is MPI_SUCCESS.
int open_group(MPI_Comm comm, const Settings& settings, std::size_t arena_bytes, Opened* opened);

}  // namespace ask::pmpi
