// SPDX-License-Identifier: Apache-2.0
//
// A member of a group as a worker runs it, and the group's collector, if this host is the root.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "agent/worker.h"
#include "lib/abi/values.h"
#include "lib/values/collector.h"
#include "lib/values/member.h"
#include "lib/values/packet.h"

namespace ask {

struct WorkerCore::Group {
    Group(const GroupStart& start, std::shared_ptr<SharedGroupMemory> of)
        : wire(start.terms),
          member(start.terms, start.rank),
          rank(start.rank),
          through_switch(start.through_switch),
          ways(start.ways),
          memory(std::move(of)),
          mailbox(start.mailbox) {
        if (start.rank == start.terms.root) {
            collector = std::make_unique<values::Collector>(start.terms);
        }
    }

    values::Wire wire;
    values::Member member;
    std::unique_ptr<values::Collector> collector;  // null: another's
    const std::uint32_t rank;
    const bool through_switch;
    const std::vector<UdpAddresses> ways;
    const std::shared_ptr<SharedGroupMemory> memory;
    const std::shared_ptr<Mailbox> mailbox;
    bool failed = false;
    std::uint64_t completed = 0;  // the last operation whose end the application knows of

    [[nodiscard]] Nanos deadline(Nanos now) const {
        if (failed) {
            return kNever;
        }
        const Nanos own = member.next_deadline(now);
        return collector ? std::min(own, collector->next_deadline(now)) : own;
    }
};

inline void add_stats(const auto& group, values::MemberStats& members, values::CollectorStats& collectors) {
    values::add(members, group.member.stats());
    if (group.collector) {
        values::add(collectors, group.collector->stats());
    }
}

// By its first bytes; nothing of it is proved.
inline bool is_values(std::span<const std::byte> payload) {
    return payload.size() >= sizeof(ask_hdr) &&
           ask_type_is_values(static_cast<std::uint8_t>(payload[offsetof(ask_hdr, type)])) != 0;
}

}  // namespace ask
