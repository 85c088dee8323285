// SPDX-License-Identifier: Apache-2.0
//
// `askctl task dump`: what a running task's memory on the switch holds, keys and values as people write them.
// Text only: no I/O.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/tuples/keyed_hash.h"
#include "proto/switch.pb.h"
#include "tools/cli/to_json.h"

namespace ask::cli {

class RegionDump {
 public:
    // Keys are others': nobody must know `seed`.
    RegionDump(v1::Operator op, const HashSeed& seed) : op_(op), values_(0, Hash{seed}) {}

    // Entries as FetchCopy streams them. A key that comes again is combined: CPUs of a switch each have
    // aggregators of their own.
    Result<> add(std::string_view entries);
    [[nodiscard]] std::size_t keys() const { return values_.size(); }
    // Sorted by the keys' bytes; with `top`, the largest values, so many of them.
    [[nodiscard]] std::string text(std::size_t top) const;
    [[nodiscard]] Json json(std::size_t top) const;

 private:
    struct Hash {
        HashSeed seed;
        std::size_t operator()(std::string_view key) const { return keyed_hash(seed, key); }
    };
    using Row = std::pair<std::string_view, std::int64_t>;
    [[nodiscard]] std::vector<Row> rows(std::size_t top) const;

    v1::Operator op_;
    std::unordered_map<std::string, std::int64_t, Hash> values_;
};

}  // namespace ask::cli
