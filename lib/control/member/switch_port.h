// SPDX-License-Identifier: Apache-2.0
//
// A switch's controller, as the members of its tasks see it. Every call ends within its `wait`, or when it is
// cancelled, and its error names the switch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/control/member/call_cancel.h"
#include "lib/control/member/patience.h"
#include "lib/tuples/back.h"
#include "lib/tuples/types.h"
#include "proto/switch.pb.h"

namespace ask {

// What the end of a copy's stream says, once it is known to be that of the whole copy.
struct CopyEnd {
    std::uint64_t count = 0;  // entries of the copy
    std::vector<v1::FetchFlow> flows;
    // By the switch, since the task began.
    [[nodiscard]] std::uint64_t tuples_aggregated() const {
        std::uint64_t sum = 0;
        for (const v1::FetchFlow& flow : flows) {
            sum += flow.stats().tuples_switch();
        }
        return sum;
    }
};

// A task's copy as it came, whole and checked.
struct FetchedCopy : CopyEnd {
    std::vector<std::string> chunks;  // lib/tuples/fetch_codec.h
};

// Takes the next piece of a copy, and says how many entries it has; an error ends the stream, and is what it
// comes to. Called by the thread that fetches.
using TakeEntries = std::function<Result<std::uint64_t>(std::string entries)>;

// What of the copy a back level has, as the switch says, before its first piece; an error ends the stream
// likewise.
using ExpectEntries = std::function<Result<>(const BackSize& size)>;

struct FetchOrder {
    RegionId region;
    Mark mark;  // that the task was opened with
    std::uint64_t epoch = 0;
    bool close = false;      // swaps first
    bool settled = false;    // the switch waits until all that has been aggregated is counted
    std::uint64_t skip = 0;  // entries that came before, the first of the copy
    milliseconds wait{0};    // longest time in which nothing of it comes
    ExpectEntries expect{};  // may be empty
};

// Thread-safe.
class SwitchPort {
 public:
    SwitchPort() = default;
    virtual ~SwitchPort() = default;
    SwitchPort(const SwitchPort&) = delete;
    SwitchPort& operator=(const SwitchPort&) = delete;

    [[nodiscard]] virtual const std::string& address() const = 0;
    [[nodiscard]] std::string name() const { return "switch " + address(); }

    virtual Result<v1::SwitchInfo> info(milliseconds wait, CallCancel* cancel = nullptr) = 0;
    virtual Result<v1::SwitchStatus> status(milliseconds wait) = 0;
    virtual Result<v1::OpenTaskReply> open_task(const v1::OpenTaskRequest& request, milliseconds wait,
                                                CallCancel* cancel = nullptr) = 0;
    virtual Result<> close_task(std::uint64_t instance, milliseconds wait, CallCancel* cancel = nullptr) = 0;
    struct Joined {
        Mark mark;
        std::uint64_t nonce = 0;  // of the flow
    };
    virtual Result<Joined> join_flow(const v1::JoinFlowRequest& request, milliseconds wait) = 0;
    // `replaces`: the incarnation that is registered as far as the caller knows, 0 for none. If the switch
    // has another, it is asked again with that.
    Result<Mark> register_channel(ChannelId channel, std::uint32_t incarnation, std::uint32_t replaces,
                                  milliseconds wait, CallCancel* cancel = nullptr);
    struct Registered {
        std::optional<Mark> mark;          // it is
        std::optional<Error> error;        // it is not
        std::optional<std::uint32_t> has;  // because the switch has this incarnation; 0: none
    };
    // The same, once.
    virtual Registered try_register(const v1::RegisterChannelRequest& request, milliseconds wait,
                                    CallCancel* cancel) = 0;
    virtual Result<> unregister_channel(ChannelId channel, std::uint32_t incarnation, milliseconds wait,
                                        CallCancel* cancel = nullptr) = 0;
    virtual Result<v1::RenewTasksReply> renew_tasks(const std::vector<std::uint64_t>& instances,
                                                    milliseconds wait) = 0;
    // Hands a copy's pieces on as they come: nothing of them counts unless an end comes back, of this stream
    // or of one that went on where it broke. kSwitchLost: it is another incarnation's than `mark`, or another
    // region's. kInput: what came is not what its end says it is.
    virtual Result<CopyEnd> stream_copy(const FetchOrder& order, const TakeEntries& take,
                                        CallCancel* cancel = nullptr) = 0;
    // The same, staged whole.
    Result<FetchedCopy> fetch_copy(const FetchOrder& order, CallCancel* cancel = nullptr);
    // The copy of a closed epoch has been merged.
    virtual Result<> confirm_copy(const RegionId& region, std::uint64_t epoch, milliseconds wait,
                                  CallCancel* cancel = nullptr) = 0;
};

}  // namespace ask
