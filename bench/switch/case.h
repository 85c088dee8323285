// SPDX-License-Identifier: Apache-2.0
//
// One line of the table: what the switch is given to do.
#pragma once

#include <cstdint>
#include <string>

#include "lib/abi/back.h"
#include "lib/abi/consts.h"
#include "lib/abi/wire.h"
#include "lib/tuples/back.h"
#include "lib/tuples/packer.h"
#include "lib/tuples/types.h"

namespace ask::bench {

// What the packets' tuples meet.
enum class Load : std::uint8_t {
    kHits,    // keys are a sixteenth of the aggregators, none collides: all tuples find their key
    kBlank,   // the region is blanked before each batch: nearly all tuples take an aggregator
    kMisses,  // keys are four times the aggregators: most tuples find another's
    kSeen,    // each batch comes twice, and the second time counts: nothing is aggregated
    kBack,    // keys are two fifths of the back level's entries, which holds them all, the aggregators few
};

struct Case {
    std::uint32_t memory = ASK_MEMORY_PIPELINES;
    std::uint32_t policy = ASK_POLICY_FIRST_COME;
    Load load = Load::kHits;
    Geometry geometry;
    std::uint32_t aggregators = 1U << 15U;  // of an AA
    bool sized = true;                      // the program for the region's size, not that for any
    unsigned cpus = 1;                      // at once, each with a channel of its own
    std::uint32_t back_mib = 0;             // of the back level; 0: the task has none
    unsigned group = ASK_BACK_8;            // of its keys; those longer than 8 bytes come in VAR

    [[nodiscard]] bool is_var() const { return group != ASK_BACK_8; }
    // Of a packet: slots, or as many records as fit.
    [[nodiscard]] std::uint32_t tuples() const {
        return is_var() ? records() : std::uint32_t{geometry.slots()} * geometry.rows;
    }
    [[nodiscard]] std::uint32_t back_buckets() const {
        return static_cast<std::uint32_t>((std::uint64_t{back_mib} << 20U) / kBackBucketBytes[group]);
    }
    // Distinct keys of a slot.
    [[nodiscard]] std::uint32_t keys() const {
        switch (load) {
            case Load::kMisses:
                return aggregators * 4;
            case Load::kBlank:
                return 1U << 24U;
            case Load::kBack:
                return static_cast<std::uint32_t>(std::uint64_t{back_buckets()} * kBackEntries[group] * 2 /
                                                  5);
            default:
                return aggregators / 16;
        }
    }

 private:
    [[nodiscard]] std::uint32_t records() const {
        const std::size_t room = PackerConfig{}.payload_limit - sizeof(ask_hdr) - sizeof(ask_var_hdr);
        std::uint32_t count = ASK_VAR_MAX_RECORDS;
        while (4 * ask_var_rows(count) + count * ask_var_record_bytes(group) > room) {
            --count;
        }
        return count;
    }
};

[[nodiscard]] inline const char* memory_name(const Case& what) {
    return what.memory == ASK_MEMORY_PIPELINES ? "pipelines" : "shared";
}
[[nodiscard]] inline const char* policy_name(const Case& what) {
    return what.policy == ASK_POLICY_REPLACE ? "replace" : "first-come";
}
[[nodiscard]] inline const char* load_name(const Case& what) {
    constexpr const char* kNames[] = {"hits", "blank", "misses", "seen", "back"};
    return kNames[static_cast<std::size_t>(what.load)];
}
[[nodiscard]] inline const char* size_name(const Case& what) {
    return what.sized ? "one" : "any";
}
// What a packet is made of: a geometry, or records of so many bytes of key.
[[nodiscard]] inline std::string shape_of(const Case& what) {
    return what.is_var()
               ? "var" + std::to_string(kBackKeyBytes[what.group]) + "*" + std::to_string(what.tuples())
               : to_string(what.geometry);
}
[[nodiscard]] inline std::string name_of(const Case& what) {
    return std::string(memory_name(what)) + " " + policy_name(what) + " " + load_name(what) + " " +
           shape_of(what) + " " + std::to_string(what.aggregators) + " " + size_name(what) +
           (what.back_mib == 0 ? "" : " back " + std::to_string(what.back_mib));
}

}  // namespace ask::bench
