// SPDX-License-Identifier: Apache-2.0
#include "lib/control/group/terms.h"

#include <string>

#include "lib/abi/values.h"
#include "lib/control/member/convert.h"
#include "lib/net/host_book.h"

namespace ask {

Result<values::GroupTerms> group_terms(const v1::JoinGroupReply& group, std::uint32_t payload_limit) {
    const auto secret = secret_from_bytes(group.secret());
    ASK_PASS(secret);
    values::GroupTerms terms{.instance = group.instance(),
                             .secret = *secret,
                             .seats = {},
                             .window = group.window(),
                             .blocks = group.blocks()};
    bool collects = false;
    for (const v1::GroupMember& one : group.members()) {
        const auto channel = channel_from_proto(one.channel());
        ASK_PASS(channel);
        if (channel->host == group.collector()) {
            terms.root = terms.size();
            collects = true;
        }
        terms.seats.push_back({*channel, one.incarnation()});
    }
    ASK_PASS(values::check_terms(terms));
    if (!collects) {
        return Error(Errc::kDenied,
                     "none of the group's members is its collector " + format_host(group.collector()));
    }
    // A payload that does not fit is one that is never sent, which no deadline would see.
    const std::uint32_t payload = ASK_VALUES_FRONT + terms.blocks * ASK_VALUES_BLOCK_BYTES;
    if (payload > payload_limit) {
        return Error(Errc::kDenied, "the group has payloads of " + std::to_string(payload) +
                                        " bytes, and this host's MTU has room for " +
                                        std::to_string(payload_limit));
    }
    return terms;
}

}  // namespace ask
