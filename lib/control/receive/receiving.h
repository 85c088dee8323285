// SPDX-License-Identifier: Apache-2.0
//
// One receive of an application (ask-recv), from OpenReceive to Done: opens the task here and on the switch,
// watches over its senders, once every FIN is in fetches what the switch holds, hands the table over, and
// commits when that was taken. Sequential code in a thread of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lib/control/member/beside.h"
#include "lib/control/member/member.h"
#include "lib/control/member/patience.h"
#include "lib/control/member/session_io.h"
#include "lib/control/receive/copy_merger.h"
#include "lib/control/receive/geometry_choice.h"
#include "lib/control/receive/hand_over.h"
#include "lib/control/receive/identity.h"
#include "lib/control/receive/mark_watch.h"
#include "lib/control/receive/own_switches.h"
#include "lib/control/receive/parts.h"
#include "lib/control/receive/task_switch.h"

namespace ask {

class Receiving {
 public:
    Receiving(Member& member, SessionIo& io, v1::OpenReceive request);
    // Answers the application and leaves nothing behind, however it ends.
    void run();

 private:
    Result<> run_steps();
    Result<> open();
    // A run of a stream's window.
    [[nodiscard]] bool is_window() const { return request_.window() != 0; }
    [[nodiscard]] bool can_do_without_switch() const;
    [[nodiscard]] std::string why_no_memory() const;
    // From samples of its senders.
    [[nodiscard]] bool plans() const;
    Result<> choose_parameters();
    Result<> choose_members();
    Result<> choose_geometry();
    Result<GeometryChoice> plan_geometry();
    // Whose memory the plan is for; null: nobody's.
    [[nodiscard]] std::shared_ptr<SwitchPort> switch_of_plan();
    Result<> await_samples();
    // Runs `call(CallCancel*)`, which waits for that switch, while the session serves its application;
    // whoever asks is told that it waits. Fails if the session is to end; else the call's own result is
    // inside.
    template <typename Call>
    auto ask_switch(const SwitchPort& at, Call call) -> Result<std::invoke_result_t<Call&, CallCancel*>>;
    // That the task waits for that switch, to whoever asks after it, and that it no longer does.
    void tell_waiting(const SwitchPort& at);
    void tell_going_on();
    // Whether that switch of the task answers; what it says if not.
    Result<std::optional<Error>> probe_switch(const TaskSwitch& at);
    // How long a switch is asked again that cannot be reached, and until when it may answer.
    struct Asking {
        milliseconds patience;
        Clock::time_point until;
        bool optional = false;  // no longer than the patience
    };
    [[nodiscard]] Asking asking() const;
    // `call(wait, CallCancel*)`.
    template <typename Call>
    auto ask_until_reached(const SwitchPort& at, const Asking& asking, Call call)
        -> Result<std::invoke_result_t<Call&, milliseconds, CallCancel*>>;
    using Opened = Result<v1::OpenTaskReply>;
    [[nodiscard]] v1::OpenTaskRequest open_request() const;
    Result<Opened> ask_until_open(SwitchPort& at, const Asking& asking);
    Result<Opened> ask_switch_to_open(SwitchPort& at, const Asking& asking);
    Result<> check_switch();
    Result<> open_on_switch();
    Result<TaskSwitch*> add_switch(const std::shared_ptr<SwitchPort>& client, const v1::OpenTaskReply& reply);
    void note_grant(const TaskSwitch& at, const v1::OpenTaskReply& reply);
    // Senders' own switches.
    void leave_out_switches();
    [[nodiscard]] std::shared_ptr<SwitchPort> switch_called(const std::string& address);
    Result<> open_wanted();
    Result<> open_own(const OwnSwitches::Wanted& wanted);
    Result<> take_own(const std::string& address, const std::shared_ptr<SwitchPort>& client,
                      const v1::OpenTaskReply& reply);
    Result<> refuse_own(const std::string& address, const Error& why);
    // Relays.
    [[nodiscard]] bool is_placed() const { return task_->placed.has_value(); }
    [[nodiscard]] bool is_to_be_placed() const { return request_.has_placement() || request_.has_place(); }
    Result<> choose_placement();
    Result<> place(const v1::Placement& plan);
    Result<> place_window(const v1::Placement& plan);
    // By the controller, once it is known who sends.
    Result<> ask_for_placement();
    Result<> await_askers();
    [[nodiscard]] v1::AdmitRequest admit_request() const;
    void note_plan(const v1::AdmitReply& reply);
    Result<> open_relays();
    Result<> open_level(unsigned depth);
    [[nodiscard]] v1::OpenRelayRequest relay_request(const Placed::Relay& relay) const;
    Result<v1::OpenRelayReply> ask_relay(const Placed::Relay& relay, CallCancel* cancel) const;
    [[nodiscard]] milliseconds relay_deadline(const Placed::Relay& relay) const;
    Error without_relay(const std::string& relay, const Error& why);
    Result<> open_on_workers();
    [[nodiscard]] Result<ResultTable> make_table();
    // Of a task that is taken in parts.
    Result<> choose_reserve();
    Result<> handle_part_request(const v1::LocalRequest& request);
    Result<> go_on_with_parts();
    Result<> await_part();
    Result<> start_swappers();
    Result<> start_swapper(TaskSwitch& at);
    Result<> tell_ready();

