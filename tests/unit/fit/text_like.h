// SPDX-License-Identifier: Apache-2.0
//
// An endless text of made-up words: how often a word occurs falls as one over its rank, and frequent words
// are short.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace ask::test {

class TextLike {
 public:
    explicit TextLike(std::uint32_t words, std::uint64_t seed) : random_(seed) {
        double sum = 0;
        for (std::uint32_t rank = 1; rank <= words; ++rank) {
            sum += 1.0 / (rank + 1.0);
            until_.push_back(sum);
            words_.push_back(spell(rank));
        }
    }

    const std::string& next() {
        const double at = static_cast<double>(random_() >> 11) * 0x1p-53 * until_.back();
        return words_[static_cast<std::size_t>(std::ranges::upper_bound(until_, at) - until_.begin())];
    }

 private:
    // Letters to the base of 20, and a tail that makes rarer words longer on average.
    static std::string spell(std::uint32_t rank) {
        std::string word;
        for (std::uint32_t rest = rank; rest > 0; rest /= 20) {
            word += static_cast<char>('a' + rest % 20);
        }
        const std::uint32_t tail = rank * 2654435761U >> 28U;
        return word + std::string(rank < 50 ? tail / 8 : tail / 2, 'z');
    }

    std::mt19937_64 random_;
    std::vector<double> until_;
    std::vector<std::string> words_;
};

}  // namespace ask::test
