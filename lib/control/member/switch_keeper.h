// SPDX-License-Identifier: Apache-2.0
//
// Keeps this agent's tasks alive at their switches, and tells their sessions when a switch has lost them. A
// thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/control/member/member.h"

namespace ask {

// Tells the sessions of those tasks that the switch, by its answer to their renewal, has no more: it does not
// know them, or it is another incarnation than the one they were opened on.
void tell_lost(std::span<const TaskAtSwitch> tasks, const v1::RenewTasksReply& reply,
               const std::string& switch_name);

// Whether a channel of this host that a switch has under `incarnation` is one that nobody here knows any
// more. Of a channel in use only its session knows under what it is registered: the pool learns it when it
// comes back.
enum class LeftOver : std::uint8_t { kNo, kPerhaps, kYes };
[[nodiscard]] LeftOver left_over(const std::vector<Channels::Entry>& own, ChannelId id,
                                 std::uint32_t incarnation);

class SwitchKeeper {
 public:
    explicit SwitchKeeper(Member& member);
    ~SwitchKeeper();
    SwitchKeeper(const SwitchKeeper&) = delete;
    SwitchKeeper& operator=(const SwitchKeeper&) = delete;

 private:
    void loop();
    void renew();
    // What groups have registered and have no flow for yet: a switch gives up channels that have none.
    void renew_channels();
    void check_room(const ReceiveTask& task, const v1::TaskPart& part, const std::string& at);
    void renew_at(SwitchPort& client, std::span<const TaskAtSwitch> tasks);
    [[nodiscard]] std::shared_ptr<SwitchPort> switch_at(const std::string& address) const;
    // Closes tasks there that their sessions could not.
    void close_left_open();
    // Unregisters an idle channel that has stayed registered under an incarnation that it no longer has: its
    // session could not reach the switch.
    void take_back_one();
    // Unregisters this host's channels that are not ours. false: the switch could not be asked, or of some it
    // cannot be told yet.
    bool clear_left_over();

    Member& member_;
    Mutex mutex_;
    CondVar stopping_;
    bool stop_ = false;  // under mutex_
    Thread thread_;
};

}  // namespace ask
