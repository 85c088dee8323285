// SPDX-License-Identifier: Apache-2.0
//
// What one of a switch's users may take of it at most: a tenant, or, where there is none, a host.
#pragma once

#include <cstdint>
#include <map>
#include <string>

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

 private:
    [[nodiscard]] SwitchUse use_of(const Owner& owner) const;

    const SwitchUse all_;
    SwitchUse limits_;
    std::map<std::string, SwitchUse> used_;  // by who
};

}  // namespace ask
