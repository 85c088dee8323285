// SPDX-License-Identifier: Apache-2.0
//
// What the switch must do with an ASK packet (design section 5), as plain C++ without maps,
// CPUs or a verifier: one register set, one copy, dedupe by the highest seq of a place, both policies, and of
// the back level what it does with whole keys. Tests
// of the hosts' side use it where no kernel is to be had; tests of the BPF program may compare.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/abi/map_types.h"
#include "lib/engine/packet.h"
#include "lib/tuples/types.h"

namespace ask::test {

class ReferenceSwitch {
 public:
    enum class Way : std::uint8_t { kDrop, kToSender, kToReceiver };
    struct Outcome {
        Way way = Way::kDrop;
        ask::Ports ports;                // of the packet that goes out
        std::vector<std::byte> payload;  // empty when dropped
    };

    explicit ReferenceSwitch(Mark mark) : mark_(mark) {}

    // Registers a flow. All flows of a task share its region of `aggregators` per AA (0: none) and its
    // policy, and a back level that takes `back_keys` different keys, of VAR packets alone.
    void add_flow(const FlowParams& params, std::uint32_t aggregators,
                  ask_policy policy = ASK_POLICY_FIRST_COME, std::size_t back_keys = 0);
    Outcome on_packet(std::span<const std::byte> payload, ask::Ports ports);
    // Entries of a task's region and back level, encoded as lib/tuples/fetch_codec.h says.
    [[nodiscard]] std::string fetch(std::uint64_t instance) const;
    [[nodiscard]] std::uint64_t tuples_aggregated() const { return tuples_aggregated_; }
    [[nodiscard]] std::uint64_t tuples_evicted() const { return tuples_evicted_; }
    [[nodiscard]] std::uint64_t tuples_whole() const { return tuples_whole_; }

 private:
    struct Task {
        FlowParams params;  // of whichever flow came first; geometry and operator count
        std::uint32_t aggregators = 0;
        ask_policy policy = ASK_POLICY_FIRST_COME;
        std::vector<ask_aggregator> region;
        std::vector<unsigned> heats;  // of slots' first AAs
        std::size_t back_keys = 0;
        std::map<std::string, std::int64_t> back;
    };
    struct Flow {
        FlowParams params;
        CheckKey key;
    };
    using Bitmaps = std::array<std::uint32_t, ASK_MAX_ROWS>;
    struct Channel {
        std::uint32_t incarnation = 0;
        std::array<std::uint64_t, ASK_WINDOW> seen{};
        std::array<Bitmaps, ASK_WINDOW> left{};
        std::array<std::vector<std::byte>, ASK_WINDOW> rows{};  // as the packet left
    };
    // The aggregators of a slot.
    struct Place {
        Task& task;
        std::uint32_t aa;
        std::uint32_t words;
        std::uint32_t index;
        [[nodiscard]] ask_aggregator& at(std::uint32_t word) const {
            return task.region[std::size_t{aa + word} * task.aggregators + index];
        }
        [[nodiscard]] unsigned& heat() const {
            return task.heats[std::size_t{aa} * task.aggregators + index];
        }
    };
    enum class Offer : std::uint8_t { kTaken, kAggregated, kOverflow, kCollision };

    static Place place_of(Task& task, std::uint32_t slot, const std::byte* words);
    static Offer offer(const Place& place, const std::byte* words);
    static void change_places(const Place& place, std::byte* words);
    bool aggregate_slot(Task& task, std::uint32_t slot, std::byte* words, bool heats);
    Bitmaps aggregate(Task& task, const PacketView& packet, std::span<std::byte> rows);
    static bool take_whole(Task& task, std::string_view key, std::int64_t value);
    Bitmaps aggregate_whole(Task& task, const PacketView& packet);
    static Bitmaps gather(const Geometry& geometry, const Bitmaps& left, std::span<std::byte> rows);
    [[nodiscard]] Outcome acknowledge(const Flow& flow, const PacketView& packet, ask::Ports ports) const;
    [[nodiscard]] Outcome answer_whole(const Flow& flow, const PacketView& packet, ask::Ports ports,
                                       const Bitmaps& left) const;
    Outcome answer(const Flow& flow, const PacketView& packet, ask::Ports ports, const Bitmaps& kept,
                   std::vector<std::byte> rows) const;

    Mark mark_;
    std::map<std::uint64_t, Task> tasks_;
    std::map<std::pair<std::uint64_t, ChannelId>, Flow> flows_;
    std::map<ChannelId, Channel> channels_;
    std::uint64_t tuples_aggregated_ = 0;
    std::uint64_t tuples_evicted_ = 0;
    std::uint64_t tuples_whole_ = 0;
};

}  // namespace ask::test
