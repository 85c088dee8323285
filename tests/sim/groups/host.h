// SPDX-License-Identifier: Apache-2.0
//
// A host: its agent's worker as agent/worker/values.cpp has it, around the members and collectors that ship,
// and the applications of its groups.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "lib/net/frame.h"
#include "lib/values/collector.h"
#include "lib/values/member.h"
#include "tests/sim/groups/group.h"
#include "tests/sim/groups/network.h"

namespace ask::sim::groups {

class Host final : public Handler {
 public:
    Host(World& world, Network& network, std::uint32_t number);
    ~Host() override;
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;
    Host(Host&&) = delete;
    Host& operator=(Host&&) = delete;

    // Begins as the group's member of this rank.
    void join(Group& group, std::uint32_t rank);
    void set_fan_out(const Group& group, bool fan_out);
    // Its group's end at all members; no error: all are through.
    void leave(const Group& group, const std::optional<Error>& error);

    void receive(FramePtr frame);
    void stop(Nanos time);
    void die();
    [[nodiscard]] bool dead() const { return dead_; }
    // Now and then: deadlines, and whether members are told something.
    void look();
    void fire(std::uint64_t turn) override;

    std::function<void(Group&)> member_ended;
    std::function<bool(const Group&)> collector_lives;

 private:
    struct Seat;

    void wake(Nanos delay);
    void serve(Seat& seat);
    void begin_operations(Seat& seat);
    void end_operations(Seat& seat);
    template <typename End>
    bool send_one(Seat& seat, End& end);
    void note_outgoing(Seat& seat, std::span<const std::byte> payload);
    void transmit(Seat& seat, FramePtr frame, const values::Outgoing& outgoing);
    void lie(Seat& seat, const values::Front& front);
    void take(Seat& seat, std::span<const std::byte> payload, Ports ports, bool congested);
    void take_at_collector(Seat& seat, const values::Packet& packet);
    void take_at_member(Seat& seat, const values::Packet& packet);
    void look_at(Seat& seat);
    [[nodiscard]] Seat* seat_of(const Group& group);

    World& world_;
    Network& network_;
    const std::uint32_t number_;
    std::vector<std::unique_ptr<Seat>> seats_;
    std::deque<FramePtr> ring_;
    std::uint64_t turn_ = 0;  // the wake-up that counts
    Nanos wakes_at_ = kNever;
    Nanos stopped_until_ = 0;
    bool dead_ = false;
};

}  // namespace ask::sim::groups
