// SPDX-License-Identifier: Apache-2.0
//
// How many operations went which way, and what became of communicators; all ranks' together at MPI_Finalize.
#pragma once

#include <string>

#include "lib/pmpi/settings.h"
#include "lib/pmpi/ways.h"

namespace ask::pmpi {

// Of this process, from any thread.
void count(Kind kind, Way way);
// One that was looked at: a group was opened for it, or why not. The first reason is kept for the report.
void count_communicator(const std::string& why_not);

// A line on standard error, named as ours.
void say(const std::string& text);

// Collective over MPI_COMM_WORLD: its rank 0 writes what ASK_PMPI_VERBOSE and ASK_PMPI_REPORT ask for.
void report(const Settings& settings);

}  // namespace ask::pmpi
