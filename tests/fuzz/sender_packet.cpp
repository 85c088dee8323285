// SPDX-License-Identifier: Apache-2.0
//
// A sender's channel that anybody sends packets to. What does not verify moves nothing but the counters of
// ACKs that were not taken; and whatever came, a task whose packets are acknowledged ends, each packet
// acknowledged once.
#include <array>
#include <string>
#include <vector>

#include "lib/tuples/sender.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/tuple_channel.h"

namespace ask::fuzz {
namespace {

constexpr std::uint32_t kPayload = 1472;
constexpr std::uint64_t kMostSteps = 100000;

class World {
 public:
    explicit World(Input& input)
        : channel_({.host = 0xC6120102, .port = ASK_CHANNEL_PORT_BASE}, 7, config_of(input)),
          key_(CheckSecret{5, 6}) {
        params_.instance = 0x0102030405060708;
        params_.channel = channel_.id();
        params_.incarnation = channel_.incarnation();
        params_.secret = {5, 6};
        params_.mark = {.switch_id = 3, .incarnation = 9};
        params_.first_seq = channel_.next_seq();
        params_.whole_keys = input.flag();
        require(channel_.begin(params_, 0, 0).ok(), "a task can begin");
    }

    void step(Input& input) {
        switch (input.below(6)) {
            case 0:
                offer(input);
                break;
            case 1:
                send();
                break;
            case 2:
                now_ += Nanos{input.take<std::uint16_t>()} * kMicrosecond;
                break;
            case 3:
                finish();
                break;
            case 4:
                hostile(input);
                break;
            default:
                honest(input);
                break;
        }
    }

    // From here on every packet is acknowledged at once.
    void end() {
        finish();
        for (std::uint64_t step = 0; !channel_.fin_acked(); ++step) {
            require(step < kMostSteps, "a task ends after a bounded number of packets");
            if (send()) {
                acknowledge(sent_.back());
                continue;
            }
            const Nanos next = channel_.deadline();
            require(next != kNever, "a task that has not ended has something to do");
            now_ = std::max(now_ + 1, next);
        }
        const SenderStats stats = channel_.end();
        require(stats.packer.tuples_in == offered_, "every tuple was taken");
        require(stats.packer.slots_filled + stats.packer.tuples_long + stats.packer.tuples_var == offered_,
                "every tuple has travelled once");
        require(params_.whole_keys || stats.packets_var == 0, "VAR is sent where it was agreed");
        require(stats.packets_acked_by_switch + stats.packets_acked_by_receiver == stats.packets_sent,
                "every packet was acknowledged once");
        require(channel_.in_flight() == 0 && channel_.idle(), "nothing is left under way");
    }

 private:
    static SenderConfig config_of(Input& input) {
        SenderConfig config;
        config.window = 1 + input.below(8) * 36;
        config.initial_window = 1 + input.below(32);
        config.initial_window = std::min(config.initial_window, config.window);
        config.hold = 1 + input.below(64);
        config.payload_limit = kPayload;
        return config;
    }

    void offer(Input& input) {
        const auto value = static_cast<std::int64_t>(input.flag() ? input.take<std::uint64_t>()
                                                                  : input.take<std::uint8_t>());
        const unsigned times = 1 + input.below(32);
        std::string key(input.text(input.below(72)));
        if (times == 32) {
            key.resize(4000, 'x');
        }
        for (unsigned i = 0; i < times && !finished_ && channel_.has_room(); ++i) {
            channel_.offer(key, value);
            key += static_cast<char>('a' + i);
            ++offered_;
        }
    }

    bool send() {
        std::vector<std::byte> packet(kPayload);
        const std::size_t bytes = channel_.next_packet(now_, packet);
        if (bytes == 0) {
            return false;
        }
        packet.resize(bytes);
        require(parse_packet(packet).has_value(), "what is sent is well-formed");
        require(key_.verify(packet, channel_.ports()), "what is sent is sealed");
        sent_.push_back(std::move(packet));
        return true;
    }

