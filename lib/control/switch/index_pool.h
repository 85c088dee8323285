// SPDX-License-Identifier: Apache-2.0
//
// Indices of an array map: free, in use, or retired. A retired one may still be in the hands of a running
// program; it is given back after an RCU barrier (lib/abi/map_types.h, "Life of an index").
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace ask {

class IndexPool {
 public:
    explicit IndexPool(std::uint32_t size) : size_(size), in_use_(size, false) {}

    // Marks an index as in use that a predecessor gave out; false if it is out of range or taken. Only before
    // fill().
    [[nodiscard]] bool adopt(std::uint32_t index) {
        if (index >= size_ || in_use_[index]) {
            return false;
        }
        in_use_[index] = true;
        used_++;
        return true;
    }
    // Makes every index that was not adopted free.
    void fill() {
        for (std::uint32_t index = size_; index-- > 0;) {
            if (!in_use_[index]) {
                free_.push_back(index);
            }
        }
    }

    [[nodiscard]] std::optional<std::uint32_t> take() {
        if (free_.empty()) {
            return std::nullopt;
        }
        const std::uint32_t index = free_.back();
        free_.pop_back();
        in_use_[index] = true;
        used_++;
        return index;
    }
    void retire(std::uint32_t index) {
        in_use_[index] = false;
        used_--;
        retired_++;
    }
    // After the barrier.
    void reclaim(std::uint32_t index) {
        retired_--;
        free_.push_back(index);
    }
    // An index that was taken, but that no program could have seen.
    void put_back(std::uint32_t index) {
        in_use_[index] = false;
        used_--;
        free_.push_back(index);
    }

    [[nodiscard]] std::uint32_t size() const { return size_; }
    [[nodiscard]] std::uint32_t used() const { return used_; }
    // Whether take() has or soon will have one.
    [[nodiscard]] bool has_free() const { return !free_.empty(); }
    [[nodiscard]] bool has_retired() const { return retired_ > 0; }
    [[nodiscard]] std::uint32_t retired() const { return retired_; }

 private:
    std::uint32_t size_;
    std::vector<bool> in_use_;
    std::vector<std::uint32_t> free_;
    std::uint32_t used_ = 0;
    std::uint32_t retired_ = 0;
};

}  // namespace ask
