// SPDX-License-Identifier: Apache-2.0
//
// A communicator and its group, if it has one. Found by an attribute of the communicator, which MPI deletes
// with it.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "lib/pmpi/opening.h"
#include "lib/pmpi/settings.h"
#include "lib/pmpi/types.h"
#include "lib/pmpi/ways.h"

namespace ask::pmpi {

class Communicator {
 public:
    // Both once, after MPI has begun and before it ends. all_end() closes the groups: whoever calls then is
    // with MPI.
    static int all_begin();
    static void all_end();

    // The communicator's, made at its first operation that may go through a group: collective then. Returns
    // an MPI code; *found is set if it is MPI_SUCCESS.
    static int find(MPI_Comm comm, const Settings& settings, Communicator** found);

    // kThrough, or why its operations are MPI's: the same at all ranks.
    [[nodiscard]] Way way() const { return way_; }
    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return size_; }

    // Of a communicator that is kThrough. They return an MPI code, of the communicator's error handler if the
    // group fails. `in` may be `out`. `out` is written piece by piece.
    int allreduce(const void* in, void* out, std::size_t count, const Reduction& reduction);
    // `out` counts at root only.
    int reduce(const void* in, void* out, std::size_t count, const Reduction& reduction, int root);
    int bcast(std::byte* buffer, std::size_t bytes, int root);
    int barrier();

    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;
    ~Communicator();

 private:
    // Operations of a vector that are under way at once: one is copied while others travel.
    static constexpr std::size_t kSlots = 4;
    static constexpr std::size_t kPieceBytes = std::size_t{2} << 20U;

    explicit Communicator(MPI_Comm comm) : comm_(comm) {}
    static int forget(MPI_Comm comm, int keyval, void* attribute, void* extra);
    void free_on_host();
    int make(const Settings& settings);
    int look_beyond_world(bool* beyond) const;
    int open(const Settings& settings);
    bool take_slots();
    void close();
    int finish(ask_request* request);
    int fail();
    // `fill` puts piece n into its slot, `begin` starts it, `drain` takes its result.
    template <typename Fill, typename Begin, typename Drain>
    int in_pieces(std::size_t pieces, const Fill& fill, const Begin& begin, const Drain& drain);
    // Between hosts, at the ranks that lead. `root` is a host.
    int group_allreduce(const void* in, void* out, std::size_t count, const Reduction& reduction);
    int group_reduce(const void* in, void* out, std::size_t count, const Reduction& reduction, int root);
    int group_bcast(std::byte* buffer, std::size_t bytes, int root);
    int group_barrier();
    // On a host of several ranks: what the group's operation came to at the one that leads, at all of them.
    int spread(int code);
    [[nodiscard]] bool leads() const { return on_host_rank_ == 0; }
    [[nodiscard]] int host_of(int rank) const { return opened_.host_of.at(static_cast<std::size_t>(rank)); }
    [[nodiscard]] int rank_on_host(int rank) const;
    template <typename Begin>
    int combine(const void* in, void* out, std::size_t count, const Reduction& reduction, const Begin& begin);

    MPI_Comm comm_;
    Way way_ = Way::kNotEnabled;
    int rank_ = 0;
    int host_ = 0;
    int on_host_rank_ = 0;
    int size_ = 0;
    // MPI forbids two collectives of a communicator at once; who does so all the same is made to wait.
    std::mutex mutex_;
    Opened opened_;
    std::array<std::byte*, kSlots> in_{};  // in the group's arena
    std::array<std::byte*, kSlots> out_{};
    int error_code_ = MPI_ERR_OTHER;
    std::string failed_;  // why; "": it has not
};

}  // namespace ask::pmpi
