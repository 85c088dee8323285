// SPDX-License-Identifier: Apache-2.0
//
// What must come out: every tuple of every sender of a committed task, exactly once (I1, I2, I4), and success
// reported to nobody before that.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/tuples/result_table.h"
#include "tests/sim/world.h"

namespace ask::sim {

using Tuples = std::vector<std::pair<std::string, std::int64_t>>;

// A sender's stream, from the seed alone.
Tuples make_tuples(const Plan& plan, std::uint64_t seed, std::uint64_t stream);

// Memory of a result table that can be read back.
class ReadableMemory final : public TableMemory {
 public:
    Result<std::span<std::byte>> allocate_slots(std::size_t bytes) override;
    void release_old_slots() override { heap_->release_old_slots(); }
    Result<std::span<std::byte>> grow_keys(std::size_t bytes) override;
    std::span<std::byte> slots;
    std::span<std::byte> keys;

 private:
    std::unique_ptr<TableMemory> heap_ = make_heap_memory();
};

class Oracle {
 public:
    explicit Oracle(World& world) : world_(world) {}

    // A sender is about to send these.
    void sends(std::uint64_t sender, std::shared_ptr<const Tuples> tuples);
    // A receiver commits this result, of these senders.
    void committed(const std::string& task, std::uint64_t instance, ResultTable& table,
                   const std::vector<std::uint64_t>& senders);
    // A sender was told that its send has succeeded.
    void succeeded(const std::string& task, std::uint64_t instance, std::uint64_t sender);

    [[nodiscard]] std::uint64_t commits() const { return senders_of_.size(); }

 private:
    World& world_;
    std::map<std::uint64_t, std::shared_ptr<const Tuples>> streams_;
    std::map<std::uint64_t, std::set<std::uint64_t>> senders_of_;  // of committed instances
};

}  // namespace ask::sim
