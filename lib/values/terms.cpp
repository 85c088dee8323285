// SPDX-License-Identifier: Apache-2.0
#include "lib/values/terms.h"

#include <algorithm>
#include <string>

namespace ask::values {

namespace {

Result<> limit(const std::string& what, std::uint64_t is, std::uint64_t least, std::uint64_t most) {
    if (is >= least && is <= most) {
        return {};
    }
    return Error(Errc::kLimit, "group: " + std::to_string(is) + " " + what + ": " + std::to_string(least) +
                                   " to " + std::to_string(most) + " are possible");
}

}  // namespace

Result<> check_terms(const GroupTerms& terms) {
    ASK_PASS(limit("members", terms.seats.size(), 1, ASK_MAX_MEMBERS));
    ASK_PASS(limit("as the root's rank", terms.root, 0, terms.seats.size() - 1));
    ASK_PASS(limit("chunks of a window", terms.window, 1, kMaxWindow));
    ASK_PASS(limit("streams", terms.streams, 1, kMaxDataStreams));
    ASK_PASS(limit("blocks of a payload", terms.blocks, 1, ASK_VALUES_MAX_BLOCKS));
    for (std::size_t rank = 0; rank < terms.seats.size(); ++rank) {
        const ChannelId& channel = terms.seats[rank].channel;
        const auto same = [&channel](const Seat& seat) { return seat.channel == channel; };
        if (std::ranges::count_if(terms.seats, same) > 1) {
            return Error(Errc::kInternal,
                         "group: rank " + std::to_string(rank) + " has the channel of another rank");
        }
    }
    return {};
}

}  // namespace ask::values
