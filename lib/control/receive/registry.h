// SPDX-License-Identifier: Apache-2.0
//
// The tasks that this agent receives: what other agents' calls and the tasks' own sessions share. A task
// lives here from OpenReceive until every sender has learnt its outcome, or the lease has run out.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <spdlog/common.h>

#include "lib/base/random.h"
#include "lib/base/runtime.h"
#include "lib/control/member/mailbox.h"
#include "lib/control/member/patience.h"
#include "lib/control/member/switch_port.h"
#include "lib/control/member/workers_port.h"
#include "lib/control/receive/kept_results.h"
#include "lib/control/receive/membership.h"
#include "lib/control/receive/own_switches.h"
#include "lib/control/receive/placed.h"
#include "lib/control/receive/sample_box.h"
#include "lib/control/receive/stream.h"
#include "lib/control/receive/task_switch.h"
#include "lib/control/receive/window_need.h"
#include "lib/rpc/owner.h"
#include "lib/tuples/slot_map.h"
#include "proto/agent.pb.h"

namespace ask {

// A sender of a task, from its Join on. Guarded by the registry's mutex.
struct TaskSender {
    std::uint64_t sender = 0;  // drawn by it; repeats of a Join carry the same
    std::string name;          // as it calls itself, and who it is proved to be
    Owner owner;               // who may speak for it
    FlowParams flow;
    std::uint64_t flow_nonce = 0;  // of the flow at its switch
    bool joined = false;           // else its Join is still under way
    Clock::time_point joined_at;
    Clock::time_point last_heard;
    v1::FlowStats stats;  // its part; once committed, all parts
    bool fin = false;
    bool can_repeat = false;               // it could send everything once more
    std::optional<Error> left;             // it gave up, and why
    std::string relay;                     // name of the switch that it is the relay of; empty: it is none
    std::vector<std::string> lost_relays;  // below it, with `left`
    std::optional<std::string> missing;  // the task goes on without it, and why; for it, the task has failed
    std::string trouble;                 // what keeps it from getting on, as seen from here; for the sender
    std::string without;                 // why its own switch does not aggregate for it, though it was to
    bool knows_outcome = false;
    std::uint64_t member = 0;  // of the stream that the task is a window of
};

// kPlanning: its geometry is chosen once a sender has asked for it; then it opens as others do.
enum class TaskPhase : std::uint8_t {
    kPlanning,
    kOpening,
    kWaiting,
    kStreaming,
    kFetching,
    kComputed,  // the result is there, and not taken yet
    kCommitted,
    kFailed
};
[[nodiscard]] const char* to_string(TaskPhase phase);

// A stream whose receiver is here: an application has it open, or has ended it and its members are to hear
// so.
struct StreamHere {
    StreamHere(StreamTerms terms, const std::vector<v1::StreamMember>& known, const StreamNow& now)
        : stream(std::move(terms), known, now) {}

    Membership members;
    std::uint32_t user = 0;
    std::shared_ptr<Mailbox> mailbox;  // of its session
    // Guarded by the registry's mutex.
    Stream stream;
    WindowNeed need;
    std::uint64_t told = 0;  // version that all have been woken for
    bool closed = false;     // its session has ended
    Clock::time_point forget_at{};
    CondVar changed;
    // Of one that was cancelled: what its members are told, and those of them that have not been.
    std::string cancelled;
    std::set<std::uint64_t> untold;
    // Whoever begins to follow it then looks for another stream of that name; so do all once the time is over
    // that it is kept for.
    [[nodiscard]] bool is_for(const v1::FollowStreamRequest& request) const {
        if (cancelled.empty()) {
            return true;
        }
        const bool is_kept = !closed || Clock::now() < forget_at;
        return is_kept && (request.version() != 0 || untold.contains(request.member()));
    }
};

// Constant once the phase has left kOpening, but for what is said to be guarded, here or in its parts, and of
// a task on senders' own switches its memory there, which is guarded likewise.
struct ReceiveTask {
    std::string id;
    std::uint64_t instance = 0;
    std::uint32_t user = 0;  // whose it is, on this host
    bool in_parts = false;   // its table has a bound, and what does not fit is sent on before the rest
    v1::Operator op = v1::OPERATOR_SUM;
    Op wire = Op::kSum;
    Geometry geometry;
    std::shared_ptr<const SlotMap> slot_map;  // null: by hash
    std::string geometry_reason;
    std::uint64_t back_bytes = 0;
    std::string no_back_reason;  // if one was wanted
    std::uint32_t senders_expected = 1;
    milliseconds deadline{30000};
    std::string note;
    std::shared_ptr<Mailbox> mailbox;
    Clock::time_point opened = Clock::now();
    Membership members;
    CheckSecret root{random_u64(), random_u64()};  // what its flows' secrets are drawn from
    std::shared_ptr<StreamHere> here;              // that it is a run of a window of; null: of none
    std::uint64_t window = 0;

