// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/identity.h"

#include <algorithm>

#include "lib/net/host_book.h"
#include "lib/rpc/flow_stats.h"

namespace ask {
namespace {

bool is_of(const v1::FetchFlow& reported, const ChannelId& channel) {
    return reported.channel().host() == channel.host && reported.channel().port() == channel.port;
}

Mismatch changed(const std::string& switch_name, const std::string& what) {
    return {
        Error(Errc::kSwitchLost, switch_name + ": " + what + ": somebody else has changed the task there"),
        false};
}

// Everywhere that a tuple of the flow may be. What hotter keys evicted travelled on in its packets and came
// here, but others had sent it.
Wide tuples_there(const FlowAccount& flow, const v1::FlowStats& counted) {
    return Wide{counted.tuples_switch()} + flow.received - counted.tuples_evicted();
}

std::string counts_text(const FlowAccount& flow, const std::string& where) {
    return "sender " + flow.sender + " has sent " + std::to_string(*flow.sent) + " tuples, but " + where +
           std::to_string(flow.received) + " came here";
}

std::optional<Mismatch> compare_counts(const FlowAccount& flow, const std::string& switch_name,
                                       const v1::FlowStats& counted) {
    const Wide there = tuples_there(flow, counted);
    if (!flow.sent || there == Wide{*flow.sent}) {
        return std::nullopt;
    }
    const std::string evicted =
        counted.tuples_evicted() == 0
            ? ""
            : ", " + std::to_string(counted.tuples_evicted()) + " were evicted from there";
    return Mismatch{
        Error(Errc::kSwitchLost, counts_text(flow, std::to_string(counted.tuples_switch()) + " are at " +
                                                       switch_name + evicted + ", and ")),
        there < Wide{*flow.sent}};
}

// One that has joined, and what the switch has of it; null: nothing.
std::optional<Mismatch> compare_joined(const FlowAccount& flow, const std::string& switch_name,
                                       const v1::FetchFlow* reported) {
    if (reported == nullptr) {
        return changed(switch_name, "the flow of sender " + flow.sender + " is gone");
    }
    if (reported->incarnation() != flow.incarnation || reported->nonce() != flow.nonce) {
        return changed(switch_name, "the flow of sender " + flow.sender + " has joined anew");
    }
    return compare_counts(flow, switch_name, reported->stats());
}

// A Join that failed half-way leaves a flow that nobody has the secret of: nothing comes of it.
std::optional<Mismatch> compare_other(const v1::FetchFlow& reported, const std::string& switch_name,
                                      bool settled) {
    const bool counted = has_switch_part(reported.stats());
    if (!counted && settled) {
        return std::nullopt;
    }
    Mismatch mismatch =
        changed(switch_name, "channel " +
                                 control_address(reported.channel().host(),
                                                 static_cast<std::uint16_t>(reported.channel().port())) +
                                 ", which has not joined, has sent tuples");
    mismatch.may_settle = !counted;
    return mismatch;
}

}  // namespace

std::optional<Mismatch> compare_flows(std::span<const FlowAccount> joined, const std::string& switch_name,
                                      std::span<const v1::FetchFlow> reported, bool settled) {
    for (const v1::FetchFlow& flow : reported) {
        const auto count = std::ranges::count_if(
            joined, [&](const FlowAccount& account) { return is_of(flow, account.channel); });
        auto other = count == 0 ? compare_other(flow, switch_name, settled) : std::nullopt;
        if (other) {
            return other;
        }
    }
    for (const FlowAccount& account : joined) {
        const auto at = std::ranges::find_if(
            reported, [&](const v1::FetchFlow& flow) { return is_of(flow, account.channel); });
        auto mismatch = compare_joined(account, switch_name, at == reported.end() ? nullptr : &*at);
        if (mismatch) {
            return mismatch;
        }
    }
    return std::nullopt;
}

std::optional<Mismatch> compare_flow(const FlowAccount& flow) {
    if (!flow.sent || *flow.sent == flow.received) {
        return std::nullopt;
    }
    return Mismatch{Error(Errc::kAborted, counts_text(flow, "") + ": run the task again"), false};
}

}  // namespace ask
