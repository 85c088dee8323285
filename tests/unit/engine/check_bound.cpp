// SPDX-License-Identifier: Apache-2.0
//
// Measures the bound of the check (docs/protocol.md) on the pattern that comes nearest to it: the top bit of
// the same key word flipped in two lines, with the other half of the word equal in both, fresh random keys
// for each try. It passes where that half and its key add up to 0, once in 2^W tries, W the bits of a half
// word. All that the sum has of other words is the same before and after.
//
// W = 32 is the check itself, by its own functions. A narrow one, of halves of 12 bits, meets in seconds what
// the true one meets once in 2^32 tries: that is what ctest runs.
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include "lib/abi/check.h"
#include "lib/flags/flags.h"

namespace {

// xoshiro256++ (Blackman, Vigna), seeded by splitmix64.
class FastRandom {
 public:
    explicit FastRandom(std::uint64_t seed) {
        for (std::uint64_t& word : state_) {
            seed += 0x9e3779b97f4a7c15;
            std::uint64_t mixed = (seed ^ (seed >> 30U)) * 0xbf58476d1ce4e5b9;
            mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111eb;
            word = mixed ^ (mixed >> 31U);
        }
    }
    std::uint64_t operator()() {
        const std::uint64_t result = ASK_ROTL64(state_[0] + state_[3], 23) + state_[0];
        const std::uint64_t shifted = state_[1] << 17U;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= shifted;
        state_[3] = ASK_ROTL64(state_[3], 45);
        return result;
    }

 private:
    std::uint64_t state_[4]{};
};

// The check's own arithmetic.
struct True {
    static constexpr unsigned kBits = 32;
    static std::uint64_t nh(std::uint32_t k0, std::uint32_t k1, std::uint32_t a, std::uint32_t b) {
        return ask_check_nh(k0, k1, a, b);
    }
    static std::uint64_t line(const __u64* key, std::uint64_t n) { return ask_check_line(key, n); }
    static std::uint64_t cut(std::uint64_t sum) { return sum; }
};

// The same in halves of W bits.
template <unsigned W>
struct Narrow {
    static constexpr unsigned kBits = W;
    static constexpr std::uint64_t kHalf = (std::uint64_t{1} << W) - 1;
    static std::uint64_t nh(std::uint32_t k0, std::uint32_t k1, std::uint32_t a, std::uint32_t b) {
        return ((a + k0) & kHalf) * ((b + k1) & kHalf);
    }
    static std::uint64_t line(const __u64* key, std::uint64_t n) {
        return key[0] * (n & kHalf) + key[1] * (cut(n) >> W);
    }
    static std::uint64_t cut(std::uint64_t sum) { return sum & ((std::uint64_t{1} << (2 * W)) - 1); }
};

// Whether the flipped lines sum up to what the others did, under keys of their own.
template <typename Check>
bool flip_passes(FastRandom& random) {
    const std::uint64_t nh = random();
    const std::uint64_t first_halves = random();
    const auto k0 = static_cast<std::uint32_t>(nh);
    const auto k1 = static_cast<std::uint32_t>(nh >> 32U);
    const auto other_half = static_cast<std::uint32_t>(random());
    constexpr std::uint32_t kTop = std::uint32_t{1} << (Check::kBits - 1);
    std::uint64_t moved = 0;
    for (unsigned i = 0; i < 2; ++i) {
        const __u64 key[2] = {random(), random()};
        const auto half = static_cast<std::uint32_t>(first_halves >> (32 * i));
        const std::uint64_t rest = random();
        moved += Check::line(key, rest + Check::nh(k0, k1, half ^ kTop, other_half)) -
                 Check::line(key, rest + Check::nh(k0, k1, half, other_half));
    }
    return Check::cut(moved) == 0;
}

template <typename Check>
std::uint64_t count_passes(std::uint64_t tries, unsigned threads, std::uint64_t seed) {
    std::vector<std::uint64_t> passes(threads);
    std::vector<std::thread> workers;
    for (unsigned t = 0; t < threads; ++t) {
        workers.emplace_back([&passes, tries, threads, seed, t] {
            FastRandom random(seed * 1000003 + t);
            std::uint64_t passed = 0;
            for (std::uint64_t i = t; i < tries; i += threads) {
                passed += flip_passes<Check>(random) ? 1U : 0U;
            }
            passes[t] = passed;
        });
    }
    std::uint64_t sum = 0;
    for (unsigned t = 0; t < threads; ++t) {
        workers[t].join();
        sum += passes[t];
    }
    return sum;
}

}  // namespace

int main(int argc, char** argv) {
    bool narrow = false;
    unsigned log_tries = 34;
    unsigned threads = 2;
    std::uint64_t seed = 1;
    CLI::App app(
        "How often the top bit of one key word, flipped in two rows, passes the check, under fresh keys "
        "each time",
        "check_bound");
    app.add_flag("--narrow", narrow, "A check of halves of 12 bits, not the true one's 32");
    app.add_option("--log-tries", log_tries, "2^N tries")->capture_default_str()->check(CLI::Range(1, 48));
    app.add_option("--threads", threads, "Threads")->capture_default_str()->check(CLI::Range(1, 1024));
    app.add_option("--seed", seed, "Of the keys and words")->capture_default_str();
    const auto read = ask::read_command_line(app, argc, argv);
    if (!read.ok() || !*read) {
        if (!read.ok()) {
            std::fprintf(stderr, "check_bound: %s\n", read.error().text().c_str());
        }
        return read.ok() ? 0 : 2;
    }
    const std::uint64_t tries = std::uint64_t{1} << log_tries;
    const std::uint64_t passed =
        narrow ? count_passes<Narrow<12>>(tries, threads, seed) : count_passes<True>(tries, threads, seed);
    // NH's own share, and how far chance strays from it: 4 and 8 of 2^34.
    const double expected = std::ldexp(1.0, static_cast<int>(log_tries) - (narrow ? 12 : 32));
    const double stray = 4 * std::sqrt(expected);
    std::printf("2^%u tries: %" PRIu64 " passed; expected %.1f, give or take %.1f\n", log_tries, passed,
                expected, stray);
    return std::fabs(static_cast<double>(passed) - expected) <= stray ? 0 : 1;
}
