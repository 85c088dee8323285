// SPDX-License-Identifier: Apache-2.0
#include "lib/control/relay/relays.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "lib/abi/limits.h"
#include "lib/base/task_id.h"
#include "lib/net/address.h"
#include "lib/net/host_book.h"
#include "lib/rpc/types.h"

namespace ask {
namespace {

constexpr std::size_t kMaxName = 64;
constexpr std::uint32_t kLongestWaitMs = 10'000;

// Of a limit that is 0: whoever takes all that he may leaves others some.
std::uint64_t share(std::uint64_t limit, std::uint64_t all) {
    return limit != 0 ? limit : std::max<std::uint64_t>(all - all / 8, 1);
}

// What is asked for may be any number: a sum of it could be a small one.
bool fits(std::uint64_t used, std::uint64_t more, std::uint64_t limit) {
    return used <= limit && more <= limit - used;
}

std::string mib(std::uint64_t bytes) {
    return std::to_string(bytes >> 20U) + " MiB";
}

std::pair<std::string, std::string> key_of(const v1::OpenRelayRequest& request) {
    return {request.receiver(), request.task_id()};
}

bool has_owner(const Relayed& relayed, const Owner& owner) {
    return holder_of(relayed.order().owner) == holder_of(owner);
}

}  // namespace

Relays::Relays(const RelayLimits& limits, MakeRelaySessions make_sessions)
    : make_sessions_(std::move(make_sessions)), limits_(limits) {}

// Their sessions' ends tell those above and below; all at once, since each waits for its agent.
Relays::~Relays() {
    for (const auto& [key, relayed] : live_) {
        relayed->stop();
    }
}

Result<> Relays::check(const v1::OpenRelayRequest& request) {
    ASK_PASS(check_task_id(request.task_id()));
    ASK_PASS(check_task_id(request.own_task_id()));
    ASK_PASS(check_task_id(request.parent_task_id()));
    ASK_TRY(check_host_port(request.parent()), "parent");
    ASK_TRY(check_host_port(request.receiver()), "receiver");
    ASK_TRY(geometry_from_proto(request.geometry()), "task " + request.task_id());
    ASK_TRY(wire_op(request.op()), "task " + request.task_id());
    if (request.instance() == 0 || request.senders() == 0 || request.senders() > ASK_MAX_SENDERS) {
        return Error(Errc::kInput, "task " + request.task_id() +
                                       ": an instance that is not 0, and from 1 to " +
                                       std::to_string(ASK_MAX_SENDERS) + " senders, not " +
                                       std::to_string(request.senders()));
    }
    // Without them it would join by its own host's tenant, for whoever asks.
    if (request.name().empty() || request.parent_token().empty()) {
        return Error(Errc::kInput,
                     "task " + request.task_id() +
                         ": a relay has a name and shows its parent a token: both must be there");
    }
    // It stands in log lines, errors and reports.
    if (request.name().size() > kMaxName) {
        return Error(Errc::kInput, "task " + request.task_id() + ": a relay's name has at most " +
                                       std::to_string(kMaxName) + " bytes, not " +
                                       std::to_string(request.name().size()));
    }
    if (request.own_token().empty() || request.own_token().size() > ASK_MAX_TOKEN ||
        request.parent_token().size() > ASK_MAX_TOKEN) {
        return Error(Errc::kInput, "task " + request.task_id() + ": a token must have 1 to " +
                                       std::to_string(ASK_MAX_TOKEN) + " bytes");
    }
    if (request.deadline_ms() < ASK_MIN_DEADLINE * 1000U ||
        request.deadline_ms() > ASK_MAX_DEADLINE * 1000U) {
        return Error(Errc::kInput, "task " + request.task_id() +
                                       ": a deadline must be from 1 s to 86400 s, not " +
                                       std::to_string(request.deadline_ms()) + " ms");
    }
    return {};
}

void Relays::each_locked(const std::function<void(const Relayed&)>& visit) const {
    for (const auto& [key, relayed] : live_) {
        visit(*relayed);
    }
    for (const auto& relayed : ending_) {
        visit(*relayed);
    }
}

// Runs of one task take turns: what the largest has is what they have.
Relays::Use Relays::use_locked(const Owner* owner, const RelayTurn* without) const {
    std::map<const RelayTurn*, std::uint64_t> bytes_of;
    each_locked([&](const Relayed& relayed) {
        const RelayTurn* const turn = relayed.order().turn.get();
        if (!relayed.ended() && turn != without && (owner == nullptr || has_owner(relayed, *owner))) {
            std::uint64_t& bytes = bytes_of[turn];
            bytes = std::max(bytes, relayed.order().reserve_bytes);
        }
    });
    Use use{.relays = bytes_of.size()};
    for (const auto& [turn, bytes] : bytes_of) {
        use.bytes += bytes;
    }
    return use;
}

// What runs that are ending keep of it.
std::uint64_t Relays::held_locked(const RelayTurn& turn) const {
    std::uint64_t bytes = 0;
    each_locked([&](const Relayed& relayed) {
        if (!relayed.ended() && relayed.order().turn.get() == &turn) {
            bytes = std::max(bytes, relayed.order().reserve_bytes);
        }
    });
    return bytes;
}

// Else whoever may open a task could have this host call any other.
Result<> Relays::check_parent_locked(const Owner& owner, const v1::OpenRelayRequest& request) {
    const auto parent = read_host_of_control(request.parent());
    ASK_TRY(parent, "task " + request.task_id() + ": its parent");
    const auto holds = [&](const AddressRange& range) { return range.contains(*parent); };
    const bool is_owner = parent->number == owner.host && parent->ipv6 == ipv6_of(owner.host);
    if (is_owner || std::ranges::any_of(limits_.parents, holds)) {
        return {};
    }
    ++counts_.refused_parent;
    return Error(Errc::kDenied, "task " + request.task_id() + ": its parent " + request.parent() +
                                    " is neither its receiver nor one that this relay may send to: add its "
                                    "address to `parents` of ask-relayd");
}

// Each has a thread. One that waits for its turn ends as soon as another replaces it.
Result<> Relays::check_ending_locked(const v1::OpenRelayRequest& request, const RelayTurn& turn) const {
    constexpr std::ptrdiff_t kMost = 2;
    const auto count = std::ranges::count_if(ending_, [&](const std::shared_ptr<Relayed>& relayed) {
        return !relayed->ended() && relayed->order().turn.get() == &turn;
    });
    return count <= kMost ? Result<>()
                          : Error(Errc::kLimit, "task " + request.task_id() + ": " + std::to_string(count) +
                                                    " older runs of it are ending here still: wait for them, "
                                                    "or look whether this relay's agent hangs");
}

// With what runs of the same task have, which this one waits for.
Result<> Relays::check_room_locked(const Owner& owner, std::uint64_t wanted, const RelayTurn& turn) {
    const std::uint64_t bytes = std::max(wanted, held_locked(turn));
    const Use all = use_locked(nullptr, &turn);
    if (all.relays >= limits_.max_relays || !fits(all.bytes, bytes, limits_.memory_bytes)) {
        ++counts_.refused_room;
        return Error(Errc::kLimit, "no room for " + mib(bytes) + " more: " + std::to_string(all.relays) +
                                       " of " + std::to_string(limits_.max_relays) + " tasks and " +
                                       mib(all.bytes) + " of " + mib(limits_.memory_bytes) +
                                       " are reserved (max_relays, memory_mib of ask-relayd)");
    }
    const Use own = use_locked(&owner, &turn);
    const std::uint64_t relays = share(limits_.quota_relays, limits_.max_relays);
    const std::uint64_t memory = share(limits_.quota_memory_bytes, limits_.memory_bytes);
    if (own.relays >= relays || !fits(own.bytes, bytes, memory)) {
        ++counts_.refused_quota;
        return Error(Errc::kLimit, holder_of(owner) + " has " + std::to_string(own.relays) + " of " +
                                       std::to_string(relays) + " tasks and " + mib(own.bytes) + " of " +
                                       mib(memory) + " that it may reserve, and wants " + mib(bytes) +
                                       " more (quota_relays, quota_memory_mib of ask-relayd)");
    }
    return {};
}

// A late repeat of what it was ordered by is none of a newer run.
bool Relays::is_over_locked(std::uint64_t instance) const {
    return over_.contains(instance) ||
           std::ranges::any_of(ending_, [&](const std::shared_ptr<Relayed>& relayed) {
               return relayed->order().request.instance() == instance;
           });
}

// Ends the run that there is. The next one is to have the turn that its task has here.
std::shared_ptr<RelayTurn> Relays::replace_locked(const Key& key) {
    const auto known = live_.find(key);
    if (known != live_.end()) {
        ++counts_.replaced;
        known->second->end(Error(Errc::kAborted, "the task was opened again by its receiver"));
        ending_.push_back(std::move(known->second));
        live_.erase(known);
    }
    const auto before = std::ranges::find_if(ending_, [&](const std::shared_ptr<Relayed>& relayed) {
        return key_of(relayed->order().request) == key;
    });
    return before == ending_.end() ? std::make_shared<RelayTurn>() : (*before)->order().turn;
}

Result<std::shared_ptr<Relayed>> Relays::admit_locked(const Owner& owner,
                                                      const v1::OpenRelayRequest& request) {
    settle_locked();
    const Key key = key_of(request);
    const auto known = live_.find(key);
    if (known != live_.end() && known->second->order().request.instance() == request.instance()) {
        if (!(known->second->order().owner == owner)) {
            return Error(Errc::kExists, "task " + request.task_id() + ": the instance is another's");
        }
        return known->second;
    }
    if (is_over_locked(request.instance())) {
        return Error(Errc::kAborted, "task " + request.task_id() + ": that instance has ended here");
    }
    if (known != live_.end() && !has_owner(*known->second, owner)) {
        return Error(Errc::kExists,
                     "task " + request.task_id() + " of " + request.receiver() + " is another's");
    }
    const auto turn = replace_locked(key);
    ASK_PASS(check_parent_locked(owner, request));
    ASK_PASS(check_ending_locked(request, *turn));
    const std::uint64_t bytes =
        request.reserve_bytes() != 0 ? request.reserve_bytes() : limits_.reserve_bytes;
    ASK_TRY(check_room_locked(owner, bytes, *turn), "task " + request.task_id());
    auto relayed = std::make_shared<Relayed>(
        Relayed::Order{.request = request, .owner = owner, .reserve_bytes = bytes, .turn = turn},
        make_sessions_);
    live_.emplace(key, relayed);
    ++counts_.opened;
    return relayed;
}

Result<v1::OpenRelayReply> Relays::open(const Caller& caller, const v1::OpenRelayRequest& request) {
    ASK_PASS(check(request));
    const auto owner = owner_for(caller, request.receiver());
    ASK_PASS(owner);
    std::shared_ptr<Relayed> relayed;
    {
        const Guard lock(mutex_);
        auto admitted = admit_locked(*owner, request);
        ASK_PASS(admitted);
        relayed = *std::move(admitted);
    }
    const auto wait = std::chrono::milliseconds(std::min(request.wait_ms(), kLongestWaitMs));
    auto opened = relayed->await_open(Clock::now() + wait);
    if (!opened) {
        v1::OpenRelayReply reply;
        reply.set_opening(true);
        return reply;
    }
    return *std::move(opened);
}

void Relays::settle_locked() {
    const auto settle = [this](const std::shared_ptr<Relayed>& relayed) {
        const v1::RelayedTask task = relayed->describe();
        ++(task.state() == "committed" ? counts_.committed : counts_.failed);
        counts_.tuples_out += task.tuples_out();
        counts_.parts += task.parts();
        history_.emplace_front(relayed->order().owner, task);
        over_.insert(task.instance());
        if (history_.size() > kHistory) {
            over_.erase(history_.back().second.instance());
            history_.pop_back();
        }
    };
    for (auto at = live_.begin(); at != live_.end();) {
        const bool ended = at->second->ended();
        if (ended) {
            settle(at->second);
        }
        at = ended ? live_.erase(at) : std::next(at);
    }
    std::erase_if(ending_, [&](const std::shared_ptr<Relayed>& relayed) {
        if (!relayed->ended()) {
            return false;
        }
        settle(relayed);
        return true;
    });
}

void Relays::tick() {
    const Guard lock(mutex_);
    settle_locked();
}

void Relays::set_limits(const RelayLimits& limits) {
    const Guard lock(mutex_);
    limits_.reserve_bytes = limits.reserve_bytes;
    limits_.quota_relays = limits.quota_relays;
    limits_.quota_memory_bytes = limits.quota_memory_bytes;
    limits_.parents = limits.parents;
}

RelayCounts Relays::counts() const {
    const Guard lock(mutex_);
    return counts_;
}

std::uint64_t Relays::reserved_bytes() const {
    const Guard lock(mutex_);
    return use_locked(nullptr).bytes;
}

std::size_t Relays::size() const {
    const Guard lock(mutex_);
    return use_locked(nullptr).relays;
}

v1::RelayStatus Relays::status(const Caller& caller) const {
    v1::RelayStatus status;
    const Guard lock(mutex_);
    const auto may_see = [&](const Owner& owner) {
        return caller.is_local() || may_operate(caller) || owns(caller, owner);
    };
    for (const auto& [key, relayed] : live_) {
        if (may_see(relayed->order().owner)) {
            *status.add_relays() = relayed->describe();
        }
    }
    for (const auto& [owner, task] : history_) {
        if (may_see(owner)) {
            *status.add_relays() = task;
        }
    }
    status.set_memory_bytes(limits_.memory_bytes);
    status.set_reserved_bytes(use_locked(nullptr).bytes);
    status.set_relays_most(limits_.max_relays);
    status.set_uptime_seconds(std::chrono::duration<double>(Clock::now() - started_).count());
    return status;
}

}  // namespace ask
