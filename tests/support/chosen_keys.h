// SPDX-License-Identifier: Apache-2.0
//
// Keys as somebody chooses them who wants tables to be slow: by whatever hash is public.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "lib/tuples/key_hash.h"
#include "lib/tuples/slot_map.h"

namespace ask::test {

using Keys = std::vector<std::string>;

template <typename Number>
void append_raw(std::string& bytes, Number number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// The first `count` of the keys make(0), make(1), ... that `wanted` takes.
template <typename Make, typename Wanted>
Keys choose_keys(std::size_t count, Make make, Wanted wanted) {
    Keys keys;
    for (std::uint64_t i = 0; keys.size() < count; ++i) {
        if (std::string key = make(i); wanted(key)) {
            keys.push_back(std::move(key));
        }
    }
    return keys;
}

// Eight bytes, nothing chosen.
inline Keys random_keys(std::size_t count) {
    const auto make = [](std::uint64_t i) {
        std::string key;
        append_raw(key, (i + 1) * 0x9e3779b97f4a7c15ULL);
        return key;
    };
    return choose_keys(count, make, [](const std::string&) { return true; });
}

// All of one public hash: the second word of the first block makes its product zero, whatever the first is.
inline Keys keys_of_one_hash(std::size_t count) {
    const auto make = [](std::uint64_t i) {
        std::string key;
        append_raw(key, i);
        append_raw(key, detail::kHashB);
        return key.append(16, 'k');
    };
    return choose_keys(count, make, [](const std::string&) { return true; });
}

// Words and numbers, of a 64th of a table of 2^17 entries that takes the public hash.
inline Keys printable_crowd(std::size_t count) {
    return choose_keys(
        count, [](std::uint64_t i) { return "user-" + std::to_string(i); },
        [](const std::string& key) { return (key_hash(key) & 0x1f800U) == 0; });
}

// Of one slot of the default geometry and a 32nd of such a table; they fit slots.
inline Keys keys_of_one_slot(std::size_t count) {
    const auto make = [](std::uint64_t i) {
        std::string key;
        append_raw(key, i * 0x0101010101010101ULL);
        return key;
    };
    return choose_keys(count, make, [](const std::string& key) {
        const std::uint64_t hash = key_hash(key);
        return medium_slot_of(hash, Geometry()) == Geometry().short_slots && (hash & 0x1f000U) == 0;
    });
}

}  // namespace ask::test
