// SPDX-License-Identifier: Apache-2.0
//
// The links: each loses, repeats, delays, damages and marks frames as the plan says. Hosts hang on their
// switches, the switches on each other.
#pragma once

#include <functional>
#include <vector>

#include "tests/sim/frame.h"
#include "tests/sim/world.h"

namespace ask::sim {

class Network final : public Handler {
 public:
    explicit Network(World& world);

    // Who takes the frames that arrive.
    std::function<void(std::uint32_t host, FramePtr frame)> to_host;
    std::function<void(std::uint32_t number, FramePtr frame, std::uint32_t port)> to_switch;

    [[nodiscard]] std::uint32_t hosts() const { return world_.plan.hosts; }
    [[nodiscard]] std::uint32_t switch_of(std::uint32_t host) const { return host % world_.plan.switches; }
    // From a host's interface, and out of a switch's port.
    void send_from_host(std::uint32_t host, FramePtr frame);
    void send_from_switch(std::uint32_t number, std::uint32_t port, FramePtr frame);
    // Cuts a host off, or joins it again.
    void cut(std::uint32_t host, bool down) { down_[host] = down; }
    // All that a host sends finds a way round the switches, or none does.
    void reroute(std::uint32_t host, bool around) { around_[host] = around; }
    [[nodiscard]] bool is_cut(std::uint32_t host) const { return down_[host]; }

    FramePtr new_frame();
    void recycle(FramePtr frame) { spare_.push_back(std::move(frame)); }
    [[nodiscard]] std::uint64_t frames() const { return frames_; }

    void fire(std::uint64_t slot) override;

 private:
    struct Flight {
        FramePtr frame;
        Place to;
    };
    void transmit(FramePtr frame, const Place& to);
    void fly(FramePtr frame, const Place& to, Nanos delay);
    void damage(Frame& frame);
    void forge(const Frame& seen, const Place& to);
    FramePtr copy(const Frame& frame);
    [[nodiscard]] Nanos delay();

    World& world_;
    std::vector<bool> down_;
    std::vector<bool> around_;
    std::vector<FramePtr> spare_;
    std::vector<Flight> flights_;
    std::vector<std::uint32_t> free_;
    std::uint64_t frames_ = 0;
};

}  // namespace ask::sim
