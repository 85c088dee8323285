// SPDX-License-Identifier: Apache-2.0
#include "lib/control/member/switch_port.h"

#include <algorithm>
#include <utility>

#include "lib/rpc/types.h"
#include "lib/tuples/fetch_codec.h"

namespace ask {
namespace {

// A switch that has another incarnation than was believed says which; it changes again only if a request of
// the past comes just then.
constexpr unsigned kMostRegisterTries = 4;

// A region of 64 AAs of 2^24 aggregators would need more, but no SRAM budget grants it.
constexpr std::size_t kMaxStaged = std::size_t{4} << 30U;

}  // namespace

// Whoever has the channel may replace what the switch has; a request of its past, which nobody waits for any
// more, may not (design: compare and set).
Result<Mark> SwitchPort::register_channel(ChannelId channel, std::uint32_t incarnation,
                                          std::uint32_t replaces, milliseconds wait, CallCancel* cancel) {
    v1::RegisterChannelRequest request;
    *request.mutable_channel() = channel_to_proto(channel);
    request.set_incarnation(incarnation);
    request.set_replaces(replaces);
    const auto until = Clock::now() + wait;
    for (unsigned attempt = 1;; ++attempt) {
        auto answer = try_register(request, at_most(wait, until), cancel);
        if (answer.mark || !answer.has || *answer.has == request.replaces() ||
            attempt == kMostRegisterTries) {
            return answer.mark ? Result<Mark>(*answer.mark) : Result<Mark>(std::move(*answer.error));
        }
        request.set_replaces(*answer.has);
    }
}

Result<FetchedCopy> SwitchPort::fetch_copy(const FetchOrder& order, CallCancel* cancel) {
    FetchedCopy copy;
    std::size_t staged = 0;
    const auto stage = [&](std::string entries) -> Result<std::uint64_t> {
        staged += entries.size();
        if (staged > kMaxStaged) {
            return Error(Errc::kInput,
                         "its copy of the task has more than " + std::to_string(kMaxStaged >> 20U) + " MiB");
        }
        const auto count = count_entries(entries);
        copy.chunks.push_back(std::move(entries));
        return count;
    };
    auto end = stream_copy(order, stage, cancel);
    ASK_PASS(end);
    static_cast<CopyEnd&>(copy) = std::move(*end);
    return copy;
}

}  // namespace ask
