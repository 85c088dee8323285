// SPDX-License-Identifier: Apache-2.0
//
// What one of a switch's users may take of it at most: a tenant, or, where there is none, a host.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/abi/map_types.h"
#include "lib/base/result.h"
#include "lib/rpc/owner.h"

namespace ask {

// Of a switch; as a limit, 0 is seven eighths of what there is: whoever takes all that he may leaves others
// some.
struct SwitchUse {
    std::uint64_t tasks = 0;
    std::uint64_t channels = 0;
    std::uint64_t flows = 0;
    std::uint64_t sram_bytes = 0;  // of a pipeline
    std::uint64_t back_bytes = 0;  // of back levels
};

// Buckets of packets, from 1: one for whoever has tasks. There are as many as there may be tasks.
class Buckets {
 public:
    // Nanoseconds, of a holder's packets together: two ticks of the slowest kernel's clock, and some.
    static constexpr std::uint64_t kBurst = 50'000'000;
    // As it is written: one of so many packets a second.
    [[nodiscard]] static ask_bucket bucket_of(std::uint64_t packets_a_second);

    explicit Buckets(std::uint32_t count) : holders_(count) {}
    // One task more of this holder; its bucket, which it has had before if it can be: nobody gets a full one
    // by closing his tasks.
    [[nodiscard]] std::uint32_t take(const std::string& holder);
    void give_back(std::uint32_t bucket);
    [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(holders_.size()); }

 private:
    struct Holder {
        std::string name;  // empty: none yet
        std::uint32_t tasks = 0;
    };
    std::vector<Holder> holders_;  // of bucket i + 1
};

// Counts what is in use.
class Quotas {
 public:
    // The limits, of `all` there is.
    Quotas(const SwitchUse& limits, const SwitchUse& all) : all_(all) { set_limits(limits); }
    void set_limits(const SwitchUse& limits);

    void take(const Owner& owner, const SwitchUse& use);
    void give_back(const Owner& owner, const SwitchUse& use);
    // Whether the owner may have so much more. kLimit names what is short, the limit, and who has it.
    [[nodiscard]] Result<> check(const Owner& owner, const SwitchUse& more) const;
    // Bytes that the owner may still take.
    [[nodiscard]] std::uint64_t sram_left(const Owner& owner) const;
    [[nodiscard]] std::uint64_t back_left(const Owner& owner) const;

 private:
    [[nodiscard]] SwitchUse use_of(const Owner& owner) const;

    const SwitchUse all_;
    SwitchUse limits_;
    std::map<std::string, SwitchUse> used_;  // by who
};

}  // namespace ask
