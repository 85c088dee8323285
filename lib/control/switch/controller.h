// SPDX-License-Identifier: Apache-2.0
//
// The switch controller (ASK section 3.1): who has which channel, task and flow, and what the maps say of it.
//
// The maps are the only lasting state. Every change is made in an order that lets a successor, finding it
// half done, adopt or undo it; what is kept here in memory can be rebuilt from the maps and pins alone, and
// is, at every start.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/abi/map_types.h"
#include "lib/base/result.h"
#include "lib/base/runtime.h"
#include "lib/control/switch/back_pool.h"
#include "lib/control/switch/copy_barrier.h"
#include "lib/control/switch/index_pool.h"
#include "lib/control/switch/lease_clock.h"
#include "lib/control/switch/quota.h"
#include "lib/control/switch/sram.h"
#include "lib/control/switch/store.h"
#include "lib/rpc/owner.h"
#include "lib/tuples/back.h"
#include "lib/tuples/fetch_codec.h"
#include "lib/tuples/types.h"

namespace ask {

struct ControllerLimits {
    std::uint64_t sram_bytes = 0;  // per pipeline
    bool allow_over_budget = false;
    std::uint32_t aggregators = 32768;  // of an AA, at most, where a task does not say
    std::chrono::seconds lease{30};
    std::uint64_t back_bytes = 0;   // of all back levels together
    SwitchUse quota{};              // of one tenant, or host without one
    std::uint64_t packet_rate = 0;  // of its tasks together, a second; 0: no limit
    bool flush_values = false;      // groups opened from now on flush what is sent again, as ATP does
    bool rcu_only = false;  // a swap waits for an RCU grace period; needed where runs on a CPU take turns
};

// What a group's collector wants of the switch for it. Not yet checked.
struct ValuesRequest {
    std::uint32_t size = 0;    // members
    std::uint32_t window = 0;  // seqs of a stream in flight
    std::uint32_t slots = 0;   // 0: the whole pool
    CheckSecret secret{};      // of every flow of the group
    bool direct = false;       // complete chunks go to all members from here
    // Where copies for all go, to each of these and one to each rack, which has a switch of its own that
    // copies on: by number (lib/net/host_book.h). Nothing: no fan is wanted.
    std::vector<std::uint32_t> members{};
    std::vector<std::vector<std::uint32_t>> racks{};
    std::uint64_t want = 0;   // members whose values make a chunk complete here; 0: all
    std::uint64_t below = 0;  // of these, those of whom a switch on the way sends partials
};

// What a receiver's agent wants of the switch for a task. Not yet checked.
struct TaskRequest {
    std::string id;
    std::uint64_t instance = 0;
    Geometry geometry{};
    Op op = Op::kSum;
    std::uint32_t aggregators = 0;  // per AA; 0: by what is free
    bool may_shrink = false;        // fewer will do
    std::uint32_t copies = 0;       // 0: no region
    bool require_region = false;
    std::optional<ask_policy> policy{};  // unset: the switch's choice
    BackWish back{};
    std::uint32_t senders = 0;  // how many flows will join; 0: not known
    std::string receiver{};
    std::uint32_t receiver_address = 0;  // where DATA goes, host order
    // A group's: what is for tuples, from geometry to senders, counts for nothing then.
    std::optional<ValuesRequest> values{};
};

struct TaskGrant {
    std::uint32_t aggregators = 0;  // per AA, both copies; 0: no region
    std::uint32_t copies = 0;
    std::string no_region_reason;  // why, if one was asked for
    ask_policy policy = ASK_POLICY_FIRST_COME;
    std::uint64_t nonce = 0;  // of the region
    std::uint64_t back_bytes = 0;
    std::string no_back_reason;      // why, if one was asked for
    bool opening = false;            // not yet: nothing else is said
    std::uint32_t value_slots = 0;   // of a group
    std::uint32_t window = 0;        // the widest that it can have with them
    bool fan = false;                // the collector's results for all are copied here
    bool direct = false;             // its results go to all members from here
    std::string no_direct_reason{};  // why neither, if it was asked for
};

// What fetching a copy needs. Keeps the memory, whatever becomes of the task meanwhile.
struct FetchSource {
    std::shared_ptr<const RegionView> region;  // null: the task has none
    CopyLayout layout;
    std::array<std::shared_ptr<const BackView>, ASK_BACK_GROUPS> back;  // null: no table of that group
    RegionId of;
    std::uint64_t epoch = 0;
    std::uint64_t swap_word = 0;  // of the task while the copy is this one
};

struct FlowReport {
    ChannelId channel;
    std::uint32_t incarnation = 0;
    std::uint64_t nonce = 0;
    ask_flow_stats stats{};
};

struct ChannelReport {
    ChannelId channel;
    std::uint32_t incarnation = 0;
    std::string port;
};

struct TaskReport {
    std::string id;
    std::uint64_t instance = 0;
    std::uint64_t nonce = 0;
    Geometry geometry;
    Op op = Op::kSum;
    std::uint32_t aggregators = 0;  // per AA, both copies
    std::uint32_t copies = 0;
    ask_policy policy = ASK_POLICY_FIRST_COME;
    std::uint64_t epoch = 0;
    std::uint32_t phase = 0;  // enum ask_swap_phase
    std::string receiver;
    std::uint32_t flows = 0;
    std::uint64_t region_bytes = 0;
    std::uint64_t back_bytes = 0;
    BackSize back_has;  // at least, by now; only where it is asked for by instance
    ask_flow_stats stats{};
    double lease_left_seconds = 0;
    std::uint32_t members = 0;  // of a group; 0: it is none
    std::uint32_t wanted = 0;   // of them, whose values make a chunk complete here
    std::uint32_t value_slots = 0;
    std::uint32_t window = 0;  // of a group's stream
    bool direct = false;       // results go to all members from here
    bool fan = false;          // and so do its collector's
    std::string no_direct_reason{};
    std::array<std::uint64_t, ASK_VALUES_STREAMS> highest{};  // seq of each of its streams
};

// Of an array map.
struct IndexUse {
    std::uint32_t used = 0;
    std::uint32_t retired = 0;  // not used any more, and waiting for a barrier
    bool operator==(const IndexUse&) const = default;
};

struct ControllerReport {
    std::uint64_t swaps = 0;                 // since this daemon started, all tasks
    std::uint64_t swap_grace_periods = 0;    // of those, that waited for an RCU grace period
    std::uint64_t tasks_without_region = 0;  // since this daemon started, that wanted one
    std::uint64_t sram_total_bytes = 0;
    std::uint64_t sram_used_bytes = 0;
    std::uint64_t back_total_bytes = 0;
    std::uint64_t back_used_bytes = 0;
    std::uint64_t back_kept_bytes = 0;  // of tables that no task has, for tasks to come
    std::uint64_t back_tables_kept = 0;
    std::uint64_t back_tables_made = 0;  // since this daemon started
    std::uint64_t back_tables_reused = 0;
    std::uint32_t value_slots = 0;       // of the pool that groups share
    std::uint64_t value_used_bytes = 0;  // of the SRAM, while a group uses it
    std::uint32_t channels_max = 0;
    IndexUse task_indices;
    IndexUse flow_indices;
    std::uint64_t tasks_opened = 0;   // since this daemon started, groups too
    std::uint64_t tasks_expired = 0;  // of them, those that nobody renewed
    ask_flow_stats ended{};           // of flows that have gone, since then
    std::vector<ChannelReport> channels;
    std::vector<TaskReport> tasks;
};

// Thread-safe. Calls may wait for the kernel (tens of milliseconds) and for each other, never longer than
// kPatience.
class Controller {
 public:
    static constexpr std::chrono::seconds kPatience{5};
    static constexpr std::chrono::seconds kOpeningPatience{2};

