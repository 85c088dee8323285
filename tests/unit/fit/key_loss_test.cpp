// SPDX-License-Identifier: Apache-2.0
//
// The estimate against the thing itself: keys that come to an array of aggregators, first come, first served.
#include "lib/tuples/fit/key_loss.h"

#include <string>
#include <unordered_map>
#include <vector>

#include <doctest/doctest.h>

#include "lib/tuples/key_hash.h"
#include "tests/unit/fit/text_like.h"

namespace ask {
namespace {

struct Outcome {
    KeyCounts sample;
    double distinct = 0;
    double lost = 0;  // share of the tuples
};

// `next` gives `total` keys; the first `sampled` of them are the sample.
template <typename Next>
Outcome play(Next next, unsigned sampled, unsigned total, std::uint32_t aggregators) {
    std::unordered_map<std::string, unsigned> counts;
    std::vector<std::string> owner(aggregators);
    Outcome out;
    unsigned lost = 0;
    for (unsigned i = 1; i <= total; ++i) {
        const std::string key = next();
        ++counts[key];
        std::string& place = owner[place_of(key_hash(key), aggregators)];
        if (place.empty()) {
            place = key;
        }
        lost += place != key ? 1U : 0U;
        if (i == sampled) {
            out.sample = {.all = static_cast<double>(sampled),
                          .tuples = static_cast<double>(sampled),
                          .distinct = static_cast<double>(counts.size())};
            for (const auto& [word, count] : counts) {
                out.sample.once += count == 1 ? 1 : 0;
            }
        }
    }
    out.distinct = static_cast<double>(counts.size());
    out.lost = static_cast<double>(lost) / total;
    return out;
}

void check_close(double estimate, double real, double factor) {
    CAPTURE(estimate);
    CAPTURE(real);
    CHECK(estimate < real * factor);
    CHECK(estimate > real / factor);
}

TEST_CASE("what a text loses to collisions is foreseen from its beginning") {
    for (const std::uint32_t aggregators : {1U << 12U, 1U << 14U, 1U << 16U}) {
        CAPTURE(aggregators);
        test::TextLike text(100'000, 5);
        const Outcome real = play([&] { return text.next(); }, 30'000, 600'000, aggregators);
        const KeyLoss loss(real.sample, 600'000);
        check_close(loss.distinct(), real.distinct, 1.6);
        check_close(loss.lost(loss.distinct() / aggregators), real.lost, 1.3);
    }
}

TEST_CASE("what equally frequent keys lose is foreseen, too") {
    std::mt19937_64 random(3);
    const auto next = [&] { return std::to_string(random() % 5'000); };
    for (const std::uint32_t aggregators : {1U << 11U, 1U << 14U}) {
        CAPTURE(aggregators);
        const Outcome real = play(next, 8'000, 200'000, aggregators);
        const KeyLoss loss(real.sample, 200'000);
        check_close(loss.distinct(), real.distinct, 1.3);
        check_close(loss.lost(loss.distinct() / aggregators), real.lost, 1.3);
    }
}

TEST_CASE("losses grow with crowding, from nothing to everything") {
    const KeyLoss loss({.all = 1000, .tuples = 400, .distinct = 100, .once = 30}, 1e6);
    double before = 0;
    for (double x = 1e-6; x < 1e6; x *= 1.7) {
        const double now = loss.lost(x);
        CHECK(now >= before);
        before = now;
    }
    CHECK(loss.lost(0) == 0);
    CHECK(loss.lost(1e-9) < 1e-8);
    CHECK(before <= 0.4);
}

TEST_CASE("counts at the edges of what can be give numbers") {
    for (const KeyCounts& counts : {KeyCounts{.all = 1, .tuples = 1, .distinct = 1, .once = 1},
                                    KeyCounts{.all = 1e9, .tuples = 1, .distinct = 1, .once = 0},
                                    KeyCounts{.all = 1e9, .tuples = 1e9, .distinct = 1e9, .once = 1e9},
                                    KeyCounts{.all = 1e9, .tuples = 1e9, .distinct = 1e9, .once = 0},
                                    KeyCounts{.all = 1e9, .tuples = 1e9, .distinct = 1, .once = 1},
                                    KeyCounts{.all = 10, .tuples = 0, .distinct = 0, .once = 0}}) {
        for (const double total : {0.0, 1.0, 4e9}) {
            const KeyLoss loss(counts, total);
            const double lost = loss.lost(1.5);
            CHECK(lost >= 0);
            CHECK(lost <= counts.tuples / counts.all);
            CHECK(loss.distinct() >= 0);
            CHECK(loss.distinct() < 1e13);
        }
    }
}

}  // namespace
}  // namespace ask