    // Guarded by the registry's mutex.
    TaskPhase phase = TaskPhase::kOpening;
    SampleBox samples;
    std::string trouble;               // what keeps the whole task from getting on; for whoever asks after it
    std::string waits_for;             // what it waits for, and takes nothing meanwhile; or last waited for
    bool waiting = false;              // it does now
    Clock::time_point last_waiting{};  // when it did
    std::vector<TaskSender> senders;
    TaskSwitches switches;           // it is open on; none: everything is added up here
    std::optional<OwnSwitches> own;  // those that senders name, each its own; nothing: all have one
    std::optional<Placed> placed;    // its tree of relays; nothing: all senders come here
    // Of one that the controller is to place: hosts that have looked it up, by sender.
    std::optional<std::map<std::uint64_t, std::uint32_t>> asking;
    bool too_late = false;  // to join: the task goes on without those that have not
    v1::Outcome outcome;    // RUNNING until it ends
    Clock::time_point forget_at;
    CondVar over;  // its outcome is there: for its own senders, who are many

    // Sends of hosts, wherever they go to.
    [[nodiscard]] std::uint32_t sends() const { return placed ? placed->sends() : expects(); }
    // Senders that are to join: of a window, which may gain some, as of now.
    [[nodiscard]] std::uint32_t expects() const {
        return here ? static_cast<std::uint32_t>(here->stream.expected(window).size()) : senders_expected;
    }
    // Of what is said of each task: one comes each second of a stream.
    [[nodiscard]] spdlog::level::level_enum log_level() const {
        return here ? spdlog::level::debug : spdlog::level::info;
    }
};

// A task at one of its switches, to be kept alive there.
struct TaskAtSwitch {
    std::shared_ptr<ReceiveTask> task;
    std::shared_ptr<SwitchPort> client;
    Mark mark;
    std::uint64_t nonce = 0;  // of its region
};

class TaskRegistry {
 public:
    struct Options {
        std::string host_name;  // for messages: "receiver NAME: ..."
        std::uint32_t own_address = 0;
        milliseconds lease{30000};    // how long an outcome is kept, and how long a sender may be silent
        unsigned max_waits = 256;     // calls that may be held back at once
        KeptResults* kept = nullptr;  // for status: results of tasks that are over; null: none
    };
    TaskRegistry(Options options, WorkersPort* workers, AgentCounters* counters)
        : options_(std::move(options)), workers_(workers), counters_(counters) {}

    // Sessions. kExists: the id is in use by a live task here.
    Result<> add(const std::shared_ptr<ReceiveTask>& task);
    // Senders may join.
    void opened(ReceiveTask& task);
    // Its relays are open: hosts may be told where to send.
    void placed(ReceiveTask& task);
    // Runs `change` on the task under the registry's mutex.
    template <typename Change>
    auto with(ReceiveTask& task, Change change) {
        const Guard lock(mutex_);
        return change(task);
    }
    // What its next Renew tells that sender; empty: nothing.
    void set_trouble(ReceiveTask& task, std::uint64_t sender, std::string trouble);
    // The result is there: nothing can be lost on the switch any more, and senders wait for it to be taken.
    void computed(ReceiveTask& task);
    [[nodiscard]] bool is_live(const std::string& id);
    // The id may be used again, though the task goes on.
    void free_id(const std::shared_ptr<ReceiveTask>& task);
    // The same for everybody, also for those that are still looking for the task.
    void set_trouble(ReceiveTask& task, std::string trouble);
    // It takes nothing in until that has moved; empty: it does again.
    void set_waits_for(ReceiveTask& task, std::string what);
    // A switch that senders have named has the task open under that mark; switch_id 0: it has not, and why.
    void settle_own(ReceiveTask& task, const std::string& address, Mark mark, std::string why);
    // The task's outcome: its id is free again, its senders are told.
    void end(const std::shared_ptr<ReceiveTask>& task, v1::Outcome outcome);
    // Whether every sender that is waited for has ended; if so nobody joins any more, which is decided under
    // the same lock.
    bool begin_fetching(ReceiveTask& task);

