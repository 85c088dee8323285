// SPDX-License-Identifier: Apache-2.0
#include "bench/switchagg/mapper.h"

#include <cstring>

#include "bench/hotkeys/rig.h"
#include "lib/net/frame.h"

namespace ask::bench {

Mapper::Mapper(const Task& task, ChannelId channel)
    : task_(task),
      channel_(channel),
      packer_({.geometry = task.geometry, .payload_limit = kMostPayload}),
      frame_(kFrameHeaderBytes + kMostPayload) {}

// The body stands where one of all rows does; one of fewer moves up.
std::span<const std::byte> Mapper::frame() {
    const std::size_t full = sizeof(ask_hdr) + sizeof(std::uint32_t) * task_.geometry.rows;
    const PacketBody body = *packer_.next(std::span(frame_).subspan(kFrameHeaderBytes + full));
    const std::size_t head = sizeof(ask_hdr) + sizeof(std::uint32_t) * body.rows;
    const std::span<std::byte> payload = std::span(frame_).subspan(kFrameHeaderBytes, head + body.bytes);
    if (head != full) {
        std::memmove(&frame_[kFrameHeaderBytes + head], &frame_[kFrameHeaderBytes + full], body.bytes);
    }
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
    task_.key->seal(payload, ports());
    const std::size_t length = write_frame_header(frame_,
                                                  {.source_mac = {2, 0, 0, 0, 0, 1},
                                                   .dest_mac = {2, 0, 0, 0, 0, 2},
                                                   .source = kSenderAddress,
                                                   .dest = kReceiverAddress,
                                                   .source_port = ports().source,
                                                   .dest_port = ports().dest},
                                                  payload.size());
    return std::span(frame_).first(length);
}

}  // namespace ask::bench
