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
#include "proto/local.pb.h"
#include "tests/sim/tuples/world.h"

namespace ask::sim {

using Tuples = std::vector<std::pair<std::string, std::int64_t>>;

// A sender's stream, from the seed alone; `far`: which way one key's sum leaves int64, 0: it does not.
Tuples make_tuples(const Plan& plan, std::uint64_t seed, std::uint64_t stream, int far);

// Memory of a result table that can be read back.
class ReadableMemory final : public TableMemory {
 public:
    explicit ReadableMemory(std::size_t most = SIZE_MAX) : heap_(make_heap_memory(most)) {}
    HashSeed draw_seed() override { return heap_->draw_seed(); }
    Result<std::span<std::byte>> allocate_slots(std::size_t bytes) override;
    void release_old_slots() override { heap_->release_old_slots(); }
    Result<std::span<std::byte>> grow_keys(std::size_t bytes) override;
    std::span<std::byte> slots;
    std::span<std::byte> keys;

 private:
    const std::unique_ptr<TableMemory> heap_;
};

class Oracle {
 public:
    explicit Oracle(World& world) : world_(world) {}

    // A sender of the task, by the name that its agent gives it, will send these, however often it begins
    // again.
    void sends(const std::string& task, const std::string& sender, std::shared_ptr<const Tuples> tuples);
    // An application has this result in its hands.
    void delivered(const std::string& task, std::uint64_t instance, ResultTable& table, const v1::Done& done);
    // It says that it has taken it.
    void taken(std::uint64_t instance);
    // A relay has opened its own part, `own`, of a task of that instance.
    void relays(std::uint64_t own, std::uint64_t instance);
    // Whose tuples a relay of a task has in its hands, by names of senders and relays: once.
    void came_to_relay(std::uint64_t instance, const std::string& relay, std::vector<std::string> from);
    // A relay was told that its send has succeeded: those below are told now.
    void relay_succeeded(const std::string& task, std::uint64_t instance, const std::string& relay);
    // A sender was told that its send has succeeded, in a task or a relay's part of one.
    void succeeded(const std::string& task, std::uint64_t instance, const std::string& sender);

    [[nodiscard]] std::uint64_t commits() const { return taken_.size(); }

 private:
    [[nodiscard]] std::multiset<std::string> senders_of(std::uint64_t instance, const v1::Done& done) const;
    using Streams = std::map<std::string, std::shared_ptr<const Tuples>>;
    using Sums = std::map<std::string, Wide>;
    // What a result must have, of those that are in it.
    [[nodiscard]] Sums expect(const Streams& streams, const std::multiset<std::string>& whole) const;
    void compare(const std::string& task, ResultTable& table, const Sums& expected,
                 const std::set<std::string>& doubtful);

    World& world_;
    std::map<std::string, Streams> streams_;  // by task and sender
    // Whose tuples are all in a result, by instance: twice of who has sent again what had failed after its
    // FIN.
    std::map<std::uint64_t, std::multiset<std::string>> senders_of_;
    std::set<std::uint64_t> taken_;
    std::map<std::uint64_t, std::uint64_t> relayed_;  // whose part an instance is
    std::map<std::pair<std::uint64_t, std::string>, std::vector<std::string>> below_;  // relays, by instance
};

}  // namespace ask::sim
