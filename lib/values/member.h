// SPDX-License-Identifier: Apache-2.0
//
// A member's end of a group's streams. The value of (stream, seq) is read from the application's memory at
// each send and never changes; results of the last window are kept, for who lost them. A chunk that has no
// answer in time is sent again for the switch (RESEND), then past it (ALONE), if results of what was sent
// later tell that it is lost. Else a member may just be slow, and a stream's oldest alone asks
// (docs/decisions/0027). One that is HELD waits for others, and only the oldest asks on: a slow member costs
// one packet in 40 ms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/engine/congestion.h"
#include "lib/values/numbers.h"
#include "lib/values/operation.h"
#include "lib/values/packet.h"
#include "lib/values/stats.h"
#include "lib/values/terms.h"

namespace ask::values {

struct MemberConfig {
    std::uint32_t initial_window = 16;
    Nanos rto_initial = 50 * kMillisecond;  // until an answer tells; a LAN's takes a hundredth
    Nanos rto_floor = 1 * kMillisecond;
    Nanos rto_ceiling = 250 * kMillisecond;
    Nanos probe_first = 10 * kMillisecond;
    Nanos probe_most = 40 * kMillisecond;
    std::uint32_t max_operations = 256;  // submitted and not complete
};

struct Completion {
    std::uint64_t number = 0;
    std::optional<Error> error;  // none: `out` is whole
};

// The oldest chunk that has no result, for a deadline to name.
struct Waiting {
    std::uint64_t operation = 0;
    std::uint32_t stream = 0;
    std::uint64_t seq = 0;
    Nanos since = 0;
    std::uint64_t missing = 0;  // the set of members, as the last HELD says; 0: none came
};

// How a stream is.
struct StreamLook {
    std::uint32_t stream = 0;
    double window = 0;
    std::uint32_t in_flight = 0;
    Nanos srtt = 0;
};

class Member {
 public:
    // `terms` have passed check_terms().
    Member(const GroupTerms& terms, std::uint32_t rank, const MemberConfig& config = {});
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;
    Member(Member&&) = delete;
    Member& operator=(Member&&) = delete;

    // Numbers rise by one from the first operation's. kLimit: too many are under way.
    Result<> submit(const Operation& operation);
    // An operation of this number is refused here: it has no chunks, and the next one follows.
    void skip(std::uint64_t number);
    // A RESULT, NEED or HELD that Wire opened. Others are not for a member.
    void on_packet(const Packet& packet, Nanos now);
    // `out` has room for ASK_VALUES_FRONT and the terms' blocks. nullopt: nothing to send yet.
    std::optional<Outgoing> next_packet(std::span<std::byte> out, Nanos now);
    // When next_packet() has something again, unless something happens before.
    [[nodiscard]] Nanos next_deadline(Nanos now) const;

    // In the order of their numbers, each once.
    std::optional<Completion> next_completion();
    // No operation ends whole beyond this number any more, or yet: what its chunks come to waits.
    void hold_beyond(std::uint64_t number);
    // Every operation under way ends in this error, and so does every later one.
    void fail(const Error& error);

    [[nodiscard]] bool idle() const { return operations_.empty(); }
    [[nodiscard]] std::optional<Waiting> waiting() const;
    // Operations up to this number are complete: what a shrink drains to.
    [[nodiscard]] std::uint64_t completed() const { return completed_; }
    [[nodiscard]] std::uint64_t submitted() const { return last_number_; }
    // Packets that a stream may have under way.
    [[nodiscard]] double window(std::uint32_t stream) const;
    [[nodiscard]] std::vector<StreamLook> streams() const;
    [[nodiscard]] const MemberStats& stats() const { return stats_; }
    [[nodiscard]] const GroupTerms& terms() const { return wire_.terms(); }

 private:
    struct Run;    // an operation under way
    struct Chunk;  // which of an operation's chunks a seq is
    struct Place;  // a seq under way
    struct Kept;   // a result
    class Stream;

    [[nodiscard]] Result<> check_submission(const Operation& operation) const;
    [[nodiscard]] std::optional<Chunk> chunk_of(std::uint32_t stream, std::uint64_t seq) const;
    [[nodiscard]] bool ready(const Chunk& chunk) const;
    [[nodiscard]] Scale scale_of_chunk(const Chunk& chunk) const;
    [[nodiscard]] Front front_of(const Chunk& chunk, std::uint32_t stream, std::uint64_t seq) const;
    void write_exponents(const Chunk& chunk, std::span<std::byte> body) const;
    [[nodiscard]] bool write_body(const Chunk& chunk, std::span<std::byte> body) const;
    Outgoing send_value(const Chunk& chunk, std::uint32_t stream, std::uint64_t seq, std::uint8_t flags,
                        std::span<std::byte> out);
    std::optional<Outgoing> send_asked(Stream& stream, std::span<std::byte> out);
    std::optional<Outgoing> send_again(Stream& stream, std::span<std::byte> out, Nanos now);
    std::optional<Outgoing> send_from(Stream& stream, std::span<std::byte> out, Nanos now);
    [[nodiscard]] bool can_begin(const Stream& stream) const;
    [[nodiscard]] Nanos deadline_of(const Stream& stream, Nanos now) const;
    void take_result(Stream& stream, const Packet& packet, Nanos now);
    void judge_way(Stream& stream, const Place& place, const Packet& packet, Nanos now);
    void learn(Stream& stream, const Packet& packet, Nanos now);
    void take_need(Stream& stream, const Packet& packet);
    void take_held(Stream& stream, const Packet& packet, Nanos now);
    void deliver(const Chunk& chunk, const Packet& packet);
    void finish_runs();
    [[nodiscard]] Stream* stream_at(std::uint32_t stream) const;

    Wire wire_;
    std::uint32_t rank_;
    MemberConfig config_;
    std::vector<std::unique_ptr<Stream>> streams_;  // by number; some are not there
    std::deque<std::unique_ptr<Run>> operations_;
    std::deque<Completion> completions_;
    std::optional<Error> failed_;
    std::uint64_t last_number_ = 0;
    std::uint64_t completed_ = 0;
    std::uint64_t last_to_end_ = ~std::uint64_t{0};
    std::uint32_t turn_ = 0;
    MemberStats stats_;
};

}  // namespace ask::values
