// SPDX-License-Identifier: Apache-2.0
//
// Opens a task on this host's agent and takes its result.
//
//     auto session = ask::client::ReceiveSession::open({.task = "wordcount", .senders = 3});
//     auto result = session->wait();
//     result->table.each_sorted([](std::string_view key, std::int64_t value) { ... });
//     session->confirm();
//
// A result is whole or an error. Destroying the session before wait() has succeeded tears the task down on
// all hosts. After that and before confirm() the result stays at the agent for a while, for a session with
// `again`, and the senders are told of failure unless that comes within the task's deadline.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/client/placement.h"
#include "lib/client/result_map.h"
#include "lib/client/task.h"
#include "lib/tuples/swap_policy.h"
#include "lib/tuples/types.h"

namespace ask::client {

// What the task got when it was opened; with own_switches, at its end.
struct ReceiveInfo {
    std::uint64_t instance = 0;  // of the task, as the wire carries it; 0: not open yet
    Geometry geometry;
    std::uint32_t aggregators = 0;  // per AA on the switch; 0: no region
    std::string note;               // why there is no region, else empty
    std::uint64_t back_bytes = 0;   // of the switch's back level; 0: none
    bool no_memory = false;         // there is none because the switch had no memory for one
    std::string geometry_reason;    // why this geometry, if it was the agent's choice
    std::string no_relays;          // why there are none, though the controller was to choose some
    std::string agent;              // control address of this host's agent
    std::string switch_address;     // of the switch that it has; empty: none
};

struct ReceiveOptions {
    std::string agent;          // the agent's socket; empty: ASK_AGENT, else /run/ask/agent.sock
    std::string task;           // id, not in use on this host or its switch
    bool again = false;         // a result that was kept: of the rest, only the deadline counts
    std::uint32_t senders = 1;  // how many sends make the task whole
    TaskOp op = TaskOp::kSum;
    // For senders to join, and without progress of any of them afterwards.
    std::chrono::milliseconds deadline{30'000};
    // Unset: the agent's choice by the senders' samples, once they ask for the task, or
    std::optional<Geometry> geometry;
    bool default_geometry = false;     // the paper's, with as many rows as the MTU allows
    std::uint32_t aggregators = 0;     // per AA on the switch; 0: by the samples, or the switch's choice
    std::optional<SwapSettings> swap;  // shadow copies, and when they are swapped; unset: none
    bool no_switch = false;            // aggregate at the receiver only
    bool own_switches = false;         // each sender's own switch aggregates, not this host's
    std::vector<std::string> without_switches{};  // with own_switches: but for these, by their addresses
    bool no_back = false;         // the switch keeps tuples in aggregators alone, without a back level
    bool require_region = false;  // fail rather than go without memory on the switch
    TaskPolicy policy = TaskPolicy::kAuto;
    // Senders that die do not end the task: its result then lacks an unknown part of what they sent, and says
    // so. Takes the paper's policy, and a second copy of the region for closing it with senders still at it.
    bool allow_incomplete = false;
    // Which switches aggregate, by the relays beside them; of `senders` sends in all.
    std::optional<Placement> placement;
    // Or the agent's controller is asked for one.
    std::optional<PlaceWish> place;
    // The result is to be sent on as a part of another: values may leave int64 (ResultMap::each_wide), and
    // the agent waits for confirm() for as long as taking() is called.
    bool partial = false;
    // Of a partial one: bytes that its tables may take, which the agent sets aside at once. What does not fit
    // comes in parts, each by a wait() of its own; 0: all of it comes at the end.
    std::uint64_t reserve = 0;
    // The caller is always within a call of ReceiveSession, or calls alive() or taking() about once a second:
    // it is taken for one that hangs, and the task ends, if the agent hears nothing for half of the deadline,
    // and at least 2 s.
    bool answers_progress = false;
    // How long the session's end waits at most until the agent has given back what it had for it: the id,
    // tables, the switch's memory. 0: not at all.
    std::chrono::milliseconds let_go{0};
    // Who may send: these hosts, by name or address, and who shows the token; neither: every host of this
    // one's tenant.
    std::vector<std::string> from;
    std::string token;
    // A run of a stream's window: the stream, whose receiver is this process (lib/client/stream_receive.h),
    // and the window's number. Its senders are the stream's members; confirm() commits the window. A run that
    // fails does not begin again here: the stream says when.
    std::string stream{};
    std::uint64_t window = 0;
    // What such a run has lost that has failed: relays, by the names of their switches, and senders' own
    // switches, by their addresses; within open() or wait().
    std::function<void(const std::vector<std::string>& relays, const std::vector<std::string>& switches)>
        on_lost{};
    int cancel_fd = -1;  // a descriptor that ends every wait with kAborted once it is readable
    std::function<void(const TaskProgress&)> on_progress;  // about once a second, within wait()
    std::function<void(const ReceiveInfo&)> on_open;       // what each run got; within open() or wait()
    // What the session holds open is now this descriptor, or -1: nothing. Within open() or wait().
    std::function<void(int fd)> on_socket;
    // A switch has lost what it had aggregated, and the task begins again without it, as another instance;
    // within wait().
    std::function<void(const Error& why)> on_run_again;
};

// Who is not, or not wholly, in an incomplete result.
struct MissingSenders {
    std::string name;  // empty: `senders` that never joined
    std::uint32_t senders = 1;
    std::string reason;
};
// "an unknown subset of NAME's tuples: REASON", or for those that never joined "nothing of N senders ...".
[[nodiscard]] std::string describe(const MissingSenders& missing);

// With own_switches: one of them.
struct TaskSwitchReport {
    std::string address;  // control address
    std::uint32_t aggregators = 0;
    std::uint64_t back_bytes = 0;
    std::string note;                  // why there is no region
    std::vector<std::string> senders;  // that it aggregated for
    std::uint64_t swaps = 0;
    std::uint64_t tuples = 0;  // that it aggregated
};
// And a sender that no switch aggregated for.
struct SenderWithoutSwitch {
    std::string name;
    std::string reason;
};

// Of a task with a placement: one of the relays that took part.
struct TaskRelayReport {
    std::string name;                // of the switch that it is beside
    std::string address;             // control address
    std::string parent;              // name of the next one on the way; empty: the receiver
    std::uint32_t senders = 0;       // relays, and sends of hosts, that came to it
    std::vector<std::string> hosts;  // of these, the hosts, by name
};

// Of a partial one: what came from one host, or from the relay beside one switch.
struct FlowsFromReport {
    std::uint32_t host = 0;      // its number
    std::string relay;           // name of that switch; empty: a host that sends
    std::uint32_t joined = 0;    // flows
    std::uint32_t finished = 0;  // of these
    std::uint64_t packets = 0;   // first transmissions, whatever a switch on the way has kept of them
    std::uint64_t frame_bytes = 0;
    std::uint64_t retransmissions = 0;
};

struct ReceiveReport {
    TaskStats stats;  // of all senders; seconds: from the first join to the commit
    std::vector<NamedStats> senders;
    // How long the agent keeps a result that is not confirmed; 0: not at all.
    std::chrono::seconds kept_for{0};
    std::uint64_t fetched = 0;            // aggregators that came from the switch, in swaps and at the end
    std::uint64_t swaps = 0;              // of shadow copies
    std::uint32_t runs = 1;               // more: a switch lost what it had
    std::vector<MissingSenders> missing;  // none: the result is whole
    std::vector<TaskSwitchReport> switches;
    std::vector<SenderWithoutSwitch> without;
    std::optional<TaskOp> op{};           // that the task was opened with; unset: an agent that does not say
    std::uint64_t table_bytes_most = 0;   // with a reserve: what was taken of it at most
    std::vector<TaskRelayReport> relays;  // any: stats and senders are those of what relays sent on
    std::vector<FlowsFromReport> flows{};
};

struct ReceiveResult {
    ResultMap table;
    ReceiveReport report;
    bool last = true;  // else it is a part, of which the report says next to nothing, and others follow
};

// Not thread-safe.
class ReceiveSession {
 public:
    // Returns once senders may ask for the task. kUsage: a bad id or number. kExists: the id is in use.
    // kUnavailable: no agent. Of the switch, if nothing has to be chosen by samples, and from wait()
    // otherwise: kUnavailable, or kLimit: no region although one is required.
    static Result<ReceiveSession> open(ReceiveOptions options);
    ReceiveSession(ReceiveSession&&) noexcept;
    ReceiveSession& operator=(ReceiveSession&&) noexcept;
    ~ReceiveSession();

