// SPDX-License-Identifier: Apache-2.0
//
// The switch program under test, its floor, and the maps both share, filled straight with one task and a
// channel a CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bench/switch/case.h"
#include "lib/base/unique_fd.h"
#include "lib/engine/packet.h"

struct switch_bpf;  // NOLINT(readability-identifier-naming): bpftool names it
struct floor_bpf;   // NOLINT(readability-identifier-naming): likewise

namespace ask::bench {

// What is fed: the program, what it is compared with, and what feeding costs.
enum class Subject : std::uint8_t { kReflector, kFloor, kSwitch };
inline constexpr std::size_t kSubjects = 3;

// Parts left out of the floor.
struct FloorParts {
    bool check = true;
    bool dedupe = true;
};

class Bed {
 public:
    static Result<Bed> create(const Case& what, const FloorParts& parts);
    Bed(Bed&&) noexcept;
    Bed& operator=(Bed&&) noexcept;
    ~Bed();

    [[nodiscard]] const CheckKey& key() const { return key_; }
    // Whether there is a floor: the straight line, where it has been written for the geometry and load; of a
    // task with a back level the same program while the task does without.
    [[nodiscard]] static bool has_floor(const Case& what);
    // Readies it; the program's file descriptor.
    [[nodiscard]] Result<int> program(Subject subject);
    // Blanks all aggregators.
    void blank();
    // Summed over CPUs and channels, since the beginning.
    struct Counts {
        std::uint64_t packets = 0;
        std::uint64_t aggregated = 0;
        std::uint64_t back = 0;  // of the aggregated, in the back level
        std::uint64_t left = 0;
    };
    [[nodiscard]] Result<Counts> counts() const;

 private:
    struct Destroy {
        void operator()(switch_bpf* skeleton) const;
        void operator()(floor_bpf* skeleton) const;
    };
    class Region;

    Bed();
    Result<> load_switch();
    Result<> load_floor(const FloorParts& parts);
    Result<> put_region();
    Result<> fill_maps();
    Result<> put_channel(unsigned channel);
    Result<> put_task(bool back);
    Result<> put_back();
    Result<int> create_inner(const char* value, std::size_t bytes, std::uint32_t entries);
    [[nodiscard]] Result<UniqueFd> find_map(const std::string& name) const;

    Case what_;
    CheckKey key_{CheckSecret{1, 2}};
    std::unique_ptr<switch_bpf, Destroy> switch_;
    std::unique_ptr<floor_bpf, Destroy> floor_;
    std::unique_ptr<Region> region_;
    UniqueFd regions_;  // the map that the region is in
};

}  // namespace ask::bench