    // Rebuilds everything from maps and pins. `store` must outlive it.
    static Result<std::unique_ptr<Controller>> create(SwitchStore& store, const ControllerLimits& limits);
    ~Controller();
    Controller(const Controller&) = delete;
    Controller& operator=(const Controller&) = delete;

    [[nodiscard]] Mark mark() const;

    struct Registration {
        std::string port;               // that the host is behind
        std::uint32_t incarnation = 0;  // registered now
    };
    // Channels are for whoever acts for their host; else kDenied. In place of `replaces` (0: of none). If
    // another is registered, changes nothing and returns that one; but `incarnation` itself may be registered
    // already.
    Result<Registration> register_channel(const Caller& caller, const ChannelId& channel,
                                          std::uint32_t incarnation, std::uint32_t replaces);
    // Channels may come in by the ports that routes to their hosts lead through, results of groups by those
    // of their collectors: to be called when routes have changed.
    void follow_routes();
    Result<> unregister_channel(const Caller& caller, const ChannelId& channel, std::uint32_t incarnation);

    // Tasks are their owner's (owner.h). To everybody else one that is open is as one that is not. The first
    // request returns once the task is open, which takes seconds where much memory is to be made; one that
    // repeats it meanwhile hears that after kOpeningPatience.
    Result<TaskGrant> open_task(const Caller& caller, const TaskRequest& request);
    // Returns the flow's nonce. `member`: of a group, whose bit its packets set.
    Result<std::uint64_t> join_flow(const Caller& caller, std::uint64_t instance, const ChannelId& channel,
                                    std::uint32_t incarnation, const CheckSecret& secret,
                                    std::uint32_t member = 0);
    // Restarts the leases; returns instances that are not open.
    std::vector<std::uint64_t> renew(const Caller& caller, std::span<const std::uint64_t> instances);
    // What has been done so far for those of the instances that are open.
    Result<std::vector<TaskReport>> report_tasks(const Caller& caller,
                                                 std::span<const std::uint64_t> instances) const;
    // Fetching a copy: one of the two, read it, end_fetch(). begin_fetch() is for the copy in use, once
    // nobody writes any more, and for operators who look; close_epoch() first makes the other copy the one in
    // use, and ends the back level: what it has is part of each copy, so such a task does that once.
    // kUnsupported: the task is in another epoch. kUnknown: its region was made anew. end_fetch() fails if
    // what was read was not, or not all the time, that epoch's copy.
    Result<FetchSource> begin_fetch(const Caller& caller, const RegionId& region, std::uint64_t epoch);
    Result<FetchSource> close_epoch(const Caller& caller, const RegionId& region, std::uint64_t epoch);
    Result<> end_fetch(const FetchSource& source) const;
    // The receiver has a closed epoch's copy: returns once it is blank.
    Result<> confirm(const Caller& caller, const RegionId& region, std::uint64_t epoch);
    // Returns once whatever was aggregated before the call is counted as well: a program counts last.
    Result<> settle() const;
    Result<std::vector<FlowReport>> flow_reports(std::uint64_t instance) const;
    // Also for operators. Returns once region and indices are given back; waits for a step of a swap that is
    // under way.
    Result<> close_task(const Caller& caller, std::uint64_t instance);
    // For tasks that are opened from now on, and leases that are renewed; budget and barrier stay as they
    // are.
    void change_limits(const ControllerLimits& limits);
    // Closes tasks that nobody renewed, and drops channels that tasks have left. Call at least every second:
    // leases run by these calls (LeaseClock).
    void expire_leases();