    Result<> collect();
    Result<> wait_and_handle(Clock::time_point until);
    Result<> handle(const SessionIo::Wake& wake);
    void note_fin(ChannelId channel);
    Result<> check_senders();
    Result<> check_unjoined();
    Error explain_missing(const Error& missing);
    // As far as a task's locked members are concerned: under the registry's mutex.
    static Result<> check_sender(const ReceiveTask& task, const TaskSender& sender);
    static Result<> check_member(const ReceiveTask& task, TaskSender& sender);
    Error blame(const TaskSender& sender, const Error& why);
    Result<> check_joined(ReceiveTask& task) const;
    // Now and then: what has come of each sender, for whoever looks, and whether it came the right way.
    Result<> watch_flows();
    Result<> check_marks(const TaskSender& sender, const FlowRxStats& stats);
    void note_receiver_part(const TaskSender& sender, const FlowRxStats& stats);
    [[nodiscard]] Error explain_strays(const TaskSender& sender, const std::string& strays);
    void show_progress(const std::string& state);

    Result<> commit();
    void note_need(const ResultTable& table);
    Result<ResultTable> take_table();
    Result<> add_part(ResultTable& all, ResultTable part);
    Result<> merge_swapped(ResultTable& table);
    Result<> merge_swapped(ResultTable& table, TaskSwitch& at);
    Result<> merge_switch_copies(ResultTable& table);
    Result<> merge_switch_copy(ResultTable& table, const TaskSwitch& at);
    Result<> pause_fetching(const TaskSwitch& at, Clock::time_point until);
    Result<> await_swapper(const TaskSwitch& at);
    // A switch's last copy, on its way into the task's table by one stream after another.
    struct Merging {
        CopyMerger merger;
        bool close = false;  // swaps first
    };
    Result<CopyEnd> merge_stream(const TaskSwitch& at, bool settled, Merging& merging, milliseconds wait);
    Result<CopyEnd> merge_until_deadline(const TaskSwitch& at, bool settled, Merging& merging);
    Result<CopyEnd> merge_whole(const TaskSwitch& at, Merging& merging);
    Result<> check_direct_flows();
    Error refuse_result(const Mismatch& mismatch);
    void note_switch_counts(const CopyEnd& copy);
    Result<> note_receiver_counts();
    void wait_for_final_stats();
    static void add_missing_members(const ReceiveTask& task, v1::Done& done);
    static void describe_switches(const ReceiveTask& task, v1::Done& done);
    [[nodiscard]] v1::Done describe_result(std::uint64_t keys, std::uint64_t bytes);

