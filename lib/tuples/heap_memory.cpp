// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <vector>

#include "lib/tuples/result_table.h"

namespace ask {

namespace {

struct FreeBlock {
    void operator()(std::byte* block) const { std::free(block); }
};
using Block = std::unique_ptr<std::byte, FreeBlock>;

class HeapMemory final : public TableMemory {
 public:
    explicit HeapMemory(std::size_t limit) : limit_(limit) {}

    HashSeed draw_seed() override { return public_seed(++seeds_); }

    Result<std::span<std::byte>> allocate_slots(std::size_t bytes) override {
        if (!fits(bytes)) {
            return over("table of ", bytes);
        }
        // calloc gives untouched zero pages where a new[] would write them all.
        Block block(static_cast<std::byte*>(std::calloc(1, bytes)));
        if (!block) {
            return over("table of ", bytes);
        }
        old_slots_ = std::move(slots_);
        old_bytes_ = slot_bytes_;
        slots_ = std::move(block);
        slot_bytes_ = bytes;
        return std::span(slots_.get(), bytes);
    }

    void release_old_slots() override {
        old_slots_.reset();
        old_bytes_ = 0;
    }

    Result<std::span<std::byte>> grow_keys(std::size_t bytes) override {
        if (bytes > keys_.size()) {
            if (!fits(bytes - keys_.size())) {
                return over("key heap of ", bytes);
            }
            keys_.resize(bytes);
        }
        return std::span(keys_);
    }

 private:
    [[nodiscard]] bool fits(std::size_t more) const {
        const std::size_t used = slot_bytes_ + old_bytes_ + keys_.size();
        return used <= limit_ && more <= limit_ - used;
    }
    [[nodiscard]] Error over(const char* what, std::size_t bytes) const {
        return Error(Errc::kLimit, std::string(what) + std::to_string(bytes) +
                                       " bytes: over the memory limit of " + std::to_string(limit_));
    }

    std::size_t limit_;
    std::uint64_t seeds_ = 0;
    Block slots_;
    Block old_slots_;
    std::size_t slot_bytes_ = 0;
    std::size_t old_bytes_ = 0;
    std::vector<std::byte> keys_;
};

}  // namespace

std::unique_ptr<TableMemory> make_heap_memory(std::size_t limit_bytes) {
    return std::make_unique<HeapMemory>(limit_bytes);
}

}  // namespace ask
