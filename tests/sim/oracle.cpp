// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/oracle.h"

#include <algorithm>
#include <limits>

#include "lib/tuples/key_text.h"

namespace ask::sim {

namespace {

std::string make_key(const Plan& plan, std::uint64_t number) {
    Random random(number, 7);
    constexpr std::size_t kShort = 4;
    std::size_t length = random.between(1, kShort);
    if (plan.key_kind >= 1 && random.below(2) == 0) {
        length = random.between(kShort + 1, 16);
    }
    if (plan.key_kind >= 2 && random.below(4) == 0) {
        length = random.between(0, 1) == 0 ? 0 : random.between(17, 60);
    }
    if (plan.key_kind >= 3 && random.below(8) == 0) {
        length = random.between(200, 3000);
    }
    std::string key(length, '\0');
    // Few letters, so that medium keys share halves.
    for (char& c : key) {
        c = static_cast<char>('a' + random.below(3));
        if (plan.key_kind >= 2 && random.below(32) == 0) {
            c = '\0';
        }
    }
    return key;
}

std::int64_t make_value(const Plan& plan, Random& random) {
    if (plan.value_kind >= 1 && random.below(8) == 0) {
        constexpr std::int64_t kEdges[] = {0, std::numeric_limits<std::int32_t>::max(),
                                           std::numeric_limits<std::int32_t>::min(),
                                           std::numeric_limits<std::int32_t>::max() - 1};
        return kEdges[random.below(std::size(kEdges))];
    }
    if (plan.value_kind >= 2 && random.below(16) == 0) {
        return static_cast<std::int64_t>(random.next()) / (1LL << 20U);
    }
    return static_cast<std::int64_t>(random.below(7)) - 3;
}

}  // namespace

Tuples make_tuples(const Plan& plan, std::uint64_t seed, std::uint64_t stream) {
    Random random(seed, 1000 + stream);
    Tuples tuples;
    tuples.reserve(plan.tuples);
    for (std::uint32_t i = 0; i < plan.tuples; ++i) {
        // Half of them from the first few keys.
        const std::uint64_t keys = random.below(2) == 0 ? std::min(plan.keys, 3U) : plan.keys;
        std::string key = make_key(plan, seed % 1000 * 10'000 + random.below(keys));
        tuples.emplace_back(std::move(key), make_value(plan, random));
    }
    return tuples;
}

Result<std::span<std::byte>> ReadableMemory::allocate_slots(std::size_t bytes) {
    auto block = heap_->allocate_slots(bytes);
    slots = block.ok() ? *block : std::span<std::byte>{};
    return block;
}

Result<std::span<std::byte>> ReadableMemory::grow_keys(std::size_t bytes) {
    auto block = heap_->grow_keys(bytes);
    keys = block.ok() ? *block : std::span<std::byte>{};
    return block;
}

void Oracle::sends(std::uint64_t sender, std::shared_ptr<const Tuples> tuples) {
    streams_[sender] = std::move(tuples);
}

void Oracle::committed(const std::string& task, std::uint64_t instance, ResultTable& table,
                       const std::vector<std::uint64_t>& senders) {
    const Op op = static_cast<Op>(world_.plan.op);
    std::map<std::string, Wide> expected;
    for (const std::uint64_t sender : senders) {
        for (const auto& [key, value] : *streams_.at(sender)) {
            const auto [at, fresh] = expected.try_emplace(key, value);
            at->second = fresh ? Wide{value} : apply(op, at->second, value);
        }
    }
    if (!senders_of_.emplace(instance, std::set(senders.begin(), senders.end())).second) {
        world_.fail(Promise::kAnswer, "task " + task + ": committed twice");
    }
    auto& memory = static_cast<ReadableMemory&>(table.memory());
    const auto view = TableView::open(memory.slots, memory.keys);
    if (!view.ok()) {
        world_.fail(Promise::kAnswer, "task " + task + ": its result cannot be read: " + view.error().text());
        return;
    }
    std::uint64_t keys = 0;
    const auto read = view->each([&](std::string_view key, std::int64_t value) {
        ++keys;
        const auto at = expected.find(std::string(key));
        if (at == expected.end()) {
            world_.fail(Promise::kAnswer, "task " + task + ": key " + quote_key(key) + " that nobody sent");
        } else if (at->second != value) {
            world_.fail(Promise::kAnswer, "task " + task + ": key " + quote_key(key) + " is " +
                                              std::to_string(value) + ", not " +
                                              std::to_string(static_cast<std::int64_t>(at->second)));
        }
    });
    if (!read.ok() || keys != expected.size()) {
        world_.fail(Promise::kAnswer, "task " + task + ": " + std::to_string(keys) + " keys, not " +
                                          std::to_string(expected.size()));
    }
}

void Oracle::succeeded(const std::string& task, std::uint64_t instance, std::uint64_t sender) {
    const auto at = senders_of_.find(instance);
    if (at == senders_of_.end() || !at->second.contains(sender)) {
        world_.fail(Promise::kSuccess,
                    "task " + task + ": a sender was told of success, but no result has its tuples");
    }
}

}  // namespace ask::sim
