// SPDX-License-Identifier: Apache-2.0
//
// Hosts with several ranks of a communicator: MPI reduces on the host, one of its ranks is the group's
// member, and MPI hands the result on. With one rank a host there is the group alone.
#include <algorithm>
#include <vector>

#include "lib/pmpi/communicator.h"

namespace ask::pmpi {
namespace {

constexpr int kResult = 1;  // a tag
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30U;

// Bytes of any number, by messages whose lengths are an int.
int bcast_bytes(std::byte* buffer, std::size_t bytes, int root, MPI_Comm comm) {
    for (std::size_t at = 0; at < bytes; at += kMostAtOnce) {
        const auto length = static_cast<int>(std::min(kMostAtOnce, bytes - at));
        if (const int code = PMPI_Bcast(buffer + at, length, MPI_BYTE, root, comm); code != MPI_SUCCESS) {
            return code;
        }
    }
    return MPI_SUCCESS;
}

}  // namespace

int Communicator::rank_on_host(int rank) const {
    const auto end = opened_.host_of.begin() + rank;
    return static_cast<int>(std::count(opened_.host_of.begin(), end, host_of(rank)));
}

int Communicator::spread(int code) {
    if (opened_.on_host == MPI_COMM_NULL) {
        return code;
    }
    int failed = code == MPI_SUCCESS ? 0 : 1;
    if (const int told = PMPI_Bcast(&failed, 1, MPI_INT, 0, opened_.on_host); told != MPI_SUCCESS) {
        return told;
    }
    if (failed == 0 || leads()) {
        return code;
    }
    if (failed_.empty()) {
        failed_ = "the rank that leads this host has failed, and says why";
    }
    return fail();
}

int Communicator::allreduce(const void* in, void* out, std::size_t count, const Reduction& reduction) {
    if (opened_.on_host == MPI_COMM_NULL) {
        return group_allreduce(in, out, count, reduction);
    }
    const auto number = static_cast<int>(count);
    if (const int code = PMPI_Reduce(leads() && in == out ? MPI_IN_PLACE : in, out, number, reduction.type,
                                     reduction.operation, 0, opened_.on_host);
        code != MPI_SUCCESS) {
        return code;
    }
    const int code = spread(leads() ? group_allreduce(out, out, count, reduction) : MPI_SUCCESS);
    return code != MPI_SUCCESS ? code : PMPI_Bcast(out, number, reduction.type, 0, opened_.on_host);
}

int Communicator::reduce(const void* in, void* out, std::size_t count, const Reduction& reduction, int root) {
    if (opened_.on_host == MPI_COMM_NULL) {
        return group_reduce(in, out, count, reduction, root);
    }
    const auto number = static_cast<int>(count);
    const bool here = rank_ == root;
    std::vector<std::byte> aside(leads() && !here ? count * reduction.lanes * reduction.bytes : 0);
    void* const sum = here ? out : aside.data();
    // Elsewhere `out` is not looked at, whatever it is.
    const bool in_place = here && leads() && in == out;
    if (const int code = PMPI_Reduce(in_place ? MPI_IN_PLACE : in, sum, number, reduction.type,
                                     reduction.operation, 0, opened_.on_host);
        code != MPI_SUCCESS) {
        return code;
    }
    if (const int code =
            spread(leads() ? group_reduce(sum, sum, count, reduction, host_of(root)) : MPI_SUCCESS);
        code != MPI_SUCCESS) {
        return code;
    }
    const int there = rank_on_host(root);
    if (host_ != host_of(root) || there == 0 || !(here || leads())) {
        return MPI_SUCCESS;
    }
    return here ? PMPI_Recv(out, number, reduction.type, 0, kResult, opened_.on_host, MPI_STATUS_IGNORE)
                : PMPI_Send(sum, number, reduction.type, there, kResult, opened_.on_host);
}

int Communicator::bcast(std::byte* buffer, std::size_t bytes, int root) {
    if (opened_.on_host == MPI_COMM_NULL) {
        return group_bcast(buffer, bytes, root);
    }
    const bool of_root = host_ == host_of(root);
    if (of_root) {
        if (const int code = bcast_bytes(buffer, bytes, rank_on_host(root), opened_.on_host);
            code != MPI_SUCCESS) {
            return code;
        }
    }
    const int code = spread(leads() ? group_bcast(buffer, bytes, host_of(root)) : MPI_SUCCESS);
    return code != MPI_SUCCESS || of_root ? code : bcast_bytes(buffer, bytes, 0, opened_.on_host);
}

int Communicator::barrier() {
    if (opened_.on_host == MPI_COMM_NULL) {
        return group_barrier();
    }
    if (const int code = PMPI_Barrier(opened_.on_host); code != MPI_SUCCESS) {
        return code;
    }
    return spread(leads() ? group_barrier() : MPI_SUCCESS);
}

}  // namespace ask::pmpi
