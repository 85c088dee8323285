// SPDX-License-Identifier: Apache-2.0
//
// The tuples of ASK section 5.4: 2^16 keys, all equally frequent or by Zipf's law with exponent 1.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace ask::bench {

enum class Order : std::uint8_t {
    kUniform,   // every key is as likely as any other, at any time
    kHotFirst,  // Zipf, sorted: all tuples of the hottest key, then all of the next ("Zipf")
    kHotLast,   // the other way round ("Zipf (reverse)")
    kRandom,    // Zipf, drawn at random
};
[[nodiscard]] const char* to_string(Order order);

class Stream {
 public:
    static constexpr std::uint32_t kKeys = 1U << 16U;
    static constexpr std::size_t kKeyBytes = 4;

    // About `tuples` of them: sorted orders round each key's number to at least 1.
    Stream(Order order, std::uint64_t tuples);

    [[nodiscard]] std::uint64_t size() const { return size_; }
    // The next key; call at most size() times.
    std::uint32_t next();
    // How often each key has come.
    [[nodiscard]] const std::vector<std::uint64_t>& counts() const { return counts_; }
    // A key as bytes, none of them 0; and back.
    static void write_key(std::uint32_t key, char (&out)[kKeyBytes]);
    static std::uint32_t read_key(const char* bytes);

 private:
    void plan_sorted(std::uint64_t tuples);
    void plan_zipf();
    std::uint32_t draw();

    Order order_;
    std::uint64_t size_ = 0;
    std::vector<std::uint64_t> counts_ = std::vector<std::uint64_t>(kKeys);
    std::vector<std::uint64_t> planned_;  // sorted orders
    std::uint32_t at_ = 0;
    std::uint64_t left_ = 0;
    // Walker's alias method.
    std::vector<std::uint32_t> alias_;
    std::vector<double> keep_;
    std::mt19937_64 random_{1};
};

}  // namespace ask::bench
