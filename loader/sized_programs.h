// SPDX-License-Identifier: Apache-2.0
//
// The programs that take DATA: number 0, which the dispatcher's object has, for regions of any size; and a
// few for one size each, loaded when a task first has a region of that size and kept for the next.
//
// Pinned as maps/regions_NUMBER_AGGREGATORS; the program itself is held by the pinned map data_programs. A
// program that is refused, or for which there is no number, costs nothing but time: number 0 does as well.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

#include "lib/abi/consts.h"
#include "lib/base/result.h"
#include "lib/bpf/map.h"
#include "loader/data_plane.h"
#include "loader/pin_dir.h"

namespace ask {

// Thread-safe.
class SizedPrograms {
 public:
    // A map of maps: written as descriptors, read as map ids.
    using Regions = bpf::Map<std::uint32_t, std::uint32_t>;

    // Takes over what a predecessor pinned. The arguments must outlive it.
    static Result<std::unique_ptr<SizedPrograms>> adopt(const DataPlane& plane, const PinDir& pins);

    // Loads those for the smallest regions, so many sizes, each twice the one before, unless they are there:
    // the first task of such a size does not wait for the verifier. One that is refused is logged.
    void prepare(unsigned sizes);
    // The program for a region of so many aggregators in all, for one task more. Where one has to be loaded,
    // this takes as long as the verifier does, and others wait.
    std::uint8_t take(std::uint32_t aggregators);
    // The same for a task that a predecessor opened. false: there is no such program.
    [[nodiscard]] bool adopt_user(std::uint8_t number);
    void give_back(std::uint8_t number);

    // Where the program looks its tasks' regions up. Null: there is none. Stays while a task has taken it.
    [[nodiscard]] const Regions* regions(std::uint8_t number) const;
    // Makes a region's map of the kind that the program can have. kLimit: no memory.
    [[nodiscard]] Result<UniqueFd> create_region(std::uint8_t number, std::uint32_t aggregators) const;

 private:
    struct Slot {
        std::uint32_t aggregators = 0;  // 0: free
        Regions regions;
        std::uint32_t users = 0;
        std::uint64_t used = 0;  // when, in tasks opened
    };

    SizedPrograms(const DataPlane& plane, const PinDir& pins) : plane_(plane), pins_(pins) {}
    Result<> adopt_slots();
    Result<> adopt_slot(std::uint8_t number, std::uint32_t aggregators, const std::string& pin);
    [[nodiscard]] std::uint8_t choose_slot(std::uint32_t aggregators) const;
    // Whether the slot has a program for that size, after all.
    bool provide(std::uint8_t number, std::uint32_t aggregators);
    Result<> load(std::uint8_t number, std::uint32_t aggregators);
    Result<> free_slot(std::uint8_t number);

    const DataPlane& plane_;
    const PinDir& pins_;
    mutable std::mutex mutex_;                      // everything below
    std::array<Slot, ASK_SERVICE_PROGRAMS> slots_;  // the first is never used
    std::uint64_t opened_ = 0;
};

}  // namespace ask