    // Streams. kExists: one of that name is here.
    Result<> open_stream(const std::shared_ptr<StreamHere>& here);
    // What its session is to do.
    Stream::News advance(StreamHere& here);
    void note_member(StreamHere& here, const v1::MemberNoted& noted);
    void take_empty(StreamHere& here, std::uint64_t window);
    void finish(StreamHere& here);
    // Its session ends, and with it all runs that are under way.
    void close_stream(const std::shared_ptr<StreamHere>& here);
    // The task becomes a run of that window. kUnknown: that is not to be run now.
    Result<> begin_run(ReceiveTask& task, const std::string& stream, std::uint64_t window);
    // It has failed before it was added.
    void fail_run(ReceiveTask& task);
    // The run goes by that plan, if it is for exactly the window's members.
    bool place_window(ReceiveTask& task, Placed placed);
    Result<v1::FollowStreamReply> follow_stream(const Caller& caller, const v1::FollowStreamRequest& request);
    // As if its application had asked for it; whether there is one that the caller may end.
    bool finish_stream(const Caller& caller, const std::string& name);
    std::vector<v1::AgentStream> describe_streams();

    // Until every sender knows the outcome of every task that has ended, or the deadline.
    void wait_until_told(Clock::time_point deadline);
    // Calls are no longer held back.
    void stop();

    // Tells the session of the live task of that id, if there is one that the caller may end, to end it. A
    // stream's members are told, too.
    bool cancel(const Caller& caller, const std::string& id);

    // Other agents' calls (proto/agent.proto).
    Result<v1::TaskOffer> look_up(const Caller& caller, const v1::LookupRequest& request);
    // A sender is its channel's host, and whoever acts for that; to all others it is as one that is not here.
    Result<v1::JoinReply> join(const Caller& caller, const v1::JoinRequest& request);
    // `listens`: whether the caller still waits for the answer; empty: it does. An outcome that nobody waits
    // for is told to nobody.
    Result<v1::Outcome> renew(const Caller& caller, const v1::RenewRequest& request,
                              const std::function<bool()>& listens = {});
    Result<> leave(const Caller& caller, const v1::LeaveRequest& request);

    // How many have not ended.
    [[nodiscard]] std::size_t live();
    // Each task once for each switch that it is open on.
    std::vector<TaskAtSwitch> on_switch();
    // What that switch says that it has done for a task so far.
    void note_switch_part(ReceiveTask& task, Mark of, const v1::FlowStats& stats);
    // Kept results among them.
    std::vector<v1::AgentTask> describe();
    // One of them, as status shows it.
    v1::AgentTask describe(const ReceiveTask& task);
    // Its switches, and who goes without; under the mutex.
    static v1::SwitchOfTask describe_locked(const ReceiveTask& task, const TaskSwitch& at);
    static std::vector<v1::SenderWithout> without_locked(const ReceiveTask& task);
    static std::vector<v1::RelayOfTask> relays_locked(const ReceiveTask& task);
    // What has come to it, and from whom; under the mutex.
    static std::vector<v1::FlowsFrom> flows_locked(const ReceiveTask& task);