    // Tasks of the caller and its tenant, channels of its hosts; of everybody to who may operate the switch.
    Result<ControllerReport> report(const Caller& caller) const;
    // Of everybody: for this process.
    Result<ControllerReport> report() const;
    [[nodiscard]] SramBudget sram() const;
    // Bytes for back levels.
    [[nodiscard]] std::uint64_t back_left() const;
    // One value per enum ask_counter, all CPUs together.
    Result<std::vector<std::uint64_t>> counters() const;

 private:
    using FlowKey = std::pair<std::uint64_t, ChannelId>;

    struct Channel {
        std::uint32_t index = 0;
        std::uint32_t incarnation = 0;
        Owner owner;
        ask_ports ports{};      // as they stand in the map
        LeaseClock::Time used;  // registered, or a flow joined or left
    };
    struct Flow {
        std::uint32_t index = 0;
        std::uint64_t sram = 0;  // bytes taken from the budget
        std::uint32_t incarnation = 0;
        std::uint64_t nonce = 0;
        bool cut = false;  // its channel is gone: what it counted stays until its task closes
    };
    // One copy's, and by which ports it could leave; of a fan that there is, does.
    struct FanTarget {
        std::vector<std::uint32_t> members;  // one, or a rack's
        std::vector<FanPort> ways;
    };
    struct Task {
        enum class State { kOpening, kOpen, kClosing };
        State state = State::kOpening;
        std::string id;  // of its tenant's
        std::string pins;
        std::string receiver;
        Owner owner;
        std::uint32_t index = 0;
        std::uint32_t host = 0;       // the receiver's, entered; 0: not yet
        std::uint64_t nonce = 0;      // of its region
        ask_task entry{};             // as it stands in the map, but for swap and copy
        std::uint64_t sram = 0;       // bytes taken from the budget
        std::uint64_t flows_due = 0;  // declared senders that have not joined yet; none of an adopted task
        std::uint32_t bucket = 0;     // its holder's, whether packets are counted or not
        OwnMapPtr region;
        OwnMapPtr heats;  // if it replaces
        BackBuckets back{};
        std::array<OwnMapPtr, ASK_BACK_GROUPS> back_maps;
        std::array<PooledBackPtr, ASK_BACK_GROUPS> back_pooled;  // while it is opened: in place of new ones
        std::uint64_t back_bytes = 0;                            // taken from the budget
        std::string no_back_reason;
        std::shared_ptr<const RegionView> view;  // mapped at the first fetch
        bool swapping = false;  // a thread without the lock is in the middle of a step of its swap
        std::string no_region_reason;
        std::optional<ask_group> group;  // as it was written; programs count in the map's
        std::vector<FanTarget> fan;      // unknown of one that a predecessor has opened
        std::string no_direct_reason;
        LeaseClock::Time expires;
    };
    // What waits for a barrier.
    struct Garbage {
        std::vector<std::uint32_t> channels;
        std::vector<std::uint32_t> flows;
        std::vector<std::uint64_t> tasks;  // instances of tasks in kClosing
        [[nodiscard]] bool empty() const { return channels.empty() && flows.empty() && tasks.empty(); }
    };

