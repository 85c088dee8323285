// SPDX-License-Identifier: Apache-2.0
//
// The pairs of SwitchAgg section 6.1: keys drawn at random, evenly or by Zipf's law, or in turns; of one
// length or of a range.
#pragma once

#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

namespace ask::bench {

struct Keys {
    std::uint64_t count = 1;  // different ones that there are, 2^32 at most
    double exponent = 0;      // of Zipf's law; 0: all are equally likely
    std::uint32_t shortest = 8;
    std::uint32_t longest = 8;  // bytes, from kLeastKey to kMostKey
};
inline constexpr std::uint32_t kLeastKey = 8;
inline constexpr std::uint32_t kMostKey = 64;

// Numbers from 0, drawn with probability in proportion to 1 / (number + 1)^exponent, without a table:
// rejection by inversion (Hoermann and Derflinger 1996).
class ZipfDraw {
 public:
    ZipfDraw(std::uint64_t count, double exponent);
    std::uint64_t operator()(std::mt19937_64& random);

 private:
    [[nodiscard]] double integral(double x) const;
    [[nodiscard]] double inverse(double x) const;
    [[nodiscard]] double density(double x) const;

    double count_;
    double exponent_;
    double first_;
    double last_;
    double accept_;
};

enum class Turns : std::uint8_t {
    kNone,    // all keys are drawn
    kFirst,   // each comes once, then they are drawn
    kAlways,  // each comes once in every turn: as often as any other, in the end
};

class KeyDraw {
 public:
    KeyDraw(const Keys& keys, Turns turns);
    // The next key's bytes, none of them 0 and scattered whatever the number is; until the next call.
    std::string_view next();
    // Different keys so far.
    [[nodiscard]] std::uint64_t distinct() const { return distinct_; }

 private:
    std::uint64_t draw();
    std::uint64_t in_turn();
    std::string_view write(std::uint64_t number);

    Keys keys_;
    Turns turns_;
    std::uint64_t left_;  // of this turn, how many are to come
    std::uint64_t step_ = 1;
    std::uint64_t at_ = 0;
    ZipfDraw zipf_;
    std::mt19937_64 random_{1};
    std::vector<std::uint64_t> seen_;  // a bit a key
    std::uint64_t distinct_ = 0;
    char text_[kMostKey]{};
};

}  // namespace ask::bench
