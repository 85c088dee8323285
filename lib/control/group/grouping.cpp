// SPDX-License-Identifier: Apache-2.0
#include "lib/control/group/grouping.h"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/abi/values.h"
#include "lib/base/random.h"
#include "lib/base/task_id.h"
#include "lib/control/group/terms.h"
#include "lib/control/member/convert.h"
#include "lib/net/host_book.h"
#include "lib/values/terms.h"

namespace ask {
namespace {

constexpr milliseconds kGroupCallWait{5000};
constexpr milliseconds kGroupGoodbyeWait{1000};
constexpr milliseconds kGroupRenewHold{1000};
constexpr milliseconds kGroupHold{500};
constexpr milliseconds kGroupPause{20};   // while one of the same id ends
constexpr milliseconds kSettlePause{20};  // between two looks whether a group has settled
constexpr milliseconds kGroupArpWait{5000};
constexpr milliseconds kLongestRegistrationPause{4000};
// Of an agent that is there and hears nothing for so long the group has lost its member, or its coordinator.
constexpr std::chrono::seconds kGroupLease{10};

}  // namespace

Grouping::Grouping(Member& member, GroupRegistry& registry, const GroupPorts& ports, SessionIo& io,
                   v1::OpenGroup request)
    : member_(member),
      registry_(registry),
      ports_(ports),
      io_(io),
      request_(std::move(request)),
      me_(random_u64()),
      rank_(request_.rank()),
      size_(request_.size()) {}

Error Grouping::named(Errc code, const std::string& what) const {
    return {code, "group " + clean_name(request_.group()) + ": " + what};
}

std::string Grouping::name_of(std::uint32_t rank) const {
    const bool known = rank < static_cast<std::uint32_t>(group_.members_size());
    return "rank " + std::to_string(rank) +
           (known ? ", " + group_.members(static_cast<int>(rank)).name() : "");
}

void Grouping::note(const std::function<void(v1::AgentGroup&)>& how) {
    ports_.book.change(noted_, [&how](GroupBook::Entry& entry) { how(entry.group); });
}

void Grouping::note_waiting(const std::string& whom) {
    note([&whom](v1::AgentGroup& group) {
        group.set_state("waiting");
        group.set_waiting_for(whom);
    });
    v1::Progress progress;
    progress.set_state("waiting for " + whom);
    io_.progress(progress);
}

void Grouping::note_open(std::uint64_t arena_bytes) {
    ports_.book.change(noted_, [this, arena_bytes](GroupBook::Entry& entry) {
        v1::AgentGroup& group = entry.group;
        entry.channel = lease_->id;
        group.set_state("open");
        group.clear_waiting_for();
        group.set_instance(instance_);
        group.set_rank(rank_);
        group.set_size(size_);
        group.set_generation(group_.generation());
        for (const v1::GroupMember& member : group_.members()) {
            group.add_members()->set_name(clean_text(member.name()));
        }
        group.set_through_switch(group_.through_switch());
        group.set_direct(group_.direct());
        group.set_note(clean_text(group_.note()));
        group.set_window(group_.window());
        group.set_blocks(group_.blocks());
        group.set_arena_bytes(arena_bytes);
    });
}

// How it stands, for who looks later.
void Grouping::note_end() {
    v1::AgentGroup last;
    last.set_size(size_);
    const auto state = running_ ? ports_.workers.group_state(instance_, lease_->id)
                                : Result<GroupState>(Error(Errc::kUnknown, "it does not run"));
    const auto seats =
        opened_ && running_ ? registry_.seats(instance_) : std::vector<std::optional<GroupRegistry::Seat>>();
    ports_.book.change(noted_, [&](GroupBook::Entry& entry) {
        entry.channel.reset();
        if (state.ok()) {
            describe(*state, entry.group);
        }
        describe(seats, entry.group);
        entry.group.set_state(error_ ? "failed" : "left");
        entry.group.set_error(error_ ? clean_text(error_->text()) : "");
    });
}

void Grouping::run() {
    v1::AgentGroup group;
    group.set_id(clean_name(request_.group()));
    group.set_rank(rank_);
    group.set_size(size_);
    group.set_root(clean_name(request_.root()));
    group.set_state("joining");
    group.set_user(io_.user());
    group.set_switch_(member_.own_switch ? member_.own_switch->name() : "");
    noted_ = ports_.book.add(std::move(group));
    auto result = run_within_limits([this] { return run_steps(); });
    if (!result) {
        error_ = result.error();
        give_up(result.error());
    }
    note_end();
    clean_up();
    ports_.book.end(noted_);
}

Result<> Grouping::run_steps() {
    ASK_PASS(check_request());
    ASK_PASS(find_root());
    ASK_PASS(get_channel());
    if (!register_channel()) {
        ASK_PASS(go_on_unregistered());
    }
    ASK_PASS(coordinates_ ? coordinate() : join());
    ASK_PASS(begin());
    ASK_PASS(serve());
    return wait_for_others();
}

Result<> Grouping::check_request() {
    ASK_PASS(check_task_id(request_.group()));
    if (request_.size() == 0 || request_.size() > ASK_MAX_MEMBERS) {
        return named(Errc::kLimit, std::to_string(request_.size()) + " members: must be from 1 to " +
                                       std::to_string(ASK_MAX_MEMBERS));
    }
    if (request_.rank() >= request_.size()) {
        return named(Errc::kInput, "rank " + std::to_string(request_.rank()) + " of a size of " +
                                       std::to_string(request_.size()));
    }
    const auto deadline = task_deadline(request_.deadline_ms(), member_.options.deadline_seconds);
    ASK_TRY(deadline, "group " + request_.group());
    deadline_ = *deadline;
    give_up_at_ = Clock::now() + deadline_;
    note([this](v1::AgentGroup& group) {
        group.set_deadline_seconds(std::chrono::duration<double>(deadline_).count());
    });
    return {};
}

Result<> Grouping::find_root() {
    const auto host = member_.network.resolve(request_.root(), io_.user());
    ASK_TRY(host, "group " + request_.group() + ": root");
    root_address_ = host->address;
    coordinates_ = root_address_ == member_.options.address || member_.network.is_own(root_address_);
    const std::string shown = format_host(root_address_);
    root_ = request_.root() == shown ? shown : clean_name(request_.root()) + " (" + shown + ")";
    if (shrinks() && !coordinates_) {
        // The root says when those that have not come are left out.
        give_up_at_ += kGroupCallWait;
    }
    note([this](v1::AgentGroup& group) {
        group.set_root(root_);
        group.set_coordinates(coordinates_);
    });
    peer_ = ports_.peer_at(control_address(root_address_, host->port), root_);
    return {};
}

Result<> Grouping::get_channel() {
    instance_ = random_u64();
    while (!lease_) {
        auto lease = member_.channels.acquire(io_.mailbox(),
                                              {.instance = instance_, .at_switch = true, .user = io_.user()});
        ASK_TRY(lease, "group " + request_.group());
        lease_ = std::move(*lease);
        if (!lease_) {
            if (Clock::now() >= give_up_at_) {
                return named(Errc::kDeadline, "all " + std::to_string(member_.options.max_channels) +
                                                  " channels are in use, or seven eighths of them by this "
                                                  "user: raise max_channels");
            }
            ASK_PASS(io_.wait(std::min(Clock::now() + kSessionTick, give_up_at_)));
        }
    }
    if (!member_.own_switch || lease_->switch_address != member_.own_switch->address()) {
        // A task of another switch has used it, which may be on the way.
        if (lease_->registered_as != 0) {
            lease_->elsewhere.push_back({lease_->switch_address, lease_->registered_as});
        }
        lease_->forget_registration();
    }
    leave_elsewhere();
    // Whatever it has sent before is another's. A switch that could not be told so drops all that comes under
    // another incarnation than it knows.
    renews_incarnation_ = !lease_->elsewhere.empty();
    const std::uint32_t incarnation =
        renews_incarnation_ ? lease_->elsewhere.front().registered_as : random_u32();
    ASK_PASS(member_.workers.abandon(lease_->id, incarnation));
    lease_->incarnation = incarnation;
    return {};
}

// A switch whose daemon is silent still drops what comes from a channel under another incarnation than it
// has: the channel goes on under that one as far as it is known, and is registered as soon as somebody
// answers.
Result<> Grouping::go_on_unregistered() {
    channel_lost_ = member_.own_switch != nullptr;
    next_registration_ = Clock::now() + kSessionTick;
    if (lease_->registered_as == 0 || lease_->registered_as == lease_->incarnation) {
        return {};
    }
    ASK_PASS(member_.workers.abandon(lease_->id, lease_->registered_as));
    lease_->incarnation = lease_->registered_as;
    renews_incarnation_ = true;
    return {};
}

void Grouping::register_again() {
    if (!channel_lost_ || Clock::now() < next_registration_) {
        return;
    }
    const bool at_own = register_channel();
    channel_lost_ = !register_at_last() || !at_own;
    registration_pause_ =
        channel_lost_ ? std::min(2 * registration_pause_, kLongestRegistrationPause) : kSessionTick;
    next_registration_ = Clock::now() + registration_pause_;
}

// Without the switch all goes through the collector. Also of a group that is to go past it: packets of a
// former incarnation are all that it would let through.
bool Grouping::register_channel() {
    if (!member_.own_switch) {
        return false;
    }
    const auto registered = member_.own_switch->register_channel(lease_->id, lease_->incarnation,
                                                                 lease_->registered_as, call_wait());
    if (!registered.ok()) {
        spdlog::warn("group {}: {}; it goes on without it", request_.group(), registered.error().text());
        return false;
    }
    lease_->registered = *registered;
    lease_->switch_address = member_.own_switch->address();
    lease_->registered_as = lease_->incarnation;
    member_.channels.keep_registered(lease_->id, {lease_->switch_address, lease_->registered_as});
    return true;
}

// A member's packets pass its own switch first, and the root's later. True: nothing is to be done there any
// more.
bool Grouping::register_at_last() {
    const auto last = mark_from_proto(group_.last_mark());
    const bool is_own =
        last.ok() && (last->switch_id == 0 || last->switch_id == lease_->registered.switch_id);
    if (coordinates_ || group_.last_switch().empty() || !last.ok() || is_own) {
        return true;
    }
    const auto at = member_.network.switch_at(group_.last_switch());
    const auto known = std::ranges::find(lease_->elsewhere, at->address(), &ChannelLease::Elsewhere::address);
    const std::uint32_t replaces = known == lease_->elsewhere.end() ? 0 : known->registered_as;
    const auto registered = at->register_channel(lease_->id, lease_->incarnation, replaces, call_wait() / 2);
    if (!registered.ok()) {
        last_trouble_ = clean_text(registered.error().text());
        spdlog::warn("group {}: {}; its values pass there unseen", request_.group(),
                     registered.error().text());
        return false;
    }
    if (known == lease_->elsewhere.end()) {
        lease_->elsewhere.push_back({at->address(), lease_->incarnation});
    } else {
        known->registered_as = lease_->incarnation;
    }
    member_.channels.keep_registered(lease_->id, {at->address(), lease_->incarnation});
    registered_last_ = *registered;
    last_trouble_.clear();
    return true;
}

// Switches where the channel is registered beside its own. What stays is for SwitchKeeper.
void Grouping::leave_elsewhere() {
    std::erase_if(lease_->elsewhere, [this](const ChannelLease::Elsewhere& at) {
        const auto gone = member_.network.switch_at(at.address)
                              ->unregister_channel(lease_->id, at.registered_as, kGroupGoodbyeWait);
        if (!gone.ok()) {
            spdlog::warn("group {}: {}", request_.group(), gone.error().text());
        }
        return gone.ok();
    });
}

// Where the last group of that id is about to end, once it has.
Result<> Grouping::open_at_registry() {
    const bool helped = why_no_switch().empty();
    for (;;) {
        auto opened = registry_.open({.id = request_.group(),
                                      .size = request_.size(),
                                      .members = {member_.options.tenant, {}, {}, request_.token()},
                                      .instance = instance_,
                                      .lease = kGroupLease,
                                      .shrink_of = request_.shrink_of(),
                                      .mailbox = io_.mailbox(),
                                      .last_mark = helped ? lease_->registered : Mark(),
                                      .last_switch = helped ? lease_->switch_address : ""});
        if (opened.ok() || opened.error().code() != Errc::kUnavailable || Clock::now() >= give_up_at_) {
            return opened;
        }
        ASK_PASS(io_.wait(std::min(Clock::now() + kGroupPause, give_up_at_)));
    }
}

Result<> Grouping::coordinate() {
    ASK_PASS(open_at_registry());
    opened_ = true;
    ASK_PASS(registry_.seat(instance_, rank_,
                            {.member = me_,
                             .name = member_.full_name(),
                             .channel = lease_->id,
                             .incarnation = lease_->incarnation,
                             .registered = lease_->registered,
                             .switch_address = lease_->switch_address,
                             .payload_limit = member_.options.payload_limit,
                             .heard = Clock::now()}));
    ASK_PASS(gather());
    ASK_PASS(take_ranks());
    const auto seats = registry_.seats(instance_);
    std::uint32_t payload = ASK_VALUES_FRONT + ASK_VALUES_MAX_BLOCKS * ASK_VALUES_BLOCK_BYTES;
    for (const auto& seat : seats) {
        payload = std::min(payload, seat->payload_limit);
        v1::GroupMember& one = *group_.add_members();
        one.set_name(seat->name);
        *one.mutable_channel() = channel_to_proto(seat->channel);
        one.set_incarnation(seat->incarnation);
    }
    group_.set_instance(instance_);
    group_.set_secret(secret_to_bytes({random_u64(), random_u64()}));
    group_.set_collector(member_.options.address);
    group_.set_window(values::kMaxWindow);
    group_.set_blocks((payload - std::min<std::uint32_t>(payload, ASK_VALUES_FRONT)) /
                      ASK_VALUES_BLOCK_BYTES);
    group_.set_lease_seconds(std::chrono::duration<double>(kGroupLease).count());
    group_.set_wire_version(ASK_WIRE_VERSION);
    if (group_.blocks() == 0) {
        return named(Errc::kUnsupported, "the smallest MTU of its members has no room for values");
    }
    open_at_switches();
    spdlog::info("group {}: {} members, {}", request_.group(), seats.size(), group_.note());
    return registry_.publish(instance_, group_);
}

// Of all that have come. Survivors count anew, in the order that they had.
Result<> Grouping::take_ranks() {
    registry_.close_ranks(instance_);
    const auto seats = registry_.seats(instance_);
    const auto own = std::ranges::find_if(seats, [](const auto& seat) { return seat->own; });
    if (own == seats.end()) {
        return named(Errc::kInternal, "its root has no rank");
    }
    rank_ = static_cast<std::uint32_t>(own - seats.begin());
    size_ = static_cast<std::uint32_t>(seats.size());
    group_.set_generation(shrinks() ? registry_.generation_after(request_.shrink_of()) : 0);
    return {};
}

// Until all are there. Survivors that do not come in time are left out.
Result<> Grouping::gather() {
    for (;;) {
        const std::string missing = registry_.missing(instance_);
        if (missing.empty()) {
            return {};
        }
        if (shrinks() && Clock::now() >= give_up_at_) {
            spdlog::warn("group {}: goes on without {}, silent for {}", request_.group(), missing,
                         seconds_text(deadline_));
            return {};
        }
        if (Clock::now() >= give_up_at_) {
            return named(Errc::kDeadline, missing + " of " + std::to_string(request_.size()) +
                                              " did not join within " + seconds_text(deadline_) +
                                              ": start them, or allow more time");
        }
        note_waiting(missing);
        ASK_PASS(io_.wait(std::min(Clock::now() + kSessionTick, give_up_at_)));
    }
}

std::string Grouping::why_no_switch() const {
    if (request_.no_switch()) {
        return "--no-switch";
    }
    // Nor would its raw values pass there, by which a switch learns how far it is.
    return request_.size() == 1 ? "a group of one has nothing to add" : "";
}

std::vector<LevelMember> Grouping::level_members() const {
    const auto seats = registry_.seats(instance_);
    std::vector<LevelMember> members;
    members.reserve(seats.size());
    for (const auto& seat : seats) {
        members.push_back({.name = seat->name,
                           .host = seat->channel.host,
                           .first = seat->registered,
                           .address = seat->switch_address,
                           .last = seat->registered_last,
                           .no_last = seat->last_trouble});
    }
    return members;
}

GroupSwitches::Ports Grouping::switch_ports() {
    return {.at = [this](const std::string& address) -> std::shared_ptr<SwitchPort> {
                const auto& own = member_.own_switch;
                return own && own->address() == address ? own : member_.network.switch_at(address);
            },
            .members = [this] { return level_members(); },
            .register_again = [this](const Mark& mark) { return register_all_again(mark); },
            .patience = [this] { return call_wait(); }};
}

void Grouping::open_at_switches() {
    if (const std::string why = why_no_switch(); !why.empty()) {
        group_.set_note("the collector adds: " + why);
        return;
    }
    group_.set_last_switch(lease_->switch_address);
    *group_.mutable_last_mark() = mark_to_proto(lease_->registered);
    switches_.emplace(switch_ports(),
                      GroupSwitches::Terms{.id = request_.group(),
                                           .root = rank_,
                                           .address = member_.options.address,
                                           .control_address = member_.options.control_address},
                      group_);
    switches_->open();
    switches_->publish();
    const GroupSwitches::Status status = switches_->status();
    group_.set_through_switch(status.adds);
    group_.set_direct(status.direct);
    group_.set_note(clean_text(status.note));
    note([&](v1::AgentGroup& group) {
        group.set_slots(status.slots);
        switches_->describe(group);
    });
}

milliseconds Grouping::call_wait() const {
    return running_ ? kGroupCallWait : at_most(kGroupCallWait, give_up_at_);
}

// The own channel before the others', if that is its switch.
bool Grouping::register_all_again(const Mark& mark) {
    if (lease_->registered.switch_id == mark.switch_id && lease_->registered != mark) {
        if (!register_channel()) {
            return false;
        }
        registry_.note_registered(instance_, rank_, lease_->registered);
    }
    registry_.register_again(instance_);
    return true;
}

void Grouping::look_at_switches() {
    if (!switches_) {
        return;
    }
    const GroupSwitches::Status before = switches_->status();
    switches_->look();
    if (switches_->status() != before) {
        note_switches(before);
    }
}

// What members and people are to know of it, and what the collector may leave to the last switch.
void Grouping::note_switches(const GroupSwitches::Status& before) {
    const GroupSwitches::Status now = switches_->status();
    spdlog::info("group {}: {}", request_.group(), now.note);
    registry_.note_trouble(instance_, now.adds ? now.without : now.note);
    ports_.book.change(noted_, [&](GroupBook::Entry& entry) {
        v1::AgentGroup& group = entry.group;
        if (now.losses != before.losses) {
            entry.switch_lost = Clock::now();
            entry.switch_opened.reset();
            group.set_switch_trouble(now.lost_by);
        }
        if (now.losses > 0 && now.is_back && !before.is_back) {
            entry.switch_opened = Clock::now();
        }
        group.set_switch_losses(now.losses);
        group.set_switch_lost(now.lost);
        group.set_through_switch(now.adds);
        group.set_direct(now.direct);
        group.set_note(clean_text(now.note));
        group.set_slots(now.slots);
        switches_->describe(group);
    });
    if (const auto set = ports_.workers.set_fan_out(instance_, lease_->id, now.fan_out); !set.ok()) {
        spdlog::error("group {}: {}", request_.group(), set.error().text());
    }
}

Result<> Grouping::join() {
    for (std::string trouble = "not asked yet";;) {
        auto reply = call_join();
        ASK_PASS(reply);
        if (!reply->waiting()) {
            group_ = std::move(*reply);
            instance_ = group_.instance();
            break;
        }
        if (registered_last_.switch_id == 0 && last_trouble_.empty()) {
            *group_.mutable_last_mark() = reply->last_mark();
            group_.set_last_switch(reply->last_switch());
            channel_lost_ = !register_at_last() || channel_lost_;
        }
        trouble = reply->missing();
        if (Clock::now() >= give_up_at_) {
            return named(Errc::kDeadline, trouble + " of " + std::to_string(request_.size()) +
                                              " did not join within " + seconds_text(deadline_) +
                                              ": start them, or allow more time");
        }
        note_waiting(trouble);
    }
    const bool is_size =
        shrinks() ? group_.members_size() > 0 : group_.members_size() == static_cast<int>(request_.size());
    if (!is_size || group_.collector() != root_address_) {
        return named(Errc::kDenied, root_ + " answers for another group: its size is " +
                                        std::to_string(group_.members_size()) + ", its collector " +
                                        format_host(group_.collector()));
    }
    size_ = static_cast<std::uint32_t>(group_.members_size());
    for (std::uint32_t rank = 0; shrinks() && rank < size_; ++rank) {
        const auto channel = channel_from_proto(group_.members(static_cast<int>(rank)).channel());
        rank_ = channel.ok() && *channel == lease_->id ? rank : rank_;
    }
    heard_ = Clock::now();
    return start_renew();
}

// One that has not begun yet is waited for.
Result<v1::JoinGroupReply> Grouping::call_join() {
    v1::JoinGroupRequest request;
    request.set_group(request_.group());
    request.set_rank(request_.rank());
    request.set_size(request_.size());
    request.set_member(me_);
    request.set_member_name(member_.options.name);
    *request.mutable_channel() = channel_to_proto(lease_->id);
    request.set_incarnation(lease_->incarnation);
    *request.mutable_registered() = mark_to_proto(lease_->registered);
    request.set_switch_address(member_.own_switch ? member_.own_switch->address() : "");
    *request.mutable_registered_last() = mark_to_proto(registered_last_);
    request.set_last_trouble(last_trouble_);
    request.set_wait_ms(static_cast<std::uint32_t>(kGroupHold.count()));
    request.set_payload_limit(member_.options.payload_limit);
    request.set_shrink_of(request_.shrink_of());
    request.set_operations(request_.operations());
    request.set_token(request_.token());
    request.set_wire_version(ASK_WIRE_VERSION);
    joined_ = true;
    auto reply = peer_->join_group(request, at_most(kGroupCallWait, give_up_at_ + kGroupCallWait), nullptr);
    ASK_PASS(io_.wait(Clock::now()));
    if (reply.ok() || (reply.error().code() != Errc::kUnknown && !is_transient(reply.error()))) {
        return reply;
    }
    ASK_PASS(io_.wait(std::min(Clock::now() + next_look_, give_up_at_)));
    next_look_ = std::min(2 * next_look_, kGroupHold);
    if (Clock::now() >= give_up_at_) {
        return named(Errc::kDeadline, "the root " + root_ + " has not opened it within " +
                                          seconds_text(deadline_) + " (" + reply.error().text() +
                                          "): start its member there");
    }
    v1::JoinGroupReply waiting;
    waiting.set_waiting(true);
    waiting.set_missing("the root " + root_);
    return waiting;
}

Result<> Grouping::start_renew() {
    v1::RenewGroupRequest request;
    if (running_) {
        const auto state = ports_.workers.group_state(instance_, lease_->id);
        ASK_PASS(state);
        request.set_operations(state->completed);
        request.set_begun(state->begun);
    }
    const milliseconds hold = settle_step_ == 0 ? kGroupRenewHold : kSettlePause;
    request.set_settle_step(settle_step_);
    request.set_instance(instance_);
    request.set_member(me_);
    request.set_wait_ms(static_cast<std::uint32_t>(hold.count()));
    *request.mutable_registered() = mark_to_proto(lease_->registered);
    *request.mutable_registered_last() = mark_to_proto(registered_last_);
    request.set_registration(registration_);
    renew_ = std::make_unique<RenewBeside>(io_.mailbox(), [peer = peer_.get(), request](CallCancel* cancel) {
        return peer->renew_group(request, kGroupRenewHold + kGroupGoodbyeWait, cancel);
    });
    return {};
}

// Does what a step asks for, once. What it has come to the coordinator hears from here, others' with a
// renewal.
Result<> Grouping::follow_settling() {
    const GroupRegistry::Settling step = coordinates_ ? registry_.settling(instance_) : settling_;
    if (step.step == 0 || !running_) {
        return {};
    }
    if (step.step != settle_step_) {
        ASK_PASS(ports_.workers.settle_group(instance_, lease_->id, step.last, step.dead));
        settle_step_ = step.step;
        note([](v1::AgentGroup& group) { group.set_state("settling"); });
    }
    if (coordinates_) {
        const auto state = ports_.workers.group_state(instance_, lease_->id);
        ASK_PASS(state);
        registry_.settle(instance_, rank_, settle_step_, state->completed);
    }
    return {};
}

Clock::time_point Grouping::next_look() const {
    return Clock::now() + (settle_step_ == 0 ? kSessionTick : kSettlePause);
}

Result<> Grouping::take_renewed() {
    if (!renew_ || !renew_->answered()) {
        return {};
    }
    const auto outcome = renew_->take();
    renew_.reset();
    if (!outcome.ok()) {
        if (heard_ + kGroupLease < Clock::now()) {
            return named(Errc::kUnavailable,
                         "its collector's agent on " + root_ + " is silent: " + outcome.error().text());
        }
    } else if (outcome->state() == v1::GroupOutcome::STATE_FAILED) {
        joined_ = false;
        return Error(errc_from_number(outcome->code(), Errc::kAborted), clean_text(outcome->error()));
    } else if (outcome->state() == v1::GroupOutcome::STATE_UNKNOWN) {
        joined_ = false;
        return named(Errc::kAborted, "its collector's agent on " + root_ + " does not know it any more");
    } else {
        heard_ = Clock::now();
        channel_lost_ = channel_lost_ || outcome->registration() != registration_;
        registration_ = outcome->registration();
        settling_ = {outcome->settle_step(), outcome->settle_to(), outcome->settle_dead()};
        note([&outcome](v1::AgentGroup& group) { group.set_switch_trouble(clean_text(outcome->trouble())); });
        ASK_PASS(follow_settling());
        left_ = left_ || outcome->state() == v1::GroupOutcome::STATE_LEFT;
    }
    return left_ ? Result<>() : start_renew();
}

Result<UdpAddresses> Grouping::way_to(std::uint32_t host) {
    const auto path = member_.network.find_path(host, Clock::now() + kGroupArpWait);
    ASK_TRY(path, "way to " + format_host(host));
    return path->addresses;
}

Result<> Grouping::begin() {
    auto terms = group_terms(group_, member_.options.payload_limit);
    ASK_TRY(terms, "root " + root_);
    GroupStart start;
    start.terms = *std::move(terms);
    const GroupSwitches::Status at_switches = switches_ ? switches_->status() : GroupSwitches::Status();
    start.terms.fan_out = at_switches.fan_out;
    start.rank = rank_;
    // The root's own values are wanted by its own switch alone.
    start.through_switch = coordinates_ ? at_switches.has_last : group_.through_switch();
    start.mailbox = io_.mailbox();
    if (start.terms.size() != size_ || rank_ >= size_ || start.terms.seats[rank_].channel != lease_->id) {
        return named(Errc::kDenied, "root " + root_ + " has another in this rank");
    }
    // A member talks to the collector alone, and the collector to all. To itself it goes by the first hop
    // that leads to others.
    start.ways.resize(start.terms.size());
    for (std::uint32_t rank = 0; rank < start.terms.size(); ++rank) {
        const bool own = rank == rank_;
        if (own || (!coordinates_ && rank != start.terms.root)) {
            continue;
        }
        auto way = way_to(start.terms.seats[rank].channel.host);
        ASK_PASS(way);
        start.ways[rank] = *way;
        start.ways[rank_] = *way;
    }
    auto memory = ports_.workers.make_memory(request_.arena_bytes(), io_.user());
    ASK_TRY(memory, "group " + request_.group());
    start.memory = *memory;
    ASK_PASS(ports_.workers.begin_group(std::move(start)));
    running_ = true;
    note_open((*memory)->arena_bytes());
    v1::LocalReply reply;
    v1::GroupReady& ready = *reply.mutable_group_ready();
    ready.set_instance(instance_);
    ready.set_arena_bytes((*memory)->arena_bytes());
    ready.set_through_switch(group_.through_switch());
    ready.set_direct(group_.direct());
    ready.set_note(clean_text(group_.note()));
    ready.set_rank(rank_);
    ready.set_size(size_);
    return io_.reply(reply, memory->get());
}

// Until the application is done with it.
Result<> Grouping::serve() {
    Clock::time_point next = Clock::now() + kSessionTick;
    while (!finished_) {
        auto wake = io_.wait(std::min(next, next_look()));
        ASK_PASS(wake);
        ASK_PASS(handle(*wake));
        if (Clock::now() >= next) {
            next = Clock::now() + kSessionTick;
            ASK_PASS(tick());
            io_.progress(v1::Progress());
        }
    }
    return {};
}

Result<> Grouping::handle(const SessionIo::Wake& wake) {
    for (const SessionEvent& event : wake.events) {
        if (event.kind == SessionEvent::Kind::kGroupFailed) {
            return event.error->text().starts_with("group ")
                       ? *event.error
                       : named(event.error->code(), event.error->text());
        }
    }
    ASK_PASS(take_renewed());
    ASK_PASS(check_group());
    if (!wake.request) {
        return {};
    }
    return wake.request->has_close_group() ? finish()
                                           : Error(Errc::kInput, "the application sent what no group knows");
}

// As its coordinator: whether it has failed, or settles before it does.
Result<> Grouping::check_group() {
    if (!coordinates_) {
        return {};
    }
    ASK_PASS(follow_settling());
    auto error = registry_.check(instance_);
    return error ? Result<>(*std::move(error)) : Result<>();
}

Result<> Grouping::tick() {
    register_again();
    look_at_switches();
    return check_progress();
}

// An operation that nobody gets on with ends the group, which says for whom it has waited.
Result<> Grouping::check_progress() {
    if (complained_ || settle_step_ != 0) {
        return {};
    }
    const auto state = ports_.workers.group_state(instance_, lease_->id);
    ASK_PASS(state);
    if (state->idle || std::chrono::nanoseconds(state->waiting_ns) < deadline_) {
        return {};
    }
    std::string whom;
    for (std::uint32_t rank = 0; rank < size_; ++rank) {
        if ((state->missing >> rank & 1U) != 0) {
            whom += (whom.empty() ? "" : ", ") + name_of(rank);
        }
    }
    return complain(
        named(Errc::kDeadline,
              "operation " + std::to_string(state->operation) + ", chunk " + std::to_string(state->seq) +
                  ": no result within " + seconds_text(deadline_) +
                  (whom.empty() ? "" : "; missing: " + whom + ": see what holds it up, or allow more time")));
}

// The group fails for it once it has settled; at once where nobody coordinates any more.
Result<> Grouping::complain(const Error& error) {
    complained_ = true;
    if (coordinates_) {
        registry_.complain(instance_, error);
        return {};
    }
    v1::LeaveGroupRequest request;
    request.set_instance(instance_);
    request.set_member(me_);
    request.set_complains(true);
    request.set_code(static_cast<std::int32_t>(error.code()));
    request.set_reason(error.text());
    const auto told = peer_->leave_group(request, kGroupGoodbyeWait);
    return told.ok() ? Result<>() : Result<>(error);
}

Result<> Grouping::finish() {
    const auto state = ports_.workers.group_state(instance_, lease_->id);
    ASK_PASS(state);
    if (!state->idle) {
        return named(Errc::kInput, "its application closes it while operations are under way");
    }
    tell(true, nullptr);
    finished_ = true;
    note([](v1::AgentGroup& group) { group.set_state("leaving"); });
    v1::LocalReply reply;
    reply.mutable_group_left();
    return io_.reply(reply);
}

bool Grouping::all_left() {
    return coordinates_ ? registry_.all_left(instance_) : left_;
}

// Others may still lack what is kept here.
Result<> Grouping::wait_for_others() {
    const auto until = Clock::now() + deadline_;
    while (!all_left() && Clock::now() < until) {
        io_.wait_without_application(std::min(next_look(), until));
        ASK_PASS(take_renewed());
        ASK_PASS(check_group());
        look_at_switches();
        if (io_.stopping() || io_.cancelled()) {
            return stopping_error();
        }
    }
    return {};
}

void Grouping::tell(bool finished, const Error* error) {
    if (coordinates_) {
        if (!opened_) {
            return;
        }
        if (finished) {
            registry_.finish(instance_, rank_);
        } else {
            registry_.fail(instance_, named(error->code(), member_.full_name() +
                                                               ", its root, has left it: " + error->text()));
        }
        return;
    }
    if (!joined_) {
        return;
    }
    v1::LeaveGroupRequest request;
    request.set_instance(instance_);
    request.set_member(me_);
    request.set_finished(finished);
    if (error != nullptr) {
        request.set_code(static_cast<std::int32_t>(error->code()));
        request.set_reason(error->text());
    }
    if (const auto left = peer_->leave_group(request, kGroupGoodbyeWait); !left.ok()) {
        spdlog::warn("group {}: {}", clean_name(request_.group()), left.error().text());
    }
}

void Grouping::give_up(const Error& error) {
    spdlog::warn("group {}: {}", clean_name(request_.group()), error.text());
    if (!finished_) {
        io_.fail(error);
    }
    if (!finished_ || coordinates_) {
        tell(false, &error);
    }
}

void Grouping::clean_up() {
    renew_.reset();
    if (running_) {
        if (const auto ended = ports_.workers.end_group(instance_, lease_->id); !ended.ok()) {
            spdlog::error("group {}: {}", request_.group(), ended.error().text());
        }
    }
    if (switches_) {
        switches_->close();
    }
    if (opened_) {
        registry_.close(instance_);
    }
    member_.channels.withdraw(io_.mailbox());
    if (lease_) {
        leave_elsewhere();
        // What comes next must not meet the seqs that the channel has used under it.
        const std::uint32_t fresh = random_u32();
        if (renews_incarnation_ && member_.workers.abandon(lease_->id, fresh).ok()) {
            lease_->incarnation = fresh;
        }
        member_.channels.release(*std::move(lease_));
        lease_.reset();
    }
}

}  // namespace ask