    Controller(SwitchStore& store, const ControllerLimits& limits);

    // Adoption (controller_adopt.cpp).
    Result<> rebuild();
    Result<> adopt_tasks();
    Result<bool> adopt_task_meta(const std::string& pins);
    Result<bool> adopt_task_memory(Task& task) const;
    Result<bool> adopt_own_map(const Task& task, TaskPin pin, const MapPlaces& used, OwnMapPtr& map) const;
    Result<> adopt_channels();
    Result<> adopt_flows();
    Result<> adopt_flow(const ask_flow_id& key);
    Result<> adopt_cut_flows();
    Result<> clear_unused_regions();
    Result<> clear_unused_carried();

    // Hosts with IPv6 (controller_hosts.cpp). Of others nothing is kept.
    Result<> enter_host(std::uint32_t number);
    void leave_host(std::uint32_t number);
    Result<> adopt_hosts() const;
    Result<> clear_unused_hosts() const;

    // Channels and flows (controller_flows.cpp).
    Result<> write_channel(std::uint32_t index, const ChannelId& channel, std::uint32_t incarnation,
                           const ask_ports& ports) const;
    Result<> replace_channel(std::uint32_t index, const ChannelId& channel, std::uint32_t incarnation,
                             const ask_ports& ports);
    void follow_channels();
    Result<> move_channel(const ChannelId& id, Channel& channel, const ask_ports& ports) const;
    // By which ports a host's packets may come in.
    struct Ways {
        std::string usual;
        ask_ports ports{};
    };
    [[nodiscard]] static Result<Ways> ways_of(const SwitchStore& store, std::uint32_t host);
    // Whether a channel may come in by all of them.
    [[nodiscard]] Result<> check_ports(const ask_ports& ports) const;
    [[nodiscard]] static std::string port_names(std::span<const AttachedPort> ports);
    [[nodiscard]] std::vector<AttachedPort> attached(const ask_ports& ports) const;
    Result<> drop_channel(const ChannelId& channel);
    void add_channel(const ChannelId& id, Channel channel);
    Result<> check_room_for_channel(const Owner& owner);
    Result<> check_room_for_flow(const Task& task);
    void add_flow(const FlowKey& key, const Flow& flow);
    Result<> cut_flows_of_channel(const ChannelId& channel);
    Result<> set_cut(std::uint32_t index, bool cut) const;
    Result<> check_has_not_sent(const FlowKey& key) const;
    Result<> drop_flows_of_task(std::uint64_t instance);
    Result<> drop_flow(const FlowKey& key);
    [[nodiscard]] std::set<ChannelId> busy_channels() const;
    void evict_idle_channel();
    void drop_idle_channels();
    Result<std::uint64_t> make_room_to_carry(Lock& lock, std::uint64_t instance, std::uint32_t flow);
    Result<> write_flow(const FlowKey& key, const Flow& flow, ask_flow entry);
    Result<std::optional<std::uint64_t>> find_joined(const Caller& caller, std::uint64_t instance,
                                                     const ChannelId& channel, std::uint32_t incarnation,
                                                     const ask_flow& wanted) const;
    Result<ask_flow_stats> flow_stats(std::uint32_t index) const;

