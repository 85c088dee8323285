// SPDX-License-Identifier: Apache-2.0
#include "bench/feeder/feeder.h"

#include <linux/bpf.h>
#include <linux/if_link.h>
#include <sys/mman.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <string>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "feed.skel.h"

namespace ask::bench {

// The map's values, which the kernel lets us write in place.
class Feeder::Slots {
 public:
    explicit Slots(void* memory) : slots_(static_cast<FeedSlot*>(memory)) {}
    ~Slots() { ::munmap(slots_, kBytes); }
    Slots(const Slots&) = delete;
    Slots& operator=(const Slots&) = delete;

    [[nodiscard]] FeedSlot& operator[](std::size_t index) { return slots_[index]; }
    static constexpr std::size_t kBytes = kBatch * sizeof(FeedSlot);

 private:
    FeedSlot* slots_;
};

void Feeder::Destroy::operator()(feed_bpf* skeleton) const {
    feed_bpf__destroy(skeleton);
}

Feeder::Feeder() = default;
Feeder::Feeder(Feeder&&) noexcept = default;
Feeder& Feeder::operator=(Feeder&&) noexcept = default;
Feeder::~Feeder() = default;

Result<Feeder> Feeder::create(std::uint32_t ifindex, std::uint32_t idle_ifindex) {
    Feeder feeder;
    feeder.ifindex_ = ifindex;
    feeder.skeleton_.reset(feed_bpf__open_and_load());
    if (!feeder.skeleton_) {
        return Error::from_errno(errno, "load the feeding program (root and BPF are needed)");
    }
    const int feed = bpf_program__fd(feeder.skeleton_->progs.feed);
    if (bpf_xdp_attach(static_cast<int>(idle_ifindex), feed, XDP_FLAGS_SKB_MODE, nullptr) != 0) {
        return Error::from_errno(errno,
                                 "attach the feeding program to interface " + std::to_string(idle_ifindex));
    }
    const int fd = bpf_map__fd(feeder.skeleton_->maps.slots);
    void* memory = ::mmap(nullptr, Slots::kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        return Error::from_errno(errno, "map the feeder's slots");
    }
    feeder.slots_ = std::make_unique<Slots>(memory);
    return feeder;
}

Result<> Feeder::aim(int program) {
    const std::uint32_t zero = 0;
    if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.target), &zero, &program, BPF_ANY) != 0) {
        return Error::from_errno(errno, "put the program to be fed in the feeder's program array");
    }
    return {};
}

void Feeder::add(std::span<const std::byte> frame) {
    assert(!full() && !frame.empty() && frame.size() <= kFrameBytes);
    FeedSlot& slot = (*slots_)[frames_++];
    slot.bytes = static_cast<unsigned>(frame.size());
    std::memcpy(slot.frame, frame.data(), frame.size());
}

Result<> Feeder::run() {
    if (frames_ == 0) {
        return {};
    }
    skeleton_->bss->feed_frames = static_cast<std::uint32_t>(frames_);
    skeleton_->bss->feed_next = 0;
    std::array<std::byte, 64> first{};
    xdp_md context{};
    context.data_end = first.size();
    context.ingress_ifindex = ifindex_;
    LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = first.data(), .data_size_in = first.size(),
                .ctx_in = &context, .ctx_size_in = sizeof(context), .repeat = static_cast<int>(frames_) + 1);
    if (bpf_prog_test_run_opts(bpf_program__fd(skeleton_->progs.feed), &options) != 0) {
        return Error::from_errno(errno, "BPF_PROG_TEST_RUN");
    }
    if (skeleton_->bss->feed_errors != 0 || options.retval != XDP_PASS) {
        return Error(Errc::kInternal, "the feeding program could not lay out or save " +
                                          std::to_string(skeleton_->bss->feed_errors) + " frames");
    }
    return {};
}

std::span<const std::byte> Feeder::out(std::size_t frame) const {
    assert(frame < frames_);
    const FeedSlot& slot = (*slots_)[frame];
    return std::as_bytes(std::span(slot.frame).first(slot.bytes));
}

}  // namespace ask::bench
