// SPDX-License-Identifier: Apache-2.0
//
// The shipped code in a line: mappers' channels (lib/engine, lib/tuples), the switch program compiled
// natively, and a receiver with its table. The wire is the trace's: each packet that is on it is asked about.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/engine/receiver.h"
#include "lib/tuples/result_table.h"
#include "lib/tuples/table_sink.h"
#include "tests/pisa/native_harness.h"
#include "tests/support/tuple_channel.h"

namespace ask::test {

using Answer = std::map<std::string, std::int64_t>;

class Chain {
 public:
    enum class Link : std::uint8_t {
        kToSwitch,    // a mapper's packet
        kToReceiver,  // what the switch sends on
        kSwitchAck,   // back to its mapper
        kReceiverAck,
    };
    // Whether the packet gets there. `number` counts those on this link, from 1.
    using Wire = std::function<bool(Link, unsigned number)>;

    Chain(const TaskSpec& spec, unsigned mappers);

    void offer(unsigned mapper, std::string_view key, std::int64_t value);
    // All mappers send what they have until it is acknowledged, then their FINs.
    void run(const Wire& wire);
    // The switch's kernel goes down and up again: empty maps under a new mark.
    void restart_switch();

    // What the receiver has once it has fetched.
    [[nodiscard]] Answer answer();
    // Pairs that have come to it in packets, in their order, and with `answer` what the switch had kept
    // behind them: what a switch further on would be fed with. Of tasks with one place a packet.
    using Stream = std::vector<std::pair<std::string, std::int64_t>>;
    [[nodiscard]] const Stream& came() const { return came_; }
    // Mappers whose FINs have come.
    [[nodiscard]] unsigned ended() const;
    // Pairs that a mapper's FIN says were sent, that came to the receiver, and that its switch says it
    // aggregated.
    struct Account {
        std::uint64_t sent = 0;
        std::uint64_t received = 0;
        std::uint64_t aggregated = 0;
    };
    [[nodiscard]] Account account(unsigned mapper) const;
    [[nodiscard]] std::uint64_t sent_again(unsigned mapper) const {
        return mappers_[mapper].stats().retransmissions;
    }
    [[nodiscard]] ChannelId channel(unsigned mapper) const { return mappers_[mapper].id(); }

 private:
    void register_all();
    void pump(TupleChannel& mapper, const Wire& wire);
    void at_switch(std::vector<std::byte> payload, ask::Ports ports, const Wire& wire);
    void at_receiver(std::vector<std::byte> payload, ask::Ports ports, const Wire& wire);
    void at_mapper(const std::vector<std::byte>& payload, ask::Ports ports);
    [[nodiscard]] bool passes(Link link, const Wire& wire);
    Bytes through_switch(const std::vector<std::byte>& payload, ask::Ports ports, bool from_mapper);
    void fetch();

    // Keeps the table's blocks, to read it afterwards.
    class Kept;
    // Takes down what comes.
    class Watched;

    TaskSpec spec_;
    std::unique_ptr<NativeSwitch> switch_;
    std::deque<TupleChannel> mappers_;
    Receiver receiver_;
    std::span<std::byte> slots_;
    std::span<std::byte> keys_;
    std::unique_ptr<ResultTable> table_;
    std::deque<TableSink> sinks_;
    std::deque<std::unique_ptr<PacketSink>> watched_;
    Stream came_;
    std::array<unsigned, 4> seen_{};
    Nanos now_ = 0;
};

}  // namespace ask::test
