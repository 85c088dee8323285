// SPDX-License-Identifier: Apache-2.0
#include "bench/switchagg/draw.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/abi/back.h"

namespace ask::bench {
namespace {

// (e^x - 1) / x and log(1 + x) / x, at 0 too.
double over_expm1(double x) {
    return std::abs(x) > 1e-8 ? std::expm1(x) / x : 1 + x / 2;
}
double over_log1p(double x) {
    return std::abs(x) > 1e-8 ? std::log1p(x) / x : 1 - x / 2;
}

// A bijection of 32 bits (MurmurHash3's last step).
std::uint32_t scatter(std::uint32_t x) {
    x ^= x >> 16;
    x *= 0x85ebca6bU;
    x ^= x >> 13;
    x *= 0xc2b2ae35U;
    return x ^ x >> 16;
}

void write_digits(std::uint64_t bits, char* out, std::size_t digits) {
    for (std::size_t i = 0; i < digits; ++i) {
        out[i] = "0123456789abcdef"[bits >> (4 * i) & 15U];
    }
}

}  // namespace

ZipfDraw::ZipfDraw(std::uint64_t count, double exponent)
    : count_(static_cast<double>(count)),
      exponent_(exponent),
      first_(integral(1.5) - 1),
      last_(integral(count_ + 0.5)),
      accept_(2 - inverse(integral(2.5) - density(2))) {}

// Of x^-exponent.
double ZipfDraw::integral(double x) const {
    const double log = std::log(x);
    return over_expm1((1 - exponent_) * log) * log;
}

double ZipfDraw::inverse(double x) const {
    return std::exp(over_log1p(std::max(-1.0, x * (1 - exponent_))) * x);
}

double ZipfDraw::density(double x) const {
    return std::exp(-exponent_ * std::log(x));
}

std::uint64_t ZipfDraw::operator()(std::mt19937_64& random) {
    while (true) {
        const double fraction = static_cast<double>(random() >> 11U) * 0x1p-53;
        const double area = last_ + fraction * (first_ - last_);
        const double x = inverse(area);
        const double rank = std::clamp(std::round(x), 1.0, count_);
        if (rank - x <= accept_ || area >= integral(rank + 0.5) - density(rank)) {
            return static_cast<std::uint64_t>(rank) - 1;
        }
    }
}

KeyDraw::KeyDraw(const Keys& keys, Turns turns)
    : keys_(keys),
      turns_(turns),
      left_(turns == Turns::kNone ? 0 : keys.count),
      zipf_(keys.count, keys.exponent),
      seen_((keys.count + 63) / 64) {}

// By steps that lead everywhere before they lead back; another way round each time.
std::uint64_t KeyDraw::in_turn() {
    if (left_ == 0) {
        left_ = keys_.count;
        do {
            step_ = 1 + random_() % keys_.count;
        } while (std::gcd(step_, keys_.count) != 1);
    }
    --left_;
    at_ = (at_ + step_) % keys_.count;
    return at_;
}

std::uint64_t KeyDraw::draw() {
    if (turns_ == Turns::kAlways || left_ > 0) {
        return in_turn();
    }
    if (keys_.exponent != 0) {
        return zipf_(random_);
    }
    __extension__ using Product = unsigned __int128;
    return static_cast<std::uint64_t>(Product{random_()} * keys_.count >> 64U);
}

// Eight digits tell keys apart; of those behind, the number says how many there are.
std::string_view KeyDraw::write(std::uint64_t number) {
    std::uint64_t bits = ask_back_mix(number + 1);
    const std::uint64_t size = keys_.shortest + bits % (keys_.longest - keys_.shortest + 1);
    write_digits(scatter(static_cast<std::uint32_t>(number)), text_, kLeastKey);
    for (std::size_t at = kLeastKey; at < size; at += 16) {
        write_digits(bits, text_ + at, std::min<std::size_t>(16, size - at));
        bits = ask_back_mix(bits);
    }
    return {text_, size};
}

std::string_view KeyDraw::next() {
    const std::uint64_t number = draw();
    std::uint64_t& word = seen_[number / 64];
    const std::uint64_t bit = std::uint64_t{1} << number % 64;
    distinct_ += (word & bit) == 0 ? 1 : 0;
    word |= bit;
    return write(number);
}

}  // namespace ask::bench
