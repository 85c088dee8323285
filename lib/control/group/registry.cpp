// SPDX-License-Identifier: Apache-2.0
#include "lib/control/group/registry.h"

#include <algorithm>
#include <utility>

#include "lib/control/member/convert.h"
#include "lib/control/member/patience.h"
#include "lib/net/host_book.h"

namespace ask {
namespace {

// A member's agent answers at once; beyond this it is as good as dead.
constexpr std::chrono::seconds kStepPatience{2};
// Of all steps together: results that some lack come from others meanwhile.
constexpr std::chrono::seconds kSettlePatience{12};
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

std::uint64_t bit_of(std::size_t rank) {
    return std::uint64_t{1} << rank;
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

const GroupRegistry::Group* GroupRegistry::find(std::uint64_t instance) const {
    const auto at = groups_.find(instance);
    return at == groups_.end() ? nullptr : &at->second;
}

GroupRegistry::Seat* GroupRegistry::seat_of(Group& group, std::uint64_t member) {
    const auto at =
        std::ranges::find_if(group.seats, [&](const auto& seat) { return seat && seat->member == member; });
    return at == group.seats.end() ? nullptr : &**at;
}

std::string GroupRegistry::missing(std::uint64_t instance) const {
    const Guard lock(mutex_);
    const Group* const group = find(instance);
    return group == nullptr ? "" : missing_in(*group);
}

std::string GroupRegistry::missing_in(const Group& group) const {
    const std::uint64_t not_waited_for = group.is_closed_to_others ? ~std::uint64_t{0} : excluded(group);
    std::string text;
    std::size_t count = 0;
    for (std::size_t rank = 0; rank < group.seats.size(); ++rank) {
        const bool there = group.seats[rank] && is_placed(group, *group.seats[rank]);
        if (!there && (not_waited_for & bit_of(rank)) == 0) {
            text += (count++ == 0 ? "" : ", ") + std::to_string(rank);
        }
    }
    return count == 0 ? "" : (count == 1 ? "rank " : "ranks ") + text;
}

// Whether all is known that says which switches add for it: a member that passes another switch first has
// been told of the root's.
bool GroupRegistry::is_placed(const Group& group, const Seat& seat) {
    const Mark& last = group.terms.last_mark;
    return last.switch_id == 0 || seat.own || seat.registered.switch_id == last.switch_id ||
           seat.registered_last.switch_id != 0 || !seat.last_trouble.empty();
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
    if (terms.shrink_of != 0) {
        ASK_PASS(take_over(terms, group));
    }
    group.terms = std::move(terms);
    groups_.emplace(instance, std::move(group));
    return {};
}

// What survivors take over of the group that they were in. One of them coordinates, and it does so once.
Result<> GroupRegistry::take_over(const Terms& terms, Group& group) {
    Group* const former = find(terms.shrink_of);
    if (former == nullptr) {
        return named(terms.id, Errc::kUnknown,
                     "its agent does not know the group that is to shrink any more: open one anew");
    }
    if (!former->error || former->seats.size() != terms.size) {
        return named(terms.id, Errc::kUsage, "a group shrinks once it has failed, to its own members");
    }
    if (!former->is_settled) {
        return named(
            terms.id, Errc::kAborted,
            "it cannot shrink, since its members may have different operations: " + former->error->text());
    }
    if (const Group* const next = former->next == 0 ? nullptr : find(former->next);
        next != nullptr && next->ready) {
        return named(terms.id, Errc::kExists, "its survivors have gone on already");
    }
    former->next = terms.instance;
    group.generation = former->generation + 1;
    return {};
}

// Former ranks that nobody waits for.
std::uint64_t GroupRegistry::excluded(const Group& group) const {
    const Group* const former = group.terms.shrink_of == 0 ? nullptr : find(group.terms.shrink_of);
    std::uint64_t all = 0;
    for (std::size_t rank = 0; former != nullptr && rank < former->seats.size(); ++rank) {
        all |= former->seats[rank]->dead || former->seats[rank]->left ? bit_of(rank) : 0;
    }
    return all;
}

// Whether it is who had this rank, and has what the others have.
Result<> GroupRegistry::check_survivor(std::uint64_t former, std::uint32_t rank, std::uint32_t host,
                                       std::uint64_t operations) {
    const Group* const group = find(former);
    if (group == nullptr || rank >= group->seats.size()) {
        return Error(Errc::kUnknown, "the group that is to shrink is forgotten: open one anew");
    }
    const std::string& id = group->terms.id;
    const Seat& seat = *group->seats[rank];
    if (seat.channel.host != host) {
        return named(id, Errc::kDenied, "rank " + std::to_string(rank) + " was " + seat.name);
    }
    if (seat.dead || seat.left) {
        return named(id, Errc::kAborted,
                     "rank " + std::to_string(rank) + ", " + seat.name +
                         (seat.left ? ", had left it" : ", was given up, and the others go on without it"));
    }
    if (operations != group->operations) {
        return named(id, Errc::kInput,
                     "rank " + std::to_string(rank) + ", " + seat.name + ", has " +
                         std::to_string(operations) + " operations, and the others have " +
                         std::to_string(group->operations));
    }
    return {};
}

void GroupRegistry::close_ranks(std::uint64_t instance) {
    const Guard lock(mutex_);
    if (Group* const group = find(instance)) {
        std::erase_if(group->seats, [](const auto& seat) { return !seat; });
        group->is_closed_to_others = true;
    }
}

std::uint32_t GroupRegistry::generation_after(std::uint64_t instance) const {
    const Guard lock(mutex_);
    const Group* const group = find(instance);
    return group == nullptr ? 0 : group->generation + 1;
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
    if (group.ready) {
        // A repeat; what is known of it stays.
        return taken && taken->channel == seat.channel && taken->incarnation == seat.incarnation
                   ? Result<>()
                   : named(id, Errc::kExists, "its members have all joined");
    }
    taken = std::move(seat);
    return {};
}

// A repeat changes nothing once ranks are final.
Result<> GroupRegistry::join_seat(Group& group, std::uint32_t rank, Seat seat) const {
    if (group.is_closed_to_others && seat_of(group, seat.member) != nullptr) {
        return {};
    }
    if (group.is_closed_to_others && group.terms.shrink_of != 0) {
        return named(group.terms.id, Errc::kAborted,
                     seat.name + " did not come in time, and the others have gone on without it");
    }
    return take_seat(group, rank, std::move(seat));
}

// Why the group has failed in which this member waited for others.
const Error* GroupRegistry::end_of(const v1::JoinGroupRequest& request) {
    const auto at = std::ranges::find_if(groups_, [&](auto& item) {
        return item.second.closed && item.second.error && !item.second.ready &&
               item.second.terms.id == request.group() && seat_of(item.second, request.member()) != nullptr;
    });
    return at == groups_.end() ? nullptr : &*at->second.error;
}

// Whether it is a member of what the group may grow to: it may come before the group of today is complete.
bool GroupRegistry::waits_for_growth(const Group& group, const v1::JoinGroupRequest& request) {
    return request.size() > group.terms.size && request.rank() >= group.terms.size;
}

// Of who looks for another generation of it than is open, or for one that is none.
Error GroupRegistry::not_open(const Group* group, const v1::JoinGroupRequest& request) const {
    const std::string id = clean_name(request.group());
    const Group* const former = request.shrink_of() == 0 ? nullptr : find(request.shrink_of());
    if (request.shrink_of() != 0 && former == nullptr) {
        return named(id, Errc::kAborted,
                     "its root's agent does not know the group that is to shrink any more: open one anew");
    }
    if (former != nullptr && former->error && !former->is_settled) {
        return named(
            id, Errc::kAborted,
            "it cannot shrink, since its members may have different operations: " + former->error->text());
    }
    const Group* const next = former == nullptr || former->next == 0 ? nullptr : find(former->next);
    if (next != nullptr && next->ready) {
        return named(id, Errc::kAborted, "its survivors have gone on already, without this one");
    }
    if (former == nullptr && group != nullptr && waits_for_growth(*group, request)) {
        return named(id, Errc::kUnknown,
                     "is one of " + std::to_string(group->seats.size()) + " members and has not grown to " +
                         std::to_string(request.size()) + " yet");
    }
    return {Errc::kUnknown, "no group " + id + " is open here"};
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
        if (static_cast<std::size_t>(reply.members_size()) != group->seats.size()) {
            return named(group->terms.id, Errc::kInternal, "its reply is for another number of members");
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

void GroupRegistry::register_again(std::uint64_t instance) {
    {
        const Guard lock(mutex_);
        if (Group* const group = find(instance)) {
            ++group->registration;
        }
    }
    changed_.notify_all();
}

void GroupRegistry::note_registered(std::uint64_t instance, std::uint32_t rank, const Mark& registered) {
    const Guard lock(mutex_);
    if (Group* const group = find(instance)) {
        group->seats[rank]->registered = registered;
    }
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

// A death is noted also when the group has failed already: survivors do not wait for it.
void GroupRegistry::lose_member(Group& group, Seat& seat, const Error& error) {
    if (seat.dead) {
        return;
    }
    seat.dead = true;
    if (group.cause) {
        next_step(group, 0);
    } else {
        begin_settling(group, error);
    }
}

void GroupRegistry::begin_settling(Group& group, const Error& error) {
    if (group.error || group.closed || group.cause) {
        return;
    }
    group.cause = error;
    group.settle_until = Clock::now() + kSettlePatience;
    next_step(group, 0);
}

void GroupRegistry::next_step(Group& group, std::uint64_t last) {
    if (group.error) {
        return;
    }
    ++group.settling.step;
    group.settling.last = last;
    group.settling.dead = 0;
    group.step_until = last == 0 ? Clock::now() + kStepPatience : group.settle_until;
    for (std::size_t rank = 0; rank < group.seats.size(); ++rank) {
        group.seats[rank]->settled = false;
        group.settling.dead |= group.seats[rank]->dead ? bit_of(rank) : 0;
    }
    wake(group);
}

void GroupRegistry::note_settled(Group& group, Seat& seat, std::uint32_t step, std::uint64_t operations) {
    seat.operations = operations;
    if (group.cause && !group.error && step == group.settling.step) {
        seat.settled = operations >= group.settling.last;
        go_on_settling(group);
    }
}

// Once all have answered: where they stopped, or that they have what one of them had.
void GroupRegistry::go_on_settling(Group& group) {
    std::uint64_t most = 0;
    bool all_alike = true;
    const Seat* first = nullptr;
    for (const auto& seat : group.seats) {
        if (seat->dead) {
            continue;
        }
        if (!seat->settled) {
            return;
        }
        first = first == nullptr ? &*seat : first;
        all_alike = all_alike && seat->operations == first->operations;
        most = std::max(most, seat->operations);
    }
    if (!all_alike) {
        next_step(group, most);
        return;
    }
    group.is_settled = true;
    group.operations = most;
    fail_locked(group, *group.cause);
}

// Who does not answer is dead; what does not end in time fails as it is.
void GroupRegistry::check_settling(Group& group) {
    if (!group.cause || group.error) {
        return;
    }
    if (Clock::now() >= group.settle_until) {
        fail_locked(group, *group.cause);
        return;
    }
    if (Clock::now() < group.step_until) {
        return;
    }
    bool any = false;
    for (auto& seat : group.seats) {
        if (!seat->dead && !seat->settled && !seat->own) {
            seat->dead = any = true;
        }
    }
    if (any) {
        next_step(group, 0);
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
        check_silent(*group);
        check_settling(*group);
        error = group->error;
    }
    changed_.notify_all();
    return error;
}

void GroupRegistry::check_silent(Group& group) {
    for (std::size_t rank = 0; group.ready && rank < group.seats.size(); ++rank) {
        Seat& seat = *group.seats[rank];
        const bool may_go = seat.own || (seat.left && !group.cause);
        if (!may_go && seat.heard + group.terms.lease < Clock::now()) {
            lose_member(group, seat,
                        named(group.terms.id, Errc::kAborted,
                              "rank " + std::to_string(rank) + ", " + seat.name + ", has been silent for " +
                                  seconds_text(std::chrono::duration_cast<milliseconds>(group.terms.lease))));
        }
    }
}

void GroupRegistry::note_trouble(std::uint64_t instance, const std::string& text) {
    const Guard lock(mutex_);
    if (Group* const group = find(instance)) {
        group->trouble = text;
    }
}

void GroupRegistry::complain(std::uint64_t instance, const Error& error) {
    {
        const Guard lock(mutex_);
        if (Group* const group = find(instance)) {
            begin_settling(*group, error);
        }
    }
    changed_.notify_all();
}

GroupRegistry::Settling GroupRegistry::settling(std::uint64_t instance) const {
    const Guard lock(mutex_);
    const Group* const group = find(instance);
    return group == nullptr ? Settling() : group->settling;
}

void GroupRegistry::settle(std::uint64_t instance, std::uint32_t rank, std::uint32_t step,
                           std::uint64_t operations) {
    {
        const Guard lock(mutex_);
        if (Group* const group = find(instance)) {
            note_settled(*group, *group->seats[rank], step, operations);
        }
    }
    changed_.notify_all();
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
           (!at->second.cause &&
            std::ranges::all_of(at->second.seats, [](const auto& seat) { return seat && seat->left; }));
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
    const auto last = mark_from_proto(request.registered_last());
    ASK_TRY(last, "join");
    if (!acts_for(caller, channel->host)) {
        return Error(Errc::kDenied, "join: the channel is of " + format_host(channel->host) +
                                        ", which is not for " + describe(caller) + " to join with");
    }
    const auto until = Clock::now() + held_back(request.wait_ms());
    Lock lock(mutex_);
    Group* group = find_id(request.group());
    // It may have ended between two calls of one that waits.
    if (const Error* const why = group == nullptr ? end_of(request) : nullptr) {
        return *why;
    }
    // Who has no seat in one that has failed wants the next of that id.
    const bool over =
        group != nullptr && (group->ending || (group->error && seat_of(*group, request.member()) == nullptr));
    if (group != nullptr && !may_know(group->terms.members, caller, request.token())) {
        return Error(Errc::kUnknown, "no group " + clean_name(request.group()) + " is open here");
    }
    if (group == nullptr || over || request.shrink_of() != group->terms.shrink_of ||
        waits_for_growth(*group, request)) {
        return not_open(group, request);
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
                    .switch_address = clean_text(request.switch_address()),
                    .registered_last = *last,
                    .last_trouble = clean_text(request.last_trouble()),
                    .payload_limit = request.payload_limit(),
                    .heard = Clock::now()};
    if (group->terms.shrink_of != 0) {
        ASK_PASS(check_survivor(group->terms.shrink_of, request.rank(), channel->host, request.operations()));
    }
    if (request.size() != group->terms.size) {
        return named(id, Errc::kInput,
                     seat.name + " joins a group of " + std::to_string(request.size()) +
                         ", and the root has one of " + std::to_string(group->seats.size()));
    }
    ASK_PASS(join_seat(*group, request.rank(), seat));
    wake(*group);
    const std::uint64_t instance = group->terms.instance;
    // Who is to register at the root's switch yet hears of it at once.
    const bool placed = is_placed(*group, seat);
    const auto settled = [&] {
        group = find(instance);
        return group == nullptr || group->ready || group->error || group->closed || !placed;
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
    waiting.set_missing(missing_in(*group));
    waiting.set_last_switch(group->terms.last_switch);
    *waiting.mutable_last_mark() = mark_to_proto(group->terms.last_mark);
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
    seat->begun = request.begun();
    note_settled(*group, *seat, request.settle_step(), request.operations());
    changed_.notify_all();
    if (const auto mark = mark_from_proto(request.registered()); mark.ok()) {
        seat->registered = *mark;
    }
    if (const auto mark = mark_from_proto(request.registered_last()); mark.ok()) {
        seat->registered_last = *mark;
    }
    const auto over = [&] {
        group = find(request.instance());
        return group == nullptr || group->error || group->closed ||
               group->registration != request.registration() || group->settling.step != request.settle_step();
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
        outcome.set_trouble(group->trouble);
        outcome.set_settle_step(group->settling.step);
        outcome.set_settle_to(group->settling.last);
        outcome.set_settle_dead(group->settling.dead);
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
        } else if (group->is_closed_to_others && request.complains()) {
            begin_settling(*group, Error(errc_from_number(request.code(), Errc::kAborted),
                                         clean_text(request.reason())));
        } else if (group->is_closed_to_others) {
            lose_member(*group, *seat,
                        named(group->terms.id, errc_from_number(request.code(), Errc::kAborted),
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
