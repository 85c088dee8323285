// SPDX-License-Identifier: Apache-2.0
//
// One application's member of a group, from OpenGroup until all members have left: joins, runs, leaves. On
// the root's host it coordinates as well: gathers the members, opens the group at the switch, and says when
// one is dead. Sequential code in a thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/control/group/book.h"
#include "lib/control/group/ports.h"
#include "lib/control/group/registry.h"
#include "lib/control/group/switches.h"
#include "lib/control/member/beside.h"
#include "lib/control/member/member.h"
#include "lib/control/member/session_io.h"
#include "proto/agent.pb.h"
#include "proto/local.pb.h"

namespace ask {

class Grouping {
 public:
    // All outlive it.
    Grouping(Member& member, GroupRegistry& registry, const GroupPorts& ports, SessionIo& io,
             v1::OpenGroup request);
    // Answers the application and leaves nothing behind, however it ends.
    void run();

 private:
    Result<> run_steps();
    Result<> check_request();
    Result<> find_root();
    Result<> get_channel();
    bool register_channel();
    bool register_at_last();
    void leave_elsewhere();
    Result<> go_on_unregistered();
    void register_again();
    // As its coordinator.
    Result<> coordinate();
    Result<> open_at_registry();
    Result<> gather();
    Result<> take_ranks();
    [[nodiscard]] std::string why_no_switch() const;
    [[nodiscard]] GroupSwitches::Ports switch_ports();
    [[nodiscard]] std::vector<LevelMember> level_members() const;
    void open_at_switches();
    void look_at_switches();
    void note_switches(const GroupSwitches::Status& before);
    bool register_all_again(const Mark& mark);
    [[nodiscard]] milliseconds call_wait() const;
    // As another's member.
    Result<> join();
    Result<v1::JoinGroupReply> call_join();
    Result<> start_renew();
    Result<> take_renewed();
    Result<> follow_settling();

    Result<> begin();
    Result<UdpAddresses> way_to(std::uint32_t host);
    Result<> serve();
    Result<> handle(const SessionIo::Wake& wake);
    Result<> tick();
    Result<> check_group();
    Result<> check_progress();
    Result<> complain(const Error& error);
    [[nodiscard]] bool all_left();
    Result<> finish();
    Result<> wait_for_others();
    void give_up(const Error& error);
    void tell(bool finished, const Error* error);
    void clean_up();
    void note(const std::function<void(v1::AgentGroup&)>& how);
    void note_waiting(const std::string& whom);
    void note_open(std::uint64_t arena_bytes);
    void note_end();
    [[nodiscard]] bool shrinks() const { return request_.shrink_of() != 0; }
    [[nodiscard]] Clock::time_point next_look() const;
    [[nodiscard]] std::string name_of(std::uint32_t rank) const;
    [[nodiscard]] Error named(Errc code, const std::string& what) const;

    using RenewBeside = CallBeside<std::function<Result<v1::GroupOutcome>(CallCancel*)>>;

    Member& member_;
    GroupRegistry& registry_;
    const GroupPorts& ports_;
    SessionIo& io_;
    const v1::OpenGroup request_;
    const std::uint64_t me_;
    std::uint64_t noted_ = 0;  // in the book
    std::uint32_t rank_;       // as was asked for; of survivors, once they are known, their own
    std::uint32_t size_;
    milliseconds deadline_{0};
    Clock::time_point give_up_at_;
    std::uint32_t root_address_ = 0;
    std::string root_;  // "h1 (198.18.1.2)"
    bool coordinates_ = false;
    bool opened_ = false;   // at the registry
    bool joined_ = false;   // the coordinator may know of us
    bool running_ = false;  // at a worker
    bool finished_ = false;
    bool left_ = false;        // all have, as the coordinator says
    bool complained_ = false;  // of what does not move on
    std::optional<Error> error_;
    GroupRegistry::Settling settling_;  // as the coordinator says
    std::uint32_t settle_step_ = 0;     // the last that was done
    std::uint64_t instance_ = 0;
    std::optional<ChannelLease> lease_;
    Mark registered_last_;      // at the root's switch, if another is the own one
    std::string last_trouble_;  // why not
    v1::JoinGroupReply group_;
    std::optional<GroupSwitches> switches_;  // as its coordinator, where any is to help
    std::unique_ptr<GroupPeer> peer_;
    std::unique_ptr<RenewBeside> renew_;
    Clock::time_point heard_;         // of the coordinator
    std::uint32_t registration_ = 0;  // the last that the coordinator asked for
    bool channel_lost_ = false;       // the own channel is not registered, or not for that yet
    Clock::time_point next_registration_{};
    milliseconds registration_pause_{kSessionTick};
    bool renews_incarnation_ = false;  // the channel's, at the end: it was a former one's
    milliseconds next_look_{10};       // whether the root has begun; doubled each time
};

}  // namespace ask
