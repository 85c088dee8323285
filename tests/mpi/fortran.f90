! SPDX-License-Identifier: Apache-2.0
!
! Sums, a broadcast and a barrier by Fortran's names, MPI_IN_PLACE among them.
program fortran
    use mpi
    implicit none
    integer :: ierr, rank, ranks, i
    integer :: values(1000)
    double precision :: mine(1000), sums(1000)

    call MPI_INIT(ierr)
    call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
    call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierr)
    values = rank + 1
    call MPI_ALLREDUCE(MPI_IN_PLACE, values, 1000, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    if (any(values /= ranks * (ranks + 1) / 2)) call give_up('allreduce')
    do i = 1, 1000
        mine(i) = rank * i
    end do
    sums = -1
    call MPI_REDUCE(mine, sums, 1000, MPI_DOUBLE_PRECISION, MPI_MAX, 1, MPI_COMM_WORLD, ierr)
    do i = 1, 1000
        if (rank == 1 .and. sums(i) /= (ranks - 1) * i) call give_up('reduce')
        if (rank /= 1 .and. sums(i) /= -1) call give_up('reduce elsewhere')
    end do
    values = rank
    call MPI_BCAST(values, 1000, MPI_INTEGER, 2, MPI_COMM_WORLD, ierr)
    if (any(values /= 2)) call give_up('bcast')
    call MPI_BARRIER(MPI_COMM_WORLD, ierr)
    call MPI_FINALIZE(ierr)

contains

    subroutine give_up(what)
        character(*), intent(in) :: what
        print *, 'FAIL rank', rank, what
        call MPI_ABORT(MPI_COMM_WORLD, 1, ierr)
    end subroutine
end program