    // Of the run under way; empty until its geometry and memory are chosen (on_open).
    [[nodiscard]] const ReceiveInfo& info() const;
    // Waits until every sender has finished. kDeadline: names who is missing. kAborted: names who gave up.
    // kOverflow: names the key whose value leaves int64. kSwitchLost: the switch lost what it had, and a
    // sender, who is named, cannot send again. With a reserve the result may come in parts: another call says
    // that the part before is sent on and its table gone.
    Result<ReceiveResult> wait();
    // After wait(), and now and then while the result goes where it should: something of it has arrived
    // there. Else the agent takes a session that needs longer than the deadline for one that hangs. Never
    // waits.
    void taking() { taking({}); }
    // The same of a part, and what its sending on waits for, as those below are told; empty: the next one.
    void taking(const std::string& waits_for);
    // A sign of life, for a caller that waits for other things. Never waits.
    void alive();
    // After an error: relays that were lost, by the names of their switches.
    [[nodiscard]] const std::vector<std::string>& lost_relays() const;
    // It cannot be sent on: senders hear why. No call is allowed after it.
    void abandon(const Error& reason);
    // The result is where it should be: the senders succeed now, and not before. An error does not change
    // what is there, but the senders may report that they failed: kUnavailable: the agent has gone.
    // kNotTaken: it has given up waiting for this call.
    Result<> confirm();

 private:
    class Impl;
    explicit ReceiveSession(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace ask::client
