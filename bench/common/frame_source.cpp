// SPDX-License-Identifier: Apache-2.0
#include "bench/common/frame_source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "bench/common/rig.h"
#include "lib/net/frame.h"

namespace ask::bench {
namespace {

constexpr std::size_t kSourcePort = kEthernetBytes + kIpv4Bytes;  // in a frame
// Of headers and bitmaps before a body is made: as long as they can be, for what it will be is not known.
constexpr std::size_t kMostHead = sizeof(ask_hdr) + sizeof(std::uint32_t) * ASK_MAX_ROWS;
static_assert(ASK_VAR_MAX_ROWS <= ASK_MAX_ROWS);

}  // namespace

FrameSource::FrameSource(const Task& task, ChannelId channel)
    : task_(task),
      channel_(channel),
      packer_({.geometry = task.geometry,
               .payload_limit = kMostPayload,
               .slot_map = {},
               .whole_keys = task.whole_keys}),
      frame_(kFrameHeaderBytes + kMostHead + kMostPayload) {}

// The body moves up to where its head ends.
std::span<const std::byte> FrameSource::frame() {
    const PacketBody body = *packer_.next(std::span(frame_).subspan(kFrameHeaderBytes + kMostHead));
    const std::size_t head = sizeof(ask_hdr) + sizeof(std::uint32_t) * body.rows;
    const std::span<std::byte> payload = std::span(frame_).subspan(kFrameHeaderBytes, head + body.bytes);
    std::memmove(&frame_[kFrameHeaderBytes + head], &frame_[kFrameHeaderBytes + kMostHead], body.bytes);
    write_header(payload,
                 {.type = body.type,
                  .flags = 0,
                  .rows = body.rows,
                  .format = format_of(task_.geometry, Op::kSum),
                  .instance = task_.instance,
                  .channel = channel_,
                  .incarnation = task_.incarnation,
                  .mark = {},
                  .seq = ++seq_},
                 std::span(body.bitmap).first(body.rows));
    task_.key->seal(payload, {.source = channel_.port, .dest = ASK_UDP_PORT});
    const std::size_t length = write_frame_header(frame_,
                                                  {.source_mac = {2, 0, 0, 0, 0, 1},
                                                   .dest_mac = {2, 0, 0, 0, 0, 2},
                                                   .source = kSenderAddress,
                                                   .dest = kReceiverAddress,
                                                   .source_port = channel_.port,
                                                   .dest_port = ASK_UDP_PORT},
                                                  payload.size());
    return std::span(frame_).first(length);
}

Result<RxVerdict> receive(Receiver& receiver, std::span<const std::byte> frame) {
    std::array<std::byte, sizeof(ask_hdr)> ack{};
    const Ports ports{.source = load_be<std::uint16_t>(frame.data() + kSourcePort), .dest = ASK_UDP_PORT};
    RxVerdict verdict = receiver.on_packet(frame.subspan(kFrameHeaderBytes), ports, false, ack);
    if (verdict.counter != ReceiverCounter::k_accepted_data &&
        verdict.counter != ReceiverCounter::k_accepted_var) {
        return Error(Errc::kInternal, "the receiver refused a packet, verdict " +
                                          std::to_string(static_cast<int>(verdict.counter)));
    }
    return verdict;
}

}  // namespace ask::bench
