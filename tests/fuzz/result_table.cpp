// SPDX-License-Identifier: Apache-2.0
//
// Tables of results with whatever keys, some of them under seeds that make keys crowd, with memory that may
// be refused: a table has the tuples that it took, each once, whatever it was rebuilt and merged for, and
// what it does for that is bounded.
#include "lib/tuples/result_table.h"

#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "tests/fuzz/fuzz.h"

namespace ask::fuzz {
namespace {

// Keys of one input: more make it no better, only slower.
constexpr std::size_t kMostKeys = 4000;

class WeakMemory final : public TableMemory {
 public:
    // Bit i: whether seed i is one under which all keys of up to eight bytes have one hash.
    explicit WeakMemory(std::uint8_t weak) : weak_(weak) {}
    HashSeed draw_seed() override {
        const bool weak = (std::uint32_t{weak_} >> (seeds_++ % 8) & 1U) != 0;
        return weak ? HashSeed{} : public_seed(seeds_);
    }
    Result<std::span<std::byte>> allocate_slots(std::size_t bytes) override {
        if (refuse) {
            return Error(Errc::kLimit, "refused");
        }
        auto block = heap_->allocate_slots(bytes);
        slots = *block;
        ++blocks;
        return block;
    }
    void release_old_slots() override { heap_->release_old_slots(); }
    Result<std::span<std::byte>> grow_keys(std::size_t bytes) override {
        if (refuse) {
            return Error(Errc::kLimit, "refused");
        }
        auto block = heap_->grow_keys(bytes);
        keys = *block;
        return block;
    }
    [[nodiscard]] std::size_t seeds() const { return seeds_; }

    std::span<std::byte> slots;
    std::span<std::byte> keys;
    std::size_t blocks = 0;
    bool refuse = false;

 private:
    std::uint8_t weak_;
    std::size_t seeds_ = 0;
    std::unique_ptr<TableMemory> heap_ = make_heap_memory();
};

class Filled {
 public:
    explicit Filled(std::uint8_t weak) : Filled(std::make_unique<WeakMemory>(weak)) {}

    void change(Input& input) {
        switch (input.below(4)) {
            case 0:
                add(std::string(input.text(input.take<std::uint8_t>())), input.take<std::uint16_t>());
                break;
            case 1:
                add_many(input.take<std::uint16_t>(), input.take<std::uint16_t>() % 1024);
                break;
            case 2:
                packet(input.take<std::uint16_t>(), input.below(128));
                break;
            default:
                memory_->refuse = input.flag();
        }
    }

    void merge(const Filled& other) {
        if (table_.merge(other.table_)) {
            for (const auto& [key, value] : other.sums_) {
                sums_[key] += value;
            }
        }
    }

    void check() {
        require(table_.finish().ok(), "small sums fit");
        const auto view = TableView::open(memory_->slots, memory_->keys);
        require(view.ok() || memory_->keys.empty(), "a table can be read");
        std::map<std::string, std::int64_t> found;
        if (view) {
            const auto note = [&](std::string_view key, std::int64_t value) {
                require(found.emplace(key, value).second, "a key is there once");
            };
            require(view->each(note).ok(), "every entry can be read");
        }
        require(found == sums_, "a table has what it took");
        require(memory_->seeds() <= 1 + memory_->blocks * ResultTable::kMostRebuilds, "rebuilds are bounded");
    }

 private:
    explicit Filled(std::unique_ptr<WeakMemory> memory)
        : memory_(memory.get()), table_(*ResultTable::create(std::move(memory), Op::kSum)) {}

    void add(const std::string& key, std::int64_t value) {
        if (sums_.size() < kMostKeys && table_.add(key, value)) {
            sums_[key] += value;
        }
    }
    static std::string short_key(std::uint32_t number) {
        return {reinterpret_cast<const char*>(&number), sizeof(number)};
    }
    void add_many(std::uint32_t first, std::uint32_t count) {
        for (std::uint32_t i = first; i < first + count; ++i) {
            add(short_key(i), i);
        }
    }
    // As TableSink does.
    void packet(std::uint32_t first, std::uint32_t count) {
        table_.settle();
        if (sums_.size() + count > kMostKeys || !table_.reserve(count, std::size_t{count} * 4)) {
            return;
        }
        const HashSeed seed = table_.seed();
        for (std::uint32_t i = first; i < first + count; ++i) {
            table_.add_reserved(keyed_hash(seed, short_key(i)), short_key(i), 1);
            sums_[short_key(i)] += 1;
        }
    }

    WeakMemory* memory_;
    ResultTable table_;
    std::map<std::string, std::int64_t> sums_;
};

}  // namespace
}  // namespace ask::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace ask::fuzz;
    Input input(data, size);
    Filled one(input.take<std::uint8_t>());
    Filled other(input.take<std::uint8_t>());
    while (!input.empty()) {
        (input.flag() ? one : other).change(input);
    }
    one.merge(other);
    one.check();
    other.check();
    return 0;
}
