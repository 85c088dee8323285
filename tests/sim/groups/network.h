// SPDX-License-Identifier: Apache-2.0
//
// Links between hosts and switches, and what befalls frames on them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tests/sim/frame.h"
#include "tests/sim/groups/world.h"

namespace ask::sim::groups {

// A switch's port to another switch, behind those to hosts.
[[nodiscard]] constexpr std::uint32_t port_of_switch(std::uint32_t number) {
    return 1'100 + number;
}
inline constexpr std::uint32_t kPorts = 1'200;

class Network final : public Handler {
 public:
    explicit Network(World& world);

    [[nodiscard]] std::uint32_t switch_of(std::uint32_t host) const { return host % world_.plan.switches; }
    [[nodiscard]] std::uint32_t hosts() const { return world_.plan.hosts; }
    // By which of this switch's ports a host is reached.
    [[nodiscard]] std::uint32_t port_to(std::uint32_t number, std::uint32_t host) const {
        return switch_of(host) == number ? port_to_host(host) : port_of_switch(switch_of(host));
    }

    void send_from_host(std::uint32_t host, FramePtr frame);
    void send_from_switch(std::uint32_t number, std::uint32_t port, FramePtr frame);
    // All that the host sends goes round the switches, or does so no more.
    void go_round(std::uint32_t host, bool round) { around_[host] = round; }

    [[nodiscard]] FramePtr new_frame();
    [[nodiscard]] FramePtr copy(const Frame& frame);
    void recycle(FramePtr frame) { spare_.push_back(std::move(frame)); }
    [[nodiscard]] std::uint64_t frames() const { return frames_; }
    void fire(std::uint64_t slot) override;

    std::function<void(std::uint32_t, FramePtr, std::uint32_t)> to_switch;  // with the port it comes in by
    std::function<void(std::uint32_t, FramePtr)> to_host;

 private:
    struct Flight {
        FramePtr frame;
        Place to;
    };

    void transmit(FramePtr frame, const Place& to);
    void fly(FramePtr frame, const Place& to, Nanos delay);
    void damage(Frame& frame);
    void forge(const Frame& seen, const Place& to);
    [[nodiscard]] Nanos delay();

    World& world_;
    std::vector<bool> around_;
    std::vector<Flight> flights_;
    std::vector<std::uint32_t> free_;
    std::vector<FramePtr> spare_;
    std::uint64_t frames_ = 0;
};

// For the trace.
[[nodiscard]] std::string text_of(const Frame& frame);

}  // namespace ask::sim::groups
