// SPDX-License-Identifier: Apache-2.0
//
// Frames into an XDP program, up to kBatch a system call: BPF_PROG_TEST_RUN takes one frame a call otherwise,
// and the call costs more than the switch program does. Frames are new every time, as dedupe wants them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "bench/feeder/feed.h"
#include "lib/base/result.h"

struct feed_bpf;  // NOLINT(readability-identifier-naming): bpftool names it

namespace ask::bench {

class Feeder {
 public:
    static constexpr std::size_t kBatch = FEED_SLOTS;
    static constexpr std::size_t kFrameBytes = FEED_FRAME_BYTES;

    // Feeds `program`, the file descriptor of an XDP program without fragments, as if from `ifindex`. The
    // feeding program is attached to `idle_ifindex`, an interface that is down: the kernel enters a program
    // that is attached nowhere in its XDP dispatcher for every call of more than one repetition, and waits
    // for RCU to do it.
    static Result<Feeder> create(std::uint32_t ifindex, std::uint32_t idle_ifindex);
    Feeder(Feeder&&) noexcept;
    Feeder& operator=(Feeder&&) noexcept;
    ~Feeder();

    // Feeds `program` from now on: the file descriptor of an XDP program without fragments.
    Result<> aim(int program);
    [[nodiscard]] std::size_t size() const { return frames_; }
    [[nodiscard]] bool full() const { return frames_ == kBatch; }
    // Copies a frame of 1 to kFrameBytes bytes; not when full().
    void add(std::span<const std::byte> frame);
    // Feeds them all, one after another, on the calling thread's CPU.
    Result<> run();
    // After run(): what the frame had become when the program left it; empty if that was an ACK. The
    // program's verdict is not known here: its own counters say whether it dropped one.
    [[nodiscard]] std::span<const std::byte> out(std::size_t frame) const;
    // Makes room for the next batch.
    void clear() { frames_ = 0; }

 private:
    struct Destroy {
        void operator()(feed_bpf* skeleton) const;
    };
    class Slots;

    Feeder();

    std::unique_ptr<feed_bpf, Destroy> skeleton_;
    std::unique_ptr<Slots> slots_;
    std::uint32_t ifindex_ = 0;
    std::size_t frames_ = 0;
};

}  // namespace ask::bench
