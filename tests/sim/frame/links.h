// SPDX-License-Identifier: Apache-2.0
//
// The links: each loses, repeats, delays, damages and marks frames as the plan says. Hosts hang on their
// switches, the switches on each other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/sim/frame/frames.h"
#include "tests/sim/frame/scene.h"

namespace ask::sim {

// Of a plan, as its fields of these names say.
struct LinkPlan {
    std::uint32_t hosts = 0;
    std::uint32_t switches = 0;
    std::uint32_t loss = 0;
    std::uint32_t duplicate = 0;
    std::uint32_t damage = 0;
    std::uint32_t jitter = 0;
    std::uint32_t straggle = 0;
    std::uint32_t replay = 0;
    std::uint32_t bypass = 0;
    std::uint32_t congestion = 0;
    std::uint32_t forge = 0;

    template <typename Plan>
    static LinkPlan of(const Plan& plan) {
        return {.hosts = plan.hosts,
                .switches = plan.switches,
                .loss = plan.loss,
                .duplicate = plan.duplicate,
                .damage = plan.damage,
                .jitter = plan.jitter,
                .straggle = plan.straggle,
                .replay = plan.replay,
                .bypass = plan.bypass,
                .congestion = plan.congestion,
                .forge = plan.forge};
    }
};

class Links : public Handler {
 public:
    Links(Scene& scene, const LinkPlan& plan);

    // Who takes the frames that arrive; a switch is told the port.
    std::function<void(std::uint32_t host, FramePtr frame)> to_host;
    std::function<void(std::uint32_t number, FramePtr frame, std::uint32_t port)> to_switch;

    [[nodiscard]] std::uint32_t hosts() const { return plan_.hosts; }
    [[nodiscard]] std::uint32_t switch_of(std::uint32_t host) const { return host % plan_.switches; }
    // By which of this switch's ports a host is reached.
    [[nodiscard]] std::uint32_t port_to(std::uint32_t number, std::uint32_t host) const {
        return switch_of(host) == number ? port_to_host(host) : port_to_switch(switch_of(host));
    }

    // From a host's interface, and out of a switch's port.
    void send_from_host(std::uint32_t host, FramePtr frame);
    void send_from_switch(std::uint32_t number, std::uint32_t port, FramePtr frame);
    // Cuts a host off, or joins it again.
    void cut(std::uint32_t host, bool down) { down_[host] = down; }
    [[nodiscard]] bool is_cut(std::uint32_t host) const { return down_[host]; }
    // All that a host sends finds a way round the switches, or none does.
    void reroute(std::uint32_t host, bool around) { around_[host] = around; }

    [[nodiscard]] FramePtr new_frame();
    [[nodiscard]] FramePtr copy(const Frame& frame);
    void recycle(FramePtr frame) { spare_.push_back(std::move(frame)); }
    [[nodiscard]] std::uint64_t frames() const { return frames_; }

    void fire(std::uint64_t slot) override;

 protected:
    // Makes of a packet what somebody does without the secret who has seen it. False: nothing.
    virtual bool forge(Frame& seen, Random& chance) = 0;
    // A switch, or a host, does what none can.
    virtual void wrong(std::string what) = 0;

 private:
    struct Flight {
        FramePtr frame;
        Place to;
    };
    void transmit(FramePtr frame, const Place& to);
    void fly(FramePtr frame, const Place& to, Nanos delay);
    void damage(Frame& frame);
    static void mark(Frame& frame);
    [[nodiscard]] Nanos delay();

    Scene& scene_;
    LinkPlan plan_;
    std::vector<bool> down_;
    std::vector<bool> around_;
    std::vector<FramePtr> spare_;
    std::vector<Flight> flights_;
    std::vector<std::uint32_t> free_;
    std::uint64_t frames_ = 0;
};

}  // namespace ask::sim
