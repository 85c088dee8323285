// SPDX-License-Identifier: Apache-2.0
//
// Of MPICH's Fortran functions those of the module mpi_f08 without a buffer call PMPI_..., so they have
// stand-ins of their own. All others call MPI_..., and need none.
#include <mpi.h>

#include "lib/pmpi/shim.h"

namespace {

void give(MPI_Fint* ierror, int code) {
    if (ierror != nullptr) {
        *ierror = code;
    }
}

}  // namespace

extern "C" {

void mpi_init_f08_(MPI_Fint* ierror);
void mpi_init_thread_f08_(const MPI_Fint* required, MPI_Fint* provided, MPI_Fint* ierror);
void mpi_finalize_f08_(MPI_Fint* ierror);
void mpi_barrier_f08_(const MPI_Fint* comm, MPI_Fint* ierror);

void mpi_init_f08_(MPI_Fint* ierror) {
    give(ierror, ask::pmpi::begun(PMPI_Init(nullptr, nullptr)));
}

void mpi_init_thread_f08_(const MPI_Fint* required, MPI_Fint* provided, MPI_Fint* ierror) {
    int got = 0;
    const int code = ask::pmpi::begun(PMPI_Init_thread(nullptr, nullptr, *required, &got));
    *provided = got;
    give(ierror, code);
}

void mpi_finalize_f08_(MPI_Fint* ierror) {
    ask::pmpi::ending();
    give(ierror, PMPI_Finalize());
}

void mpi_barrier_f08_(const MPI_Fint* comm, MPI_Fint* ierror) {
    give(ierror, ask::pmpi::barrier(PMPI_Comm_f2c(*comm)));
}

}  // extern "C"