    // Tasks (controller_tasks.cpp).
    struct Plan {
        std::uint32_t aggregators = 0;  // per AA, both copies
        std::uint32_t copies = 0;
        ask_policy policy = ASK_POLICY_FIRST_COME;
        std::string no_region_reason;
    };
    [[nodiscard]] ask_policy choose_policy(const TaskRequest& request) const;
    [[nodiscard]] bool has_room_to_replace(const Owner& owner, const TaskRequest& request,
                                           const Plan& plan) const;
    [[nodiscard]] std::uint64_t sram_to_share(const Owner& owner) const;
    [[nodiscard]] Result<> check_region(const Owner& owner, const TaskRequest& request,
                                        const Plan& plan) const;
    [[nodiscard]] std::uint32_t choose_aggregators(const Owner& owner, const TaskRequest& request,
                                                   ask_policy policy) const;
    Result<Plan> plan_region(const Owner& owner, const TaskRequest& request) const;
    Result<std::optional<TaskGrant>> find_open(Lock& lock, const Caller& caller, const TaskRequest& request);
    [[nodiscard]] const Task* find_own(const Caller& caller, std::uint64_t instance) const;
    Result<> build_task(std::uint64_t instance, Task& task);
    Result<> build_region(Task& task) const;
    Result<> build_heats(Task& task) const;
    Result<> put_in_place(const Task& task) const;
    static std::uint64_t sram_of(const ask_task& entry);
    static std::uint64_t sram_of_flow(const ask_task& entry);
    static TaskGrant grant_of(const Task& task);
    void set_sram(Task& task, std::uint64_t bytes);
    void take_task(Task& task);
    void drop_task(std::uint64_t instance);
    void limit_rate(Task& task) const;
    Result<> limit_rates();

    // Groups (controller_values.cpp).
    // Who a fan would reach, or why there is none.
    struct FanPlan {
        std::vector<FanTarget> targets;
        std::string why_not;
    };
    [[nodiscard]] FanPlan plan_fan(const ValuesRequest& request) const;
    [[nodiscard]] Result<> take_fan(const FanPlan& plan, Task& task);
    [[nodiscard]] Result<> keep_to_others(FanTarget& target) const;
    [[nodiscard]] Result<std::vector<FanPort>> choose_fan_ports(const FanPlan& plan) const;
    [[nodiscard]] Result<> write_fan_members(const std::vector<FanPort>& ports, const Task& task) const;
    Result<> move_group(Task& task, const ask_ports& above) const;
    void follow_fans();
    [[nodiscard]] bool leads_elsewhere(const FanTarget& target) const;
    Result<> move_fan(std::uint64_t instance, FanPlan plan);
    static void settle_fan(FanPlan plan, const std::vector<FanPort>& ports, Task& task);
    [[nodiscard]] static std::vector<std::uint32_t> fan_ports_of(const Task& task);
    [[nodiscard]] Result<> check_fan_quota(const Task& task) const;
    [[nodiscard]] bool has_fans() const;
    void give_back_fan(Task& task);
    Result<> clear_fan_members() const;
    Result<TaskGrant> open_group(Lock& lock, const TaskRequest& request, const FanPlan& plan, Task& task);
    Result<> check_group(const TaskRequest& request) const;
    [[nodiscard]] static bool same_levels(const std::optional<ask_group>& group, const TaskRequest& request);
    [[nodiscard]] std::uint32_t choose_slots(const ValuesRequest& request) const;
    Result<> build_group(const Task& task, const Flow& results, const CheckSecret& secret) const;
    Result<> check_member(const Task& task, const ask_flow& wanted) const;
    Result<> end_group(const Task& task) const;
    Result<bool> adopt_group(Task& task);
    Result<> erase_group(std::uint32_t index) const;
    Result<bool> adopt_result_flow(const ask_flow_id& key, std::uint32_t index);
    void charge_pool();
    Result<> report_group(const Task& task, TaskReport& out) const;
    Result<> pin_meta(std::uint64_t instance, const Task& task) const;

