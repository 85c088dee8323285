// SPDX-License-Identifier: Apache-2.0
//
// What stands before MPI's functions of these names, in C and in Fortran.
#pragma once

#include <mpi.h>

namespace ask::pmpi {

// After MPI has begun with `outcome`, which is returned; before it ends.
int begun(int outcome);
void ending();

int allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int reduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm);
int bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm);
int barrier(MPI_Comm comm);

}  // namespace ask::pmpi
