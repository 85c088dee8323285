// SPDX-License-Identifier: Apache-2.0
//
// How large an aggregated message is, as a function of how many servers' messages it holds. SOAR treats all
// messages as equal and measures the difference afterwards (sections 4.4 and 5.3); here the size only depends
// on the servers below a switch, so the bytes can be optimised exactly (problem.h).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace ask::placement {

// One measured point: an aggregate of `servers` messages is `bytes` long.
struct SizePoint {
    std::uint64_t servers = 0;
    double bytes = 0;
};

class SizeModel {
 public:
    // Every message has the same size (the paper's M). kInput unless `bytes` is positive and finite.
    static Result<SizeModel> constant(double bytes);

    // Gradients of a parameter server (section 5): every server sends each of `features` values with
    // probability 1 - `dropout`, independently, so an aggregate of m servers holds features * (1 - dropout^m)
    // of them in expectation. kInput for a dropout outside [0, 1) or a size that is not positive.
    static Result<SizeModel> parameter_server(std::uint64_t features, double dropout, double bytes_per_value);

    // Measured points with strictly increasing `servers`, joined by straight lines; held constant beyond
    // either end. kInput for no points, a size that is not positive, or points out of order.
    static Result<SizeModel> measured(std::vector<SizePoint> points);

    // Size in bytes of an aggregate of `servers` messages; 0 for none.
    [[nodiscard]] double bytes(std::uint64_t servers) const;

 private:
    enum class Kind : std::uint8_t { kConstant, kParameterServer, kMeasured };

    SizeModel() = default;
    [[nodiscard]] double interpolate(std::uint64_t servers) const;

    Kind kind_ = Kind::kConstant;
    double full_ = 1;  // the constant, or the size with every feature present
    double dropout_ = 0;
    std::vector<SizePoint> points_;
};

// What a message that lists distinct words is long, where that is more than a sum over its words.
class WordList {
 public:
    virtual ~WordList() = default;
    virtual void clear() = 0;
    virtual void add(std::string_view word) = 0;
    [[nodiscard]] virtual double bytes() const = 0;

 protected:
    WordList() = default;
    WordList(const WordList&) = default;
    WordList& operator=(const WordList&) = default;
    WordList(WordList&&) = default;
    WordList& operator=(WordList&&) = default;
};

// Counts words in `text` as a word-count job would: `shards` servers hold equal contiguous pieces, a message
// lists each distinct word of its server once with `bytes_per_count` bytes for the count, an aggregate lists
// the union. Returns the mean size of an aggregate over `rounds` random orders of the shards (from `seed`) at
// powers of two and at `shards`. Words are runs of ASCII letters, taken in lower case. kInput if the text has
// fewer words than shards, or for zero shards or rounds.
Result<std::vector<SizePoint>> measure_word_count(std::string_view text, std::uint32_t shards,
                                                  std::uint32_t rounds, std::uint64_t seed,
                                                  double bytes_per_count = 8);
// The same by `list`; at every number of servers up to 16, then in steps of an eighth.
Result<std::vector<SizePoint>> measure_word_count(std::string_view text, std::uint32_t shards,
                                                  std::uint32_t rounds, std::uint64_t seed, WordList& list);

}  // namespace ask::placement
