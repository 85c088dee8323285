// SPDX-License-Identifier: Apache-2.0
//
// Which frames of a UMEM are free. A frame is named by its offset; any address within it names it too, since
// the kernel hands packets out some way into their frame. Every frame is in exactly one place: here, in the
// kernel's hands (fill and receive rings, transmit and completion rings), or held by the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ask {

// Last in, first out: a frame that was just used is warm in the cache. One thread owns it.
class FramePool {
 public:
    // `frame_bytes`: a power of two.
    FramePool(std::uint32_t frame_bytes, std::uint32_t frames)
        : mask_(~(std::uint64_t{frame_bytes} - 1)), total_(frames) {
        free_.reserve(frames);
        for (std::uint32_t i = frames; i > 0; --i) {
            free_.push_back(std::uint64_t{i - 1} * frame_bytes);
        }
    }

    [[nodiscard]] std::optional<std::uint64_t> take() {
        if (free_.empty()) {
            return std::nullopt;
        }
        const std::uint64_t frame = free_.back();
        free_.pop_back();
        return frame;
    }
    // Takes a frame back; false (and nothing happens) if more come back than there are: a bug of the caller,
    // or of the kernel.
    [[nodiscard]] bool give(std::uint64_t address) {
        if (free_.size() >= total_) {
            return false;
        }
        free_.push_back(address & mask_);
        return true;
    }
    [[nodiscard]] std::size_t available() const { return free_.size(); }
    [[nodiscard]] std::size_t total() const { return total_; }

 private:
    std::uint64_t mask_;
    std::size_t total_;
    std::vector<std::uint64_t> free_;
};

}  // namespace ask
