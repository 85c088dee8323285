// SPDX-License-Identifier: Apache-2.0
#include "lib/control/group/registry.h"

#include <algorithm>
#include <utility>

#include "lib/control/member/convert.h"
#include "lib/control/member/patience.h"
#include "lib/net/address.h"

namespace ask {
namespace {

// Less than a call may take.
constexpr milliseconds kLongestGroupHold{2000};

Error named(const std::string& id, Errc code, const std::string& what) {
    return {code, "group " + id + ": " + what};
}

std::string proved_member(const Caller& caller, const std::string& claimed) {
    const bool is_its = std::ranges::find(caller.names, claimed) != caller.names.end();
    return clean_name((is_its || caller.names.empty() ? claimed : caller.names.front()) + " (" +
                      caller.address + ")");
}

milliseconds held_back(std::uint32_t wait_ms) {
    return std::min(milliseconds(wait_ms), kLongestGroupHold);
}

}  // namespace

GroupRegistry::Group* GroupRegistry::find_id(const std::string& id) {
    const auto at = std::ranges::find_if(
        groups_, [&](const auto& item) { return item.second.terms.id == id && !item.second.closed; });
    return at == groups_.end() ? nullptr : &at->second;
}

GroupRegistry::Group* GroupRegistry::find(std::uint64_t instance) {
    const auto at = groups_.find(instance);
    return at == groups_.end() ? nullptr : &at->second;
}

GroupRegistry::Seat* GroupRegistry::seat_of(Group& group, std::uint64_t member) {
    const auto at =
        std::ranges::find_if(group.seats, [&](const auto& seat) { return seat && seat->member == member; });
    return at == group.seats.end() ? nullptr : &**at;
}

std::string GroupRegistry::missing(const std::vector<std::optional<Seat>>& seats) {
    std::string text;
    std::size_t count = 0;
    for (std::size_t rank = 0; rank < seats.size(); ++rank) {
        if (!seats[rank]) {
            text += (count++ == 0 ? "" : ", ") + std::to_string(rank);
        }
    }
    return count == 0 ? "" : (count == 1 ? "rank " : "ranks ") + text;
}

Result<> GroupRegistry::open(Terms terms) {
    const Guard lock(mutex_);
    if (const Group* const other = find_id(terms.id)) {
        return other->ending || other->error
                   ? named(terms.id, Errc::kUnavailable, "members of the last one have not left yet")
                   : named(terms.id, Errc::kExists,
                           "this host has a group of that id: choose another, or wait until it ends");
    }
    Group group;
    group.seats.resize(terms.size);
    const std::uint64_t instance = terms.instance;
    group.terms = std::move(terms);
    groups_.emplace(instance, std::move(group));
    return {};
}

Result<> GroupRegistry::take_seat(Group& group, std::uint32_t rank, Seat seat) const {
    const std::string& id = group.terms.id;
    if (rank >= group.seats.size()) {
        return named(id, Errc::kInput,
                     "rank " + std::to_string(rank) + " of a size of " + std::to_string(group.seats.size()));
    }
    std::optional<Seat>& taken = group.seats[rank];
    if (taken && taken->member != seat.member) {
        return named(id, Errc::kExists,
                     "rank " + std::to_string(rank) + " is taken by " + taken->name +
                         ": give each member a rank of its own");
    }
    for (std::size_t other = 0; other < group.seats.size(); ++other) {
        const auto& there = group.seats[other];
        if (there && other != rank && there->channel.host == seat.channel.host) {
            return named(id, Errc::kUnsupported,
                         seat.name + " has rank " + std::to_string(other) +
                             " already: a host has one member of a group");
        }
    }
    if (group.ready && (!taken || taken->channel != seat.channel || taken->incarnation != seat.incarnation)) {
        return named(id, Errc::kExists, "its members have all joined");
    }
    taken = std::move(seat);
    return {};
}

Result<> GroupRegistry::seat(std::uint64_t instance, std::uint32_t rank, Seat seat) {
    const Guard lock(mutex_);
    seat.own = true;
    Group* const group = find(instance);
    return group == nullptr ? Error(Errc::kUnknown, "no such group")
                            : take_seat(*group, rank, std::move(seat));
}

std::vector<std::optional<GroupRegistry::Seat>> GroupRegistry::seats(std::uint64_t instance) const {
    const Guard lock(mutex_);
    const auto at = groups_.find(instance);
    return at == groups_.end() ? std::vector<std::optional<Seat>>() : at->second.seats;
}

Result<> GroupRegistry::publish(std::uint64_t instance, const v1::JoinGroupReply& reply) {
    {
        const Guard lock(mutex_);
        Group* const group = find(instance);
        if (group == nullptr) {
            return Error(Errc::kUnknown, "no such group");
        }
        for (std::size_t rank = 0; rank < group->seats.size(); ++rank) {
            const v1::GroupMember& told = reply.members(static_cast<int>(rank));
            const auto channel = channel_from_proto(told.channel());
            const auto& seat = group->seats[rank];
            if (!seat || !channel || seat->channel != *channel || seat->incarnation != told.incarnation()) {
                return named(
                    group->terms.id, Errc::kAborted,
                    "rank " + std::to_string(rank) + ", " + told.name() + ", left it before it began");
            }
        }
        group->ready = reply;
        for (auto& seat : group->seats) {
            seat->heard = Clock::now();
        }
    }
    changed_.notify_all();
    return {};
}

void GroupRegistry::register_again(std::uint64_t instance, std::uint32_t rank, const Mark& registered) {
    {
        const Guard lock(mutex_);
        if (Group* const group = find(instance)) {
            group->seats[rank]->registered = registered;
            ++group->registration;
        }
    }
    changed_.notify_all();
}

void GroupRegistry::wake(const Group& group) {
    if (group.terms.mailbox) {
        group.terms.mailbox->post(SessionEvent::Kind::kChanged);
    }
}

void GroupRegistry::fail_locked(Group& group, const Error& error) {
    if (!group.error && !group.closed) {
        group.error = error;
        wake(group);
    }
}

std::optional<Error> GroupRegistry::check(std::uint64_t instance) {
    std::optional<Error> error;
    {
        const Guard lock(mutex_);
        Group* const group = find(instance);
        if (group == nullptr) {
            return std::nullopt;
        }
        for (std::size_t rank = 0; group->ready && rank < group->seats.size(); ++rank) {
            const Seat& seat = *group->seats[rank];
            if (!seat.left && !seat.own && seat.heard + group->terms.lease < Clock::now()) {
                fail_locked(
                    *group,
                    named(group->terms.id, Errc::kAborted,
                          "rank " + std::to_string(rank) + ", " + seat.name + ", has been silent for " +
                              seconds_text(std::chrono::duration_cast<milliseconds>(group->terms.lease))));
            }
        }
        error = group->error;
    }
    changed_.notify_all();
    return error;
}

void GroupRegistry::fail(std::uint64_t instance, const Error& error) {
    {
        const Guard lock(mutex_);
        if (Group* const group = find(instance)) {
            fail_locked(*group, error);
        }
    }
    changed_.notify_all();
}

bool GroupRegistry::finish(std::uint64_t instance, std::uint32_t rank) {
    {
        const Guard lock(mutex_);
        if (Group* const group = find(instance)) {
            group->seats[rank]->left = true;
            group->ending = true;
        }
    }
    changed_.notify_all();
    return all_left(instance);
}

bool GroupRegistry::all_left(std::uint64_t instance) const {
    const Guard lock(mutex_);
    const auto at = groups_.find(instance);
    return at == groups_.end() ||
           std::ranges::all_of(at->second.seats, [](const auto& seat) { return seat && seat->left; });
}

void GroupRegistry::close(std::uint64_t instance) {
    {
        const Guard lock(mutex_);
        Group* const group = find(instance);
        if (group == nullptr || group->closed) {
            return;
        }
        group->closed = true;
        group->terms.mailbox.reset();
        closed_.push_back(instance);
        if (closed_.size() > kRemembered) {
            groups_.erase(closed_.front());
            closed_.pop_front();
        }
    }
    changed_.notify_all();
}

Result<v1::JoinGroupReply> GroupRegistry::join(const Caller& caller, const v1::JoinGroupRequest& request) {
    ASK_PASS(check_wire_version(request.wire_version(), "your agent"));
    const auto channel = channel_from_proto(request.channel());
    ASK_TRY(channel, "join");
    const auto mark = mark_from_proto(request.registered());
    ASK_TRY(mark, "join");
    if (!acts_for(caller, channel->host)) {
        return Error(Errc::kDenied, "join: the channel is of " + format_ipv4(channel->host) +
                                        ", which is not for " + describe(caller) + " to join with");
    }
    const auto until = Clock::now() + held_back(request.wait_ms());
    Lock lock(mutex_);
    Group* group = find_id(request.group());
    // Who has no seat in one that has failed wants the next of that id.
    const bool over =
        group != nullptr && (group->ending || (group->error && seat_of(*group, request.member()) == nullptr));
    if (group == nullptr || over || !may_know(group->terms.members, caller, request.token())) {
        return Error(Errc::kUnknown, "no group " + clean_name(request.group()) + " is open here");
    }
    const std::string& id = group->terms.id;
    if (!may_join(group->terms.members, caller, request.token())) {
        return named(id, Errc::kDenied, describe(caller) + " may not join: it wants the group's token");
    }
    const Seat seat{.member = request.member(),
                    .name = proved_member(caller, request.member_name()),
                    .channel = *channel,
                    .incarnation = request.incarnation(),
                    .registered = *mark,
                    .payload_limit = request.payload_limit(),
                    .heard = Clock::now()};
    if (request.size() != group->seats.size()) {
        return named(id, Errc::kInput,
                     seat.name + " joins a group of " + std::to_string(request.size()) +
                         ", and the root has one of " + std::to_string(group->seats.size()));
    }
    ASK_PASS(take_seat(*group, request.rank(), seat));
    wake(*group);
    const std::uint64_t instance = group->terms.instance;
    const auto settled = [&] {
        group = find(instance);
        return group == nullptr || group->ready || group->error || group->closed;
    };
    changed_.wait_until(lock, until, settled);
    if (group == nullptr || group->closed || group->error) {
        return group != nullptr && group->error ? *group->error
                                                : Error(Errc::kAborted, "the group has ended");
    }
    if (group->ready) {
        return *group->ready;
    }
    v1::JoinGroupReply waiting;
    waiting.set_waiting(true);
    waiting.set_missing(missing(group->seats));
    waiting.set_wire_version(ASK_WIRE_VERSION);
    return waiting;
}

Result<v1::GroupOutcome> GroupRegistry::renew(const Caller& caller, const v1::RenewGroupRequest& request) {
    const auto until = Clock::now() + held_back(request.wait_ms());
    v1::GroupOutcome outcome;
    Lock lock(mutex_);
    Group* group = find(request.instance());
    Seat* seat = group == nullptr ? nullptr : seat_of(*group, request.member());
    if (seat == nullptr || !acts_for(caller, seat->channel.host)) {
        outcome.set_state(v1::GroupOutcome::STATE_UNKNOWN);
        return outcome;
    }
    seat->heard = Clock::now();
    if (const auto mark = mark_from_proto(request.registered()); mark.ok()) {
        seat->registered = *mark;
    }
    const auto over = [&] {
        group = find(request.instance());
        return group == nullptr || group->error || group->closed ||
               group->registration != request.registration();
    };
    changed_.wait_until(lock, until, over);
    if (group == nullptr) {
        outcome.set_state(v1::GroupOutcome::STATE_UNKNOWN);
    } else if (group->error) {
        outcome.set_state(v1::GroupOutcome::STATE_FAILED);
        outcome.set_code(static_cast<std::int32_t>(group->error->code()));
        outcome.set_error(group->error->text());
    } else {
        outcome.set_state(group->closed ? v1::GroupOutcome::STATE_LEFT : v1::GroupOutcome::STATE_RUNNING);
        outcome.set_registration(group->registration);
        if (Seat* const still = seat_of(*group, request.member())) {
            still->heard = Clock::now();
        }
    }
    return outcome;
}

Result<> GroupRegistry::leave(const Caller& caller, const v1::LeaveGroupRequest& request) {
    {
        const Guard lock(mutex_);
        // Who gives up before all have joined does not know the instance.
        const auto at = std::ranges::find_if(
            groups_, [&](auto& item) { return seat_of(item.second, request.member()) != nullptr; });
        Group* const group = at == groups_.end() ? nullptr : &at->second;
        Seat* const seat = group == nullptr ? nullptr : seat_of(*group, request.member());
        if (seat == nullptr || !acts_for(caller, seat->channel.host)) {
            return {};
        }
        if (request.finished()) {
            seat->left = true;
            wake(*group);
        } else if (group->ready) {
            fail_locked(*group, named(group->terms.id, errc_from_number(request.code(), Errc::kAborted),
                                      seat->name + " has left it: " + clean_text(request.reason())));
        } else {
            // Its place is free again: it never had a part.
            *std::ranges::find_if(group->seats, [&](const auto& one) {
                return one && one->member == request.member();
            }) = std::nullopt;
        }
    }
    changed_.notify_all();
    return {};
}

}  // namespace ask