    // Back levels (controller_back.cpp).
    struct BackPlan {
        BackBuckets buckets{};
        std::string no_back_reason{};  // if one was asked for
    };
    [[nodiscard]] BackPlan plan_back(const Owner& owner, const TaskRequest& request) const;
    void set_back_bytes(Task& task, std::uint64_t bytes);
    Result<> build_back(Task& task);
    Result<OwnMapPtr> make_back(Task& task, unsigned group);
    Result<bool> adopt_back(Task& task) const;
    Result<> view_back(const Task& task, FetchSource& source) const;
    [[nodiscard]] BackSize least_back_of(const Task& task) const;
    Result<> erase_back(std::uint32_t index) const;

    // Tables that are kept (controller_pool.cpp).
    void take_pooled(Task& task);
    void keep_back(Task& task);
    void trim_pool();
    bool drop_pooled();
    [[nodiscard]] OwnMapPtr claim_pooled(const PooledBackPtr& table);
    void blank_loop();
    void blank_pooled(const PooledBackPtr& table);

    Result<> begin_close(std::uint64_t instance, Task& task);
    void retire_task(std::uint64_t instance, Task& task);

    // Swaps (controller_swap.cpp).
    [[nodiscard]] std::uint64_t load_swap(const Task& task) const;
    void store_swap(const Task& task, std::uint64_t word) const;
    void flip(const Task& task, std::uint64_t epoch) const;
    enum class Whose : std::uint8_t { kOwn, kAnybodysForOperators };
    Result<Task*> find_settled(Lock& lock, const Caller& caller, const RegionId& region,
                               Whose whose = Whose::kOwn);
    void end_step(Task& task);
    Result<> map_region(Task& task) const;
    Result<FetchSource> source_of(Task& task, std::uint64_t epoch) const;
    void blank(const Task& task, std::uint64_t epoch) const;
    void adopt_flips();
    Result<> adopt_swaps();

    // Waits until `done` or kPatience; false: not done.
    template <typename F>
    bool wait_settled(Lock& lock, F done) {
        return settled_.wait_for(lock, kPatience, done);
    }
    // An index, waiting for the reclaimer if all that could be had are on their way back.
    std::optional<std::uint32_t> take(Lock& lock, IndexPool& pool);

    [[nodiscard]] LeaseClock::Time lease_now() const { return lease_clock_.now(Clock::now()); }
    Result<ControllerReport> report_seen(const Caller* caller) const;
    Result<TaskReport> report_task(std::uint64_t instance, const Task& task) const;

    // The reclaimer's thread (controller.cpp).
    void reclaim_loop();
    Result<> erase_flow(std::uint32_t index) const;
    Result<> erase_task(std::uint32_t index) const;
    struct Remains {
        std::string tenant;
        std::string id;
        std::string pins;
        std::uint32_t index = 0;
    };
    Result<> reclaim(const Garbage& batch, const std::vector<Remains>& tasks) const;
    void finish_reclaim(const Garbage& batch);

    SwitchStore& store_;
    ControllerLimits limits_;  // guarded by mutex_, but for sram_bytes and rcu_only, which stay
    CopyBarrier copy_barrier_;

    mutable Mutex mutex_;  // everything below
    CondVar settled_;      // a task opened or closed, or indices came back
    CondVar work_;         // garbage_ or stopping_ changed
    IndexPool channel_pool_;
    IndexPool flow_pool_;
    IndexPool task_pool_;
    IndexPool fan_pool_{ASK_MAX_FANS};
    SramBudget sram_;
    std::uint64_t value_bytes_ = 0;  // of the pool of slots, taken from the budget while a group uses it
    std::uint64_t back_used_ = 0;
    BackPool back_pool_;
    PooledBackPtr blanking_;  // by blanker_
    std::uint64_t back_made_ = 0;
    std::uint64_t back_reused_ = 0;
    Quotas quotas_;
    Buckets buckets_;
    std::map<std::uint32_t, std::uint32_t> host_users_;  // channels and tasks, by their host's number
    std::map<ChannelId, Channel> channels_;
    std::map<FlowKey, Flow> flows_;
    LeaseClock lease_clock_;
    std::map<std::uint64_t, Task> tasks_;
    Garbage garbage_;
    std::uint64_t swaps_ = 0;
    std::uint64_t tasks_without_region_ = 0;
    std::uint64_t tasks_opened_ = 0;
    std::uint64_t tasks_expired_ = 0;
    ask_flow_stats ended_{};  // of flows that were dropped
    bool stopping_ = false;
    CondVar blank_work_;  // back_pool_ or stopping_ changed
    Thread reclaimer_;
    Thread blanker_;
};

}  // namespace ask