    void finish() {
        if (!finished_) {
            channel_.finish();
        }
        finished_ = true;
    }

    void acknowledge(std::span<const std::byte> packet) {
        std::array<std::byte, sizeof(ask_hdr)> ack{};
        const auto view = parse_packet(packet);
        write_ack(ack, view->header, channel_.ports(), Mark{}, false, key_);
        channel_.on_packet(now_, ack, back());
    }

    [[nodiscard]] Ports back() const { return {.source = ASK_UDP_PORT, .dest = channel_.id().port}; }

    void honest(Input& input) {
        const auto which = input.take<std::uint8_t>();
        if (!sent_.empty()) {
            acknowledge(sent_[which % sent_.size()]);
        }
    }

    // Any bytes, or an ACK with some fields as the input has them, sealed or not. Sealed ones stay ACKs of
    // this task: who has its secret can end it.
    void hostile(Input& input) {
        const unsigned kind = input.below(4);
        if (kind == 0) {
            const auto bytes = std::as_bytes(input.bytes(input.take<std::uint8_t>()));
            receive(std::vector<std::byte>(bytes.begin(), bytes.end()), back());
            return;
        }
        Header header{.type = ASK_ACK,
                      .flags = input.take<std::uint8_t>(),
                      .rows = 0,
                      .format = format_of(params_.geometry, params_.op),
                      .instance = params_.instance,
                      .channel = params_.channel,
                      .incarnation = params_.incarnation,
                      .mark = {},
                      .seq = channel_.next_seq() - 1 - input.below(16)};
        Ports ports = back();
        const auto value = input.take<std::uint32_t>();
        // Of the third kind nothing but the seal is wrong.
        switch (kind == 3 ? 7 : input.below(8)) {
            case 0:
                header.type = static_cast<std::uint8_t>(value);
                break;
            case 1:
                header.instance = value;
                break;
            case 2:
                header.channel.port = static_cast<std::uint16_t>(value);
                break;
            case 3:
                header.incarnation = value;
                break;
            case 4:
                header.mark = {.switch_id = static_cast<std::uint16_t>(value), .incarnation = value};
                break;
            case 5:
                header.seq = std::uint64_t{value} << (value & 32U);
                break;
            case 6:
                ports.source = static_cast<std::uint16_t>(value);
                break;
            default:
                header.mark = params_.mark;
                break;
        }
        std::vector<std::byte> packet(sizeof(ask_hdr));
        write_header(packet, header, {});
        if (kind == 1 && parse_packet(packet)) {
            key_.seal(packet, ports);
        }
        receive(packet, ports);
    }

    void receive(const std::vector<std::byte>& packet, Ports ports) {
        const SenderStats before = channel_.stats();
        const std::uint32_t in_flight = channel_.in_flight();
        const double window = channel_.window();
        const bool over = channel_.fin_acked();
        channel_.on_packet(now_, packet, ports);
        const SenderStats after = channel_.stats();
        const std::uint64_t refused =
            after.acks_bad - before.acks_bad + after.acks_ignored - before.acks_ignored;
        const std::uint64_t taken = after.packets_acked_by_switch - before.packets_acked_by_switch +
                                    after.packets_acked_by_receiver - before.packets_acked_by_receiver;
        require(refused + taken == 1, "a packet is taken for an ACK, or refused");
        require(in_flight - channel_.in_flight() <= 1, "a packet acknowledges one packet at most");
        if (!key_.verify(packet, ports)) {
            require(refused == 1 && in_flight == channel_.in_flight() && window == channel_.window() &&
                        over == channel_.fin_acked(),
                    "what does not verify moves nothing");
        }
    }

    test::TupleChannel channel_;
    CheckKey key_;
    FlowParams params_;
    std::vector<std::vector<std::byte>> sent_;
    Nanos now_ = 0;
    std::uint64_t offered_ = 0;
    bool finished_ = false;
};

}  // namespace
}  // namespace ask::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace ask::fuzz;
    Input input(data, size);
    World world(input);
    while (!input.empty()) {
        world.step(input);
    }
    world.end();
    return 0;
}
