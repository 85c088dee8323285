// SPDX-License-Identifier: Apache-2.0
#include "bench/switchagg/hops.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "lib/abi/back.h"

namespace ask::bench {
namespace {

constexpr std::size_t kKeyBytes = 8;
constexpr std::uint64_t kPairsAKey = 64;
constexpr std::uint64_t kKeysAPlace = 8;
constexpr double kHopSkew = 0.99;

struct Carried {
    std::array<char, kKeyBytes> key{};
    std::int64_t value = 0;
};
using Stream = std::vector<Carried>;

// The same keys spelled in another way. The switch program has one hash: what it makes of keys that are
// spelled anew at each hop is what a hash of each hop's own would make of them.
std::array<char, kKeyBytes> spelled_anew(std::array<char, kKeyBytes> key) {
    std::ranges::rotate(key, key.begin() + 3);
    for (std::size_t at = 0; at < key.size(); ++at) {
        // Any byte but 0 to any but 0.
        key[at] = static_cast<char>(1 + (static_cast<unsigned char>(key[at]) + 36 + 29 * at) % 255);
    }
    return key;
}

Stream drawn(const HopPlan& plan) {
    KeyDraw draw({.count = plan.keys, .exponent = plan.exponent, .shortest = kKeyBytes, .longest = kKeyBytes},
                 Turns::kNone);
    Stream stream(plan.pairs);
    for (Carried& each : stream) {
        std::memcpy(each.key.data(), draw.next().data(), kKeyBytes);
        each.value = 1;
    }
    return stream;
}

class Streamed final : public PairSource {
 public:
    explicit Streamed(const Stream& stream) : stream_(stream) {}
    Pair next() override {
        const Carried& each = stream_[at_++];
        keys_.insert(word_of(each));
        return {.key = {each.key.data(), each.key.size()}, .value = each.value};
    }
    [[nodiscard]] std::uint64_t distinct() const override { return keys_.size(); }

 private:
    static std::uint64_t word_of(const Carried& each) {
        std::uint64_t word = 0;
        std::memcpy(&word, each.key.data(), sizeof(word));
        return word;
    }

    const Stream& stream_;
    std::size_t at_ = 0;
    std::unordered_set<std::uint64_t> keys_;
};

struct Passed {
    HopOutcome outcome;
    Stream stream;
};

// A place is held until another key comes, and by the last one until the end.
Passed through_model(const HopPlan& plan, const Stream& stream) {
    Passed passed{.outcome = {.places = plan.places}, .stream = {}};
    std::vector<Carried> places(plan.places);
    for (const Carried& each : stream) {
        std::uint64_t word = 0;
        std::memcpy(&word, each.key.data(), sizeof(word));
        __extension__ using Product = unsigned __int128;
        Carried& held = places[static_cast<std::uint64_t>(Product{ask_back_mix(word)} * plan.places >> 64U)];
        if (held.key == each.key) {
            held.value += each.value;
            continue;
        }
        if (held.value != 0) {
            passed.stream.push_back(held);
        }
        held = each;
    }
    passed.outcome.left = passed.stream.size();
    std::ranges::copy_if(places, std::back_inserter(passed.stream),
                         [](const Carried& held) { return held.value != 0; });
    return passed;
}

Result<Passed> through_switch(Rig& rig, const HopPlan& plan, const Stream& stream) {
    Passed passed;
    Streamed source(stream);
    const auto outcome =
        run_trial(rig,
                  {.keys = {.count = plan.keys, .shortest = kKeyBytes, .longest = kKeyBytes},
                   .tuples = stream.size(),
                   .front_places = plan.places,
                   .replace = plan.rule == HopRule::kHeat},
                  source,
                  [&passed](std::string_view key, std::int64_t value) {
                      Carried& each = passed.stream.emplace_back();
                      std::memcpy(each.key.data(), key.data(), std::min(key.size(), each.key.size()));
                      each.value = value;
                  },
                  {});
    ASK_PASS(outcome);
    passed.outcome = {.places = outcome->front_places, .left = outcome->out - outcome->fetched};
    return passed;
}

}  // namespace

const char* to_string(HopRule rule) {
    switch (rule) {
        case HopRule::kEvict:
            return "evict (model)";
        case HopRule::kFirstCome:
            return "first come";
        case HopRule::kHeat:
            return "heat";
    }
    return "";
}

std::vector<HopPlan> plan_hops(std::uint64_t keys) {
    std::vector<HopPlan> plans;
    for (const double exponent : {0.0, kHopSkew}) {
        for (const HopRule rule : {HopRule::kEvict, HopRule::kFirstCome, HopRule::kHeat}) {
            for (const bool own_hash : {false, true}) {
                plans.push_back({.rule = rule,
                                 .own_hash = own_hash,
                                 .exponent = exponent,
                                 .keys = keys,
                                 .places = keys / kKeysAPlace,
                                 .pairs = keys * kPairsAKey});
            }
        }
    }
    return plans;
}

Result<std::vector<HopOutcome>> run_hops(Rig& rig, const HopPlan& plan) {
    std::vector<HopOutcome> hops;
    Stream stream = drawn(plan);
    for (unsigned hop = 1; hop <= kHops; ++hop) {
        auto passed = plan.rule == HopRule::kEvict ? Result<Passed>(through_model(plan, stream))
                                                   : through_switch(rig, plan, stream);
        ASK_TRY(passed, "hop " + std::to_string(hop));
        passed->outcome.hop = hop;
        passed->outcome.in = stream.size();
        passed->outcome.out = passed->stream.size();
        hops.push_back(passed->outcome);
        stream = std::move(passed->stream);
        if (plan.own_hash) {
            std::ranges::transform(stream, stream.begin(), [](const Carried& each) {
                return Carried{.key = spelled_anew(each.key), .value = each.value};
            });
        }
    }
    return hops;
}

}  // namespace ask::bench
