// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/oracle.h"

#include <algorithm>
#include <bit>
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
    if (plan.key_kind == 3 && random.below(8) == 0) {
        length = random.between(200, 3000);
    }
    if (plan.key_kind == 4) {
        length = random.between(1, 70);
    }
    std::string key(length, '\0');
    // Few letters, so that medium keys share halves.
    for (char& c : key) {
        c = static_cast<char>('a' + random.below(3));
        if (plan.key_kind >= 2 && random.below(plan.key_kind == 4 ? 1024 : 32) == 0) {
            c = '\0';
        }
    }
    return key;
}

// Such that all values but the first of each stream add up to less than 2^61.
std::uint64_t wide_shift(const Plan& plan) {
    if (plan.op != ASK_OP_SUM) {
        return 0;
    }
    return 3U + static_cast<std::uint64_t>(std::bit_width(std::uint64_t{plan.senders} * plan.tuples));
}

// Of each stream one, so that sums leave 63 bits, and with one sender a value does; none leaves int64.
std::int64_t first_value(const Plan& plan, Random& random) {
    constexpr std::int64_t kBeyond = std::int64_t{1} << 62;
    const auto value = kBeyond / (plan.op == ASK_OP_SUM ? plan.senders : 1) + 3;
    return random.below(2) == 0 ? value : -value;
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
    if (plan.value_kind >= 3 && random.below(3) == 0) {
        return static_cast<std::int64_t>(random.next()) >> random.between(wide_shift(plan), 40);
    }
    return static_cast<std::int64_t>(random.below(7)) - 3;
}

}  // namespace

