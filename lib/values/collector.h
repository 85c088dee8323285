// SPDX-License-Identifier: Apache-2.0
//
// The collector of a group: adder of what the switches did not merge, and keeper of results. It merges sets
// as they do: within, around, apart; what crosses is not merged, and what is missing is asked for. Whatever
// is lost of what it sends is asked for again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/values/numbers.h"
#include "lib/values/packet.h"
#include "lib/values/stats.h"
#include "lib/values/terms.h"

namespace ask::values {

struct CollectorConfig {
    Nanos need_every = 10 * kMillisecond;             // of a chunk that a member asks for ALONE
    Nanos need_after_collision = 500 * kMicrosecond;  // of one whose partials can't all meet on a switch
    std::size_t raw_bytes = std::size_t{16} << 20;    // of raw values ahead of their turn
    std::size_t max_outputs = 1 << 16;
};

class Collector {
 public:
    // `terms` have passed check_terms().
    explicit Collector(const GroupTerms& terms, const CollectorConfig& config = {});
    ~Collector();
    Collector(const Collector&) = delete;
    Collector& operator=(const Collector&) = delete;
    Collector(Collector&&) = delete;
    Collector& operator=(Collector&&) = delete;

    // A VALUE, HAVE or RESULT that Wire opened.
    void on_packet(const Packet& packet, Nanos now);
    std::optional<Outgoing> next_packet(std::span<std::byte> out, Nanos now);
    [[nodiscard]] Nanos next_deadline(Nanos now) const;

    // Results tell members to slow down while this host is short of memory.
    void set_congested(bool congested) { congested_ = congested; }
    // Results for all go to each alone or by the switch, as terms say at first, from now on.
    void set_fan_out(bool fan_out) { fan_out_ = fan_out; }
    // A set of members that send nothing any more. A chunk that lacks one of them is asked for at all others:
    // one of these may have its result.
    void set_dead(std::uint64_t members) { dead_ = members; }
    // Members that differ in what they do: names both and what each does. The group is over then.
    [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }
    [[nodiscard]] const CollectorStats& stats() const { return stats_; }

 private:
    struct Place;
    struct Stream;
    // Something to send, made when its turn comes.
    struct Output {
        std::uint8_t type = ASK_RESULT;
        std::uint8_t stream = 0;
        std::uint32_t member = 0;  // none of the group's: all
        std::uint64_t seq = 0;
    };
    struct Asked {
        std::uint32_t stream = 0;
        std::uint64_t seq = 0;
        Nanos at = 0;
    };

    [[nodiscard]] Place* place_for(const Packet& packet);
    [[nodiscard]] bool fits(const Place& place, const Packet& packet);
    void take_result(Place& place, const Packet& packet);
    void take_value(Place& place, const Packet& packet, Nanos now);
    bool merge(Place& place, const Packet& packet);
    bool merge_raw(Place& place, const Packet& packet);
    void fold_next(Place& place, std::uint32_t rank, std::span<const std::byte> body);
    void drop_ahead(Place& place);
    void complete(Place& place);
    void answer_open(Place& place, const Packet& packet, Nanos now);
    void ask_missing(Place& place, Nanos now);
    void run_asked(Nanos now);
    void push(std::uint8_t type, const Place& place, std::uint32_t member);
    std::optional<Outgoing> write(const Output& output, std::span<std::byte> out) const;
    [[nodiscard]] std::span<std::byte> body_of(const Place& place) const;

    Wire wire_;
    CollectorConfig config_;
    std::array<std::unique_ptr<Stream>, ASK_VALUES_STREAMS> streams_;
    std::deque<Output> outputs_;
    std::deque<Asked> asked_;
    std::size_t raw_held_ = 0;
    bool congested_ = false;
    std::uint64_t dead_ = 0;
    bool fan_out_;
    std::optional<Error> failure_;
    CollectorStats stats_;
};

}  // namespace ask::values
