// SPDX-License-Identifier: Apache-2.0
//
// What the members of groups on one host act through, beside what all sessions do (lib/control/member).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/control/member/application_port.h"
#include "lib/control/member/call_cancel.h"
#include "lib/control/member/mailbox.h"
#include "lib/control/member/patience.h"
#include "lib/net/frame.h"
#include "lib/values/collector.h"
#include "lib/values/member.h"
#include "lib/values/terms.h"
#include "proto/agent.pb.h"

namespace ask {

class GroupBook;

// Arena and ring that an application shares with the worker that runs its group.
class GroupMemory : public Attachment {
 public:
    [[nodiscard]] virtual std::size_t arena_bytes() const = 0;
};

struct GroupStart {
    values::GroupTerms terms;
    std::uint32_t rank = 0;
    bool through_switch = false;     // own values, too, go out by it
    std::vector<UdpAddresses> ways;  // by rank: MACs and addresses, no ports
    std::shared_ptr<GroupMemory> memory;
    std::shared_ptr<Mailbox> mailbox;  // gets kGroupFailed
};

// How far a member is.
struct GroupState {
    std::uint64_t completed = 0;  // operations, of which the application knows
    std::uint64_t begun = 0;
    bool idle = true;             // none is under way
    std::uint64_t operation = 0;  // that is waited for, with its oldest chunk
    std::uint32_t stream = 0;
    std::uint64_t seq = 0;
    std::uint64_t missing = 0;    // the set of members that it lacks, as far as is known
    std::int64_t waiting_ns = 0;  // for so long
    values::MemberStats member{};
    std::optional<values::CollectorStats> collector{};  // on the root's host
    std::vector<values::StreamLook> streams{};
};

// Every call may be refused (kLimit, kAborted) or find its worker silent (kInternal). Thread-safe.
class GroupWorkers {
 public:
    GroupWorkers() = default;
    virtual ~GroupWorkers() = default;
    GroupWorkers(const GroupWorkers&) = delete;
    GroupWorkers& operator=(const GroupWorkers&) = delete;

    // kLimit: what groups of this agent, or of this user, may have is taken.
    virtual Result<std::shared_ptr<GroupMemory>> make_memory(std::size_t arena_bytes, std::uint32_t user) = 0;
    // At the worker that owns the member's channel. kExists: the instance runs here.
    virtual Result<> begin_group(GroupStart start) = 0;
    virtual Result<GroupState> group_state(std::uint64_t instance, ChannelId channel) = 0;
    // Whether the switch copies the collector's results for all; begins as terms say.
    virtual Result<> set_fan_out(std::uint64_t instance, ChannelId channel, bool fan_out) = 0;
    // No operation beyond `last` ends whole from now on; 0: beyond those that have. `dead`: the set of
    // members whose part nobody waits for.
    virtual Result<> settle_group(std::uint64_t instance, ChannelId channel, std::uint64_t last,
                                  std::uint64_t dead) = 0;
    virtual Result<> end_group(std::uint64_t instance, ChannelId channel) = 0;
};

// The agent that coordinates a group, as other members' agents see it. Every call ends within its `wait`, or
// when it is cancelled, and its error names the host.
class GroupPeer {
 public:
    GroupPeer() = default;
    virtual ~GroupPeer() = default;
    GroupPeer(const GroupPeer&) = delete;
    GroupPeer& operator=(const GroupPeer&) = delete;

    virtual Result<v1::JoinGroupReply> join_group(const v1::JoinGroupRequest& request, milliseconds wait,
                                                  CallCancel* cancel) = 0;
    virtual Result<v1::GroupOutcome> renew_group(const v1::RenewGroupRequest& request, milliseconds wait,
                                                 CallCancel* cancel) = 0;
    virtual Result<> leave_group(const v1::LeaveGroupRequest& request, milliseconds wait) = 0;
};

struct GroupPorts {
    GroupWorkers& workers;
    GroupBook& book;
    std::function<std::unique_ptr<GroupPeer>(const std::string& address, const std::string& name)> peer_at;
};

}  // namespace ask