Tuples make_tuples(const Plan& plan, std::uint64_t seed, std::uint64_t stream, int far) {
    Random random(seed, 1000 + stream);
    Tuples tuples;
    tuples.reserve(plan.tuples);
    // Three times: one stream's leave int64, and another's take them back.
    constexpr std::int64_t kFar = std::int64_t{1} << 62;
    tuples.assign(far == 0 ? 0 : 3, {"far", far * kFar});
    for (std::uint32_t i = 0; i < plan.tuples; ++i) {
        // Half of them from the first few keys.
        const std::uint64_t keys = random.below(2) == 0 ? std::min(plan.keys, 3U) : plan.keys;
        std::string key = make_key(plan, seed % 1000 * 10'000 + random.below(keys));
        const bool first = plan.value_kind >= 3 && i == 0;
        const std::int64_t value = first ? first_value(plan, random) : make_value(plan, random);
        tuples.emplace_back(std::move(key), plan.count > 0 ? 1 : value);
    }
    return tuples;
}

Result<std::span<std::byte>> ReadableMemory::allocate_slots(std::size_t bytes) {
    auto block = heap_->allocate_slots(bytes);
    slots = block.ok() ? *block : slots;
    return block;
}

Result<std::span<std::byte>> ReadableMemory::grow_keys(std::size_t bytes) {
    auto block = heap_->grow_keys(bytes);
    keys = block.ok() ? *block : keys;
    return block;
}

void Oracle::sends(const std::string& task, const std::string& sender, std::shared_ptr<const Tuples> tuples) {
    streams_[task][sender] = std::move(tuples);
}

Oracle::Sums Oracle::expect(const Streams& streams, const std::multiset<std::string>& whole) const {
    const Op op = static_cast<Op>(world_.plan.op);
    Sums sums;
    for (const std::string& sender : whole) {
        for (const auto& [key, value] : *streams.at(sender)) {
            const auto [at, fresh] = sums.try_emplace(key, value);
            at->second = fresh ? Wide{value} : apply(op, at->second, value);
        }
    }
    return sums;
}

void Oracle::compare(const std::string& task, ResultTable& table, const Sums& expected,
                     const std::set<std::string>& doubtful) {
    auto& memory = static_cast<ReadableMemory&>(table.memory());
    const auto view = TableView::open(memory.slots, memory.keys);
    if (!view.ok()) {
        world_.fail(Promise::kAnswer, "task " + task + ": its result cannot be read: " + view.error().text());
        return;
    }
    std::uint64_t found = 0;
    const auto read = view->each([&](std::string_view text, std::int64_t value) {
        const std::string key(text);
        const auto at = expected.find(key);
        found += at != expected.end() ? 1U : 0U;
        if (doubtful.contains(key)) {
            return;
        }
        if (at == expected.end()) {
            world_.fail(Promise::kAnswer, "task " + task + ": key " + quote_key(key) + " that nobody sent");
        } else if (at->second != value) {
            world_.fail(Promise::kAnswer, "task " + task + ": key " + quote_key(key) + " is " +
                                              std::to_string(value) + ", not " +
                                              std::to_string(static_cast<std::int64_t>(at->second)));
        }
    });
    if (!read.ok() || found != expected.size()) {
        world_.fail(Promise::kAnswer, "task " + task + ": " + std::to_string(found) + " keys of " +
                                          std::to_string(expected.size()));
    }
}

// Relays stand for those that came to them.
std::multiset<std::string> Oracle::senders_of(std::uint64_t instance, const v1::Done& done) const {
    std::multiset<std::string> senders;
    std::vector<std::string> left(done.sender_names().begin(), done.sender_names().end());
    while (!left.empty()) {
        const std::string name = std::move(left.back());
        left.pop_back();
        if (const auto relay = below_.find({instance, name}); relay != below_.end()) {
            left.insert(left.end(), relay->second.begin(), relay->second.end());
        } else {
            senders.insert(name);
        }
    }
    return senders;
}

void Oracle::relays(std::uint64_t own, std::uint64_t instance) {
    relayed_.emplace(own, instance);
}

void Oracle::came_to_relay(std::uint64_t instance, const std::string& relay, std::vector<std::string> from) {
    if (!below_.emplace(std::pair(instance, relay), std::move(from)).second) {
        world_.fail(Promise::kAnswer, "relay " + relay + " has been given one table twice");
    }
}

void Oracle::relay_succeeded(const std::string& task, std::uint64_t instance, const std::string& relay) {
    if (!taken_.contains(instance)) {
        world_.fail(Promise::kSuccess,
                    "task " + task + ": relay " + relay + " was told of success, but nobody has a result");
    }
}

void Oracle::delivered(const std::string& task, std::uint64_t instance, ResultTable& table,
                       const v1::Done& done) {
    std::multiset<std::string> whole = senders_of(instance, done);
    const Streams& streams = streams_.at(task);
    std::set<std::string> doubtful;
    std::size_t absent = streams.size() - whole.size();
    for (const v1::Missing& missing : done.missing()) {
        if (missing.name().empty()) {
            absent -= missing.senders();
            continue;
        }
        if (const auto at = whole.find(missing.name()); at != whole.end()) {
            whole.erase(at);
        }
        // An unknown part of these may be there.
        for (const auto& [key, value] : *streams.at(missing.name())) {
            doubtful.insert(key);
        }
    }
    if (absent != 0) {
        world_.fail(Promise::kAnswer, "task " + task + ": a sender is neither in its result nor missing");
    }
    senders_of_[instance] = whole;
    compare(task, table, expect(streams, whole), doubtful);
}

void Oracle::taken(std::uint64_t instance) {
    taken_.insert(instance);
}

void Oracle::succeeded(const std::string& task, std::uint64_t instance, const std::string& sender) {
    if (const auto relayed = relayed_.find(instance); relayed != relayed_.end()) {
        instance = relayed->second;
    }
    if (!taken_.contains(instance) || !senders_of_.at(instance).contains(sender)) {
        world_.fail(Promise::kSuccess, "task " + task + ": sender " + sender +
                                           " was told of success, but nobody has a result with its tuples");
    }
}

}  // namespace ask::sim
