// SPDX-License-Identifier: Apache-2.0
//
// What MPI's types and operators are in a group. Only pairs that a group computes as MPI says are taken.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <variant>

#include "lib/pmpi/ways.h"

namespace ask::pmpi {

struct Reduction {
    int dtype = 0;          // ask.h's
    int op = 0;             // ask.h's
    unsigned lanes = 1;     // values of dtype in an element of MPI's: complex numbers have two
    std::size_t bytes = 0;  // of a value
    bool truth = false;     // values count as 0 or 1: MPI_LAND, MPI_LOR, MPI_LXOR
    MPI_Datatype type = MPI_DATATYPE_NULL;  // as MPI has them
    MPI_Op operation = MPI_OP_NULL;
};

// Once MPI runs.
void learn_types();
// Or why it is not for a group.
std::variant<Reduction, Way> reduction_of(MPI_Datatype type, MPI_Op op);
// Whether an element's bytes in memory are what a message has of it.
bool is_plain(MPI_Datatype type);

}  // namespace ask::pmpi
