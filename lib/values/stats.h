// SPDX-License-Identifier: Apache-2.0
//
// What the ends of a group count, each line once: name, class (as in lib/abi/counters.def), meaning.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ask::values {

#define ASK_VALUES_MEMBER_STATS(X)                                                           \
    X(values_sent, traffic, "chunks sent for the first time")                                \
    X(resends, traffic, "chunks sent again, for want of an answer in time")                  \
    X(alone, traffic, "of what was sent, past the switches to the collector")                \
    X(probes, traffic, "questions after the oldest chunk, which waits for others")           \
    X(raw, traffic, "chunks that no switch can add: range, NaN, product")                    \
    X(haves, traffic, "results given to the collector, which lacked them (HAVE)")            \
    X(results, traffic, "chunks whose result came")                                          \
    X(results_again, traffic, "results that came once more")                                 \
    X(held, traffic, "answers that say who is missing (HELD)")                               \
    X(needs, traffic, "times the collector asked for this member's part (NEED)")             \
    X(needs_early, traffic, "of these, for a chunk that is not reached yet")                 \
    X(marks, traffic, "answers that say that the way is congested (ECE, CE)")                \
    X(losses, traffic, "chunks proved lost: answered after they were sent again, not held")  \
    X(congested, traffic, "times the window was cut")                                        \
    X(results_bad, drop, "results of no chunk that is under way, or of another operation")   \
    X(needs_late, drop, "times the collector asked for what is not kept any more")           \
    X(misdirected, drop, "packets for another member, or of a type that members do not get") \
    X(out_of_range, drop, "chunks with a value beyond what members had agreed: changed while it was sent")

#define ASK_VALUES_COLLECTOR_STATS(X)                                                                   \
    X(taken, traffic, "partial sums that were the first of their chunk")                                \
    X(folded, traffic, "partial sums added")                                                            \
    X(replaced, traffic, "partial sums that have all that was there, and more")                         \
    X(within, traffic, "partial sums that were there already")                                          \
    X(crossing, traffic, "partial sums that overlap what is there: members were asked for their parts") \
    X(collided, traffic, "partial sums that found their slot on the switch taken")                      \
    X(late, traffic, "partial sums of chunks that everybody has")                                       \
    X(completed, traffic, "chunks completed here")                                                      \
    X(completed_raw, traffic, "chunks folded here in the order of ranks")                               \
    X(seen, traffic, "results that a switch made")                                                      \
    X(haves, traffic, "results that a member gave (HAVE)")                                              \
    X(answered, traffic, "results sent once more")                                                      \
    X(held, traffic, "answers that say who is missing (HELD)")                                          \
    X(needs, traffic, "members asked for their part (NEED)")                                            \
    X(raw_bad, drop, "raw values that no member sends so")                                              \
    X(raw_full, drop, "raw values ahead of their turn for which there was no room")                     \
    X(outputs_full, drop, "answers for which there was no room")                                        \
    X(mismatched, drop, "parts of another operation than the chunk's others: the group fails")

#define ASK_X(name, class_, text) std::uint64_t name = 0;
struct MemberStats {
    ASK_VALUES_MEMBER_STATS(ASK_X)
};
struct CollectorStats {
    ASK_VALUES_COLLECTOR_STATS(ASK_X)
};
#undef ASK_X

struct StatText {
    std::string_view name;
    std::string_view kind;
    std::string_view text;
};
#define ASK_X(name, class_, text) StatText{#name, #class_, text},
inline constexpr std::array kMemberStats = {ASK_VALUES_MEMBER_STATS(ASK_X)};
inline constexpr std::array kCollectorStats = {ASK_VALUES_COLLECTOR_STATS(ASK_X)};
#undef ASK_X

// By the order of the lists.
#define ASK_X(name, class_, text) stats.name,
[[nodiscard]] inline std::array<std::uint64_t, kMemberStats.size()> list_of(const MemberStats& stats) {
    return {ASK_VALUES_MEMBER_STATS(ASK_X)};
}
[[nodiscard]] inline std::array<std::uint64_t, kCollectorStats.size()> list_of(const CollectorStats& stats) {
    return {ASK_VALUES_COLLECTOR_STATS(ASK_X)};
}
#undef ASK_X
#define ASK_X(name, class_, text) to.name += from.name;
inline void add(MemberStats& to, const MemberStats& from) {
    ASK_VALUES_MEMBER_STATS(ASK_X)
}
inline void add(CollectorStats& to, const CollectorStats& from) {
    ASK_VALUES_COLLECTOR_STATS(ASK_X)
}
#undef ASK_X

}  // namespace ask::values