    Result<std::shared_ptr<KeptResult>> seal(ResultTable table);
    void hand_over_or_keep(const std::shared_ptr<KeptResult>& result);
    void wait_for_again(const KeptResult& result);
    void end_taken(const v1::Done& done);
    void end_kept(KeptResult& result);
    void end_lost();
    void end_failed(const Error& error);
    void end_given_up();
    void note_failed(const Error& error, const std::string& line);
    void note_lost(Mark mark);
    // What has come of that switch, whose loss is noted.
    Result<> or_lost(const TaskSwitch& at, Result<> merged);
    [[nodiscard]] Error explain_loss(const Error& loss) const;
    void give_up(const Error& reason);
    void stop_swappers();
    void end_task(v1::Outcome outcome);
    void note_open();
    void close_on_switches();
    // The switch may have it open: it is closed in the background, or by who takes the id next.
    void leave_open(const std::string& address);
    [[nodiscard]] LeftOpen::Task left_open_at(const std::string& address) const;
    void forget_open(const std::string& address);
    FlowRxStats flow_stats(ChannelId channel) const;

    Member& member_;
    SessionIo& io_;
    const v1::OpenReceive request_;
    std::shared_ptr<ReceiveTask> task_;
    std::unique_ptr<Parts> parts_;  // null: its table has no bound of its own
    bool added_ = false;            // to the registry
    bool on_workers_ = false;
    v1::ReceiveReady ready_;  // as the application was told
    bool told_waiting_ = false;
    std::vector<std::string> perhaps_open_;  // at these switches, which have not said so
    std::uint32_t aggregators_wanted_ = 0;
    bool may_shrink_ = false;  // fewer will do
    BackWish back_;
    std::string placement_note_;                         // why there are no relays, though there were to be
    std::vector<std::string> lost_relays_;               // to do without, should the task begin again
    std::vector<std::string> lost_switches_;             // the same, of senders' own: their addresses
    std::uint64_t fetched_ = 0;                          // of all epochs
    std::map<std::uint64_t, MarkWatch> marks_;           // by sender
    std::map<std::uint64_t, std::uint64_t> packets_of_;  // the same: how many seqs its flow has taken
    std::vector<FlowAccount> accounts_;                  // of the flows that joined, once all have ended
    Clock::time_point next_watch_ = Clock::now();
};

template <typename Call>
auto Receiving::ask_switch(const SwitchPort& at, Call call)
    -> Result<std::invoke_result_t<Call&, CallCancel*>> {
    auto answer = run_beside(
        io_.mailbox(), std::move(call), [this](Clock::time_point until) { return wait_and_handle(until); },
        [this, &at] { tell_waiting(at); });
    if (answer.ok() && answer->ok()) {
        tell_going_on();
    }
    return answer;
}

// A daemon that is away may be on its way up again, and one that hangs may go on: asking twice is harmless.
template <typename Call>
auto Receiving::ask_until_reached(const SwitchPort& at, const Asking& asking, Call call)
    -> Result<std::invoke_result_t<Call&, milliseconds, CallCancel*>> {
    constexpr milliseconds kWait{5000};
    constexpr milliseconds kRetryEvery{200};
    const auto retry_until = std::min(asking.until, Clock::now() + asking.patience);
    const auto give_up_at = asking.optional ? retry_until : asking.until;
    for (;;) {
        // An agent that was itself stopped in the middle asks once more: the time was not the switch's.
        const auto asked_at = Clock::now();
        auto asked =
            ask_switch(at, [&](CallCancel* cancel) { return call(at_most(kWait, give_up_at), cancel); });
        ASK_PASS(asked);
        if (asked->ok() || !is_transient(asked->error()) || asked_at >= retry_until ||
            Clock::now() >= give_up_at) {
            return asked;
        }
        tell_waiting(at);
        ASK_PASS(wait_and_handle(Clock::now() + kRetryEvery));
    }
}

}  // namespace ask
