// SPDX-License-Identifier: Apache-2.0
#include "lib/pmpi/shim.h"

#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <variant>
#include <vector>

#include "lib/pmpi/communicator.h"
#include "lib/pmpi/report.h"
#include "lib/pmpi/settings.h"
#include "lib/pmpi/types.h"
#include "lib/pmpi/ways.h"

namespace ask::pmpi {
namespace {

// All ranks', by rank 0's environment. Set by MPI_Init, not changed any more.
Settings settings;
std::atomic<bool> active = false;

// MPICH calls it an error if input and output are the same place; with Open MPI programs do it.
#if defined(MPICH_VERSION)
constexpr bool kMayAlias = false;
#else
constexpr bool kMayAlias = true;
#endif

bool chosen(Kind kind) {
    return (settings.operations >> static_cast<unsigned>(kind) & 1U) != 0;
}

// Decided by what MPI makes equal at all ranks, and by nothing else: an operation that goes through a group
// at one rank does at all.
Way way_of(Kind kind, MPI_Comm comm, std::uint64_t bytes) {
    if (!active) {
        return Way::kInactive;
    }
    if (comm == MPI_COMM_NULL) {
        return Way::kArgument;
    }
    if (!chosen(kind)) {
        return Way::kNotChosen;
    }
    return kind != Kind::kBarrier && bytes < settings.threshold ? Way::kBelowThreshold : Way::kThrough;
}

// An operation that may go through: what its communicator says. Nothing of MPI's is called before.
template <typename Through, typename Else>
int choose(Kind kind, Way way, MPI_Comm comm, const Through& through, const Else& by_mpi) {
    try {
        Communicator* its = nullptr;
        if (way == Way::kThrough) {
            if (const int code = Communicator::find(comm, settings, &its); code != MPI_SUCCESS) {
                return code;
            }
            way = its->way();
        }
        count(kind, way);
        return way == Way::kThrough ? through(*its) : by_mpi();
    } catch (const std::exception& thrown) {
        say(std::string(kKindNames.at(static_cast<std::size_t>(kind))) + ": " + thrown.what());
        PMPI_Comm_call_errhandler(comm, MPI_ERR_NO_MEM);
        return MPI_ERR_NO_MEM;
    }
}

// Whether MPI would refuse the call: then it is let.
bool good_vectors(const void* in, const void* out, int count, bool has_out) {
    if (count < 0 || (has_out && out == MPI_IN_PLACE)) {
        return false;
    }
    if (count == 0) {
        return true;
    }
    if ((in == nullptr) || (has_out && out == nullptr)) {
        return false;
    }
    return kMayAlias || !has_out || in != out;
}

std::uint64_t bytes_of(int count, const Reduction& reduction) {
    return count < 0 ? 0 : static_cast<std::uint64_t>(count) * reduction.lanes * reduction.bytes;
}

bool good_root(const Communicator& its, int root) {
    return root >= 0 && root < its.size();
}

// A broadcast of a type that is laid out in memory otherwise than in a message.
int bcast_packed(Communicator& its, void* buffer, int count, MPI_Datatype type, std::size_t bytes, int root,
                 MPI_Comm comm) {
    std::vector<std::byte> packed(bytes);
    const int size = static_cast<int>(bytes);
    int position = 0;
    if (its.rank() == root) {
        if (const int code = PMPI_Pack(buffer, count, type, packed.data(), size, &position, comm);
            code != MPI_SUCCESS) {
            return code;
        }
        if (position != size) {
            say("MPI packs " + std::to_string(bytes) + " bytes into " + std::to_string(position));
            PMPI_Comm_call_errhandler(comm, MPI_ERR_TYPE);
            return MPI_ERR_TYPE;
        }
    }
    const int code = its.bcast(packed.data(), bytes, root);
    if (code != MPI_SUCCESS || its.rank() == root) {
        return code;
    }
    return PMPI_Unpack(packed.data(), size, &position, buffer, count, type, comm);
}

}  // namespace

int begun(int outcome) {
    if (outcome != MPI_SUCCESS) {
        return outcome;
    }
    settings = settings_of_environment();
    if (PMPI_Bcast(&settings, sizeof settings, MPI_BYTE, 0, MPI_COMM_WORLD) != MPI_SUCCESS ||
        Communicator::all_begin() != MPI_SUCCESS) {
        say("MPI failed at the beginning; MPI does all operations");
        return outcome;
    }
    learn_types();
    int rank = 0;
    if (settings.trouble[0] != '\0' && PMPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS && rank == 0) {
        say(settings.trouble.data());
    }
    active = true;
    return outcome;
}

void ending() {
    if (active.exchange(false)) {
        Communicator::all_end();
        report(settings);
    }
}

int allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    const auto by_mpi = [&] { return PMPI_Allreduce(in, out, count, type, op, comm); };
    const auto reduction = reduction_of(type, op);
    const auto* const its = std::get_if<Reduction>(&reduction);
    Way way =
        its == nullptr ? std::get<Way>(reduction) : way_of(Kind::kAllreduce, comm, bytes_of(count, *its));
    if (way == Way::kThrough && !good_vectors(in, out, count, true)) {
        way = Way::kArgument;
    }
    return choose(
        Kind::kAllreduce, way, comm,
        [&](Communicator& group) {
            return group.allreduce(in == MPI_IN_PLACE ? out : in, out, static_cast<std::size_t>(count), *its);
        },
        by_mpi);
}

int reduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
    const auto by_mpi = [&] { return PMPI_Reduce(in, out, count, type, op, root, comm); };
    const auto reduction = reduction_of(type, op);
    const auto* const its = std::get_if<Reduction>(&reduction);
    Way way = its == nullptr ? std::get<Way>(reduction) : way_of(Kind::kReduce, comm, bytes_of(count, *its));
    if (way == Way::kThrough && !good_vectors(in, nullptr, count, false)) {
        way = Way::kArgument;
    }
    return choose(
        Kind::kReduce, way, comm,
        [&](Communicator& group) {
            const bool here = group.rank() == root;
            if (!good_root(group, root) || (here && !good_vectors(in, out, count, true)) ||
                (!here && in == MPI_IN_PLACE)) {
                return by_mpi();
            }
            return group.reduce(in == MPI_IN_PLACE ? out : in, out, static_cast<std::size_t>(count), *its,
                                root);
        },
        by_mpi);
}

int bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    const auto by_mpi = [&] { return PMPI_Bcast(buffer, count, type, root, comm); };
    // Of types MPI makes only the signature equal at all ranks, and with it its bytes: one may have a derived
    // type where others have its elements.
    MPI_Count size = 0;
    Way way = Way::kArgument;
    std::uint64_t bytes = 0;
    if (active && count >= 0 && type != MPI_DATATYPE_NULL) {
        if (const int code = PMPI_Type_size_x(type, &size); code != MPI_SUCCESS) {
            return code;
        }
        bytes = static_cast<std::uint64_t>(size) * static_cast<std::uint64_t>(count);
        way = bytes > INT_MAX ? Way::kTooLarge : way_of(Kind::kBcast, comm, bytes);
    }
    const bool plain = is_plain(type);
    return choose(
        Kind::kBcast, active ? way : Way::kInactive, comm,
        [&](Communicator& group) {
            if (!good_root(group, root) || (plain && bytes != 0 && buffer == nullptr)) {
                return by_mpi();
            }
            // MPI refuses to pack nothing into nowhere.
            return plain || bytes == 0 ? group.bcast(static_cast<std::byte*>(buffer), bytes, root)
                                       : bcast_packed(group, buffer, count, type, bytes, root, comm);
        },
        by_mpi);
}

int barrier(MPI_Comm comm) {
    return choose(
        Kind::kBarrier, way_of(Kind::kBarrier, comm, 0), comm,
        [](Communicator& group) { return group.barrier(); }, [&] { return PMPI_Barrier(comm); });
}

}  // namespace ask::pmpi

extern "C" {

int MPI_Init(int* argc, char*** argv) {
    return ask::pmpi::begun(PMPI_Init(argc, argv));
}
int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
    return ask::pmpi::begun(PMPI_Init_thread(argc, argv, required, provided));
}
int MPI_Finalize() {
    ask::pmpi::ending();
    return PMPI_Finalize();
}

int MPI_Allreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm) {
    return ask::pmpi::allreduce(sendbuf, recvbuf, count, datatype, op, comm);
}
int MPI_Reduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, int root,
               MPI_Comm comm) {
    return ask::pmpi::reduce(sendbuf, recvbuf, count, datatype, op, root, comm);
}
int MPI_Bcast(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm) {
    return ask::pmpi::bcast(buffer, count, datatype, root, comm);
}
int MPI_Barrier(MPI_Comm comm) {
    return ask::pmpi::barrier(comm);
}

}  // extern "C"
