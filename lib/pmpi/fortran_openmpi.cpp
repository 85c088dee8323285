// SPDX-License-Identifier: Apache-2.0
//
// Open MPI's Fortran functions call PMPI_..., so they have stand-ins of their own.
#include <mpi.h>

#include "lib/pmpi/shim.h"

extern "C" {

// Fortran's MPI_BOTTOM and MPI_IN_PLACE: known by where they lie.
extern int mpi_fortran_bottom_;
extern int mpi_fortran_in_place_;

}  // extern "C"

namespace {

void* address(void* of) {
    return of == static_cast<void*>(&mpi_fortran_bottom_)     ? MPI_BOTTOM
           : of == static_cast<void*>(&mpi_fortran_in_place_) ? MPI_IN_PLACE
                                                              : of;
}

void give(MPI_Fint* ierr, int code) {
    if (ierr != nullptr) {
        *ierr = code;
    }
}

}  // namespace

// ompi_NAME_f is what the module mpi_f08 calls; the others are the names that compilers make of mpif.h's and
// the module mpi's.
#define ASK_FORTRAN(name, NAME, parameters)                                    \
    extern "C" {                                                               \
    void ompi_##name##_f parameters;                                           \
    void mpi_##name parameters __attribute__((alias("ompi_" #name "_f")));     \
    void mpi_##name##_ parameters __attribute__((alias("ompi_" #name "_f")));  \
    void mpi_##name##__ parameters __attribute__((alias("ompi_" #name "_f"))); \
    void MPI_##NAME parameters __attribute__((alias("ompi_" #name "_f")));     \
    }                                                                          \
    void ompi_##name##_f parameters

ASK_FORTRAN(init, INIT, (MPI_Fint * ierr)) {
    give(ierr, ask::pmpi::begun(PMPI_Init(nullptr, nullptr)));
}

ASK_FORTRAN(init_thread, INIT_THREAD, (MPI_Fint * required, MPI_Fint* provided, MPI_Fint* ierr)) {
    int got = 0;
    const int code = ask::pmpi::begun(PMPI_Init_thread(nullptr, nullptr, *required, &got));
    *provided = got;
    give(ierr, code);
}

ASK_FORTRAN(finalize, FINALIZE, (MPI_Fint * ierr)) {
    ask::pmpi::ending();
    give(ierr, PMPI_Finalize());
}

ASK_FORTRAN(allreduce, ALLREDUCE,
            (char* sendbuf, char* recvbuf, const MPI_Fint* count, const MPI_Fint* datatype,
             const MPI_Fint* op, const MPI_Fint* comm, MPI_Fint* ierr)) {
    give(ierr, ask::pmpi::allreduce(address(sendbuf), address(recvbuf), *count, PMPI_Type_f2c(*datatype),
                                    PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm)));
}

ASK_FORTRAN(reduce, REDUCE,
            (char* sendbuf, char* recvbuf, const MPI_Fint* count, const MPI_Fint* datatype,
             const MPI_Fint* op, const MPI_Fint* root, const MPI_Fint* comm, MPI_Fint* ierr)) {
    give(ierr, ask::pmpi::reduce(address(sendbuf), address(recvbuf), *count, PMPI_Type_f2c(*datatype),
                                 PMPI_Op_f2c(*op), *root, PMPI_Comm_f2c(*comm)));
}

ASK_FORTRAN(bcast, BCAST,
            (char* buffer, const MPI_Fint* count, const MPI_Fint* datatype, const MPI_Fint* root,
             const MPI_Fint* comm, MPI_Fint* ierr)) {
    give(ierr,
         ask::pmpi::bcast(address(buffer), *count, PMPI_Type_f2c(*datatype), *root, PMPI_Comm_f2c(*comm)));
}

ASK_FORTRAN(barrier, BARRIER, (const MPI_Fint* comm, MPI_Fint* ierr)) {
    give(ierr, ask::pmpi::barrier(PMPI_Comm_f2c(*comm)));
}