 private:
    static v1::AgentTask describe_locked(const ReceiveTask& task);
    static void describe_placed_locked(const ReceiveTask& task, v1::AgentTask& entry);
    // When a call is answered at the latest that may be held back for so long.
    static Clock::time_point held_until(std::uint32_t wait_ms);
    // Holds a call back until `done`, which `event` announces, or until then; not at all if too many are.
    template <typename Done>
    void hold_back(Lock& lock, CondVar& event, Clock::time_point until, Done done);
    std::shared_ptr<ReceiveTask> find_locked(std::uint64_t instance);
    // What a sender who is at that switch is told, of a task that is open for it.
    static v1::TaskOffer offer_locked(const ReceiveTask& task, const std::string& own_switch);
    static void note_asking_locked(ReceiveTask& task, const Caller& caller, const v1::LookupRequest& request);
    // Of a task with a placement.
    static Result<v1::TaskOffer> offer_placed_locked(ReceiveTask& task, const Caller& caller,
                                                     const v1::LookupRequest& request);
    static void give_back_place_locked(ReceiveTask& task, const Caller& caller, std::uint64_t sender);
    static Result<> admit_relay_locked(const ReceiveTask& task, const Caller& caller,
                                       const v1::JoinRequest& request);
    static Result<> admit_placed_locked(const ReceiveTask& task, const Caller& caller,
                                        const v1::JoinRequest& request);
    v1::Outcome renew_placed(Lock& lock, ReceiveTask& task, const Caller& caller,
                             const v1::RenewRequest& request);
    // Its members, and its relays.
    static bool may_send(const ReceiveTask& task, const Caller& caller, std::string_view token);
    static TaskSender* sender_of(ReceiveTask& task, std::uint64_t sender);
    static TaskSender* sender_of(ReceiveTask& task, const Caller& caller, std::uint64_t sender);
    static bool all_finished_locked(const ReceiveTask& task);
    // Wakes whoever waits for a change of it.
    void touch_locked(StreamHere& here);
    void describe_relayed_locked(const StreamHere& here, v1::AgentStream& entry) const;
    std::shared_ptr<StreamHere> find_stream_locked(const Caller& caller, const std::string& name,
                                                   const std::string& token);
    void forget_old_locked();
    void free_id_locked(const ReceiveTask& task);
    // A place for a new sender, or why there is none.
    static Result<> admit_locked(ReceiveTask& task, const Caller& caller, const v1::JoinRequest& request,
                                 const FlowParams& flow, const std::string& without);
    Result<FlowParams> flow_of(const ReceiveTask& task, const v1::JoinRequest& request) const;
    // Where a flow's packets are aggregated, and what of them comes here is counted; null: nowhere.
    struct FlowSwitch {
        std::shared_ptr<SwitchPort> client;
        std::shared_ptr<TaskArrivals> arrivals;
    };
    static FlowSwitch switch_of(const ReceiveTask& task, const FlowParams& flow);
    // Returns the flow's nonce at its switch.
    Result<std::uint64_t> set_up_flow(const FlowSwitch& at, const FlowParams& flow, Clock::time_point until);
    [[nodiscard]] v1::JoinReply reply_locked(const ReceiveTask& task, const TaskSender& sender) const;
    [[nodiscard]] Error failed_locked(const ReceiveTask& task) const;
    [[nodiscard]] Error not_for(const ReceiveTask& task, const Caller& caller, Error unknown) const;

    const Options options_;
    WorkersPort* const workers_;
    AgentCounters* const counters_;
    Mutex mutex_;
    CondVar changed_;  // a task added, opened or ended, a finished Join, a sender told, or stop
    std::map<std::string, std::shared_ptr<ReceiveTask>> live_;
    std::map<std::uint64_t, std::shared_ptr<ReceiveTask>> by_instance_;
    std::map<std::string, std::shared_ptr<StreamHere>> streams_;
    unsigned waits_ = 0;
    bool stop_ = false;
};

template <typename Done>
void TaskRegistry::hold_back(Lock& lock, CondVar& event, Clock::time_point until, Done done) {
    if (done()) {
        return;
    }
    if (waits_ >= options_.max_waits) {
        counters_->add(AgentCounter::k_refused_waits);
        return;
    }
    ++waits_;
    event.wait_until(lock, until, [&] { return stop_ || done(); });
    --waits_;
}

}  // namespace ask
