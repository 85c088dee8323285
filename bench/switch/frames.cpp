// SPDX-License-Identifier: Apache-2.0
#include "bench/switch/frames.h"

#include <endian.h>

#include <array>
#include <cstring>

#include "lib/net/frame.h"

namespace ask::bench {

FrameMaker::FrameMaker(const Case& what, const CheckKey& key, unsigned channel)
    : what_(what),
      key_(key),
      port_(port_of(channel)),
      frame_(kFrameHeaderBytes + what.geometry.payload_bytes(what.geometry.rows)),
      random_(channel + 1) {
    write_frame_header(frame_,
                       {.source_mac = {2, 0, 0, 0, 0, 1},
                        .dest_mac = {2, 0, 0, 0, 0, 2},
                        .source = kHost,
                        .dest = kHost + 1,
                        .source_port = port_,
                        .dest_port = ASK_UDP_PORT},
                       frame_.size() - kFrameHeaderBytes);
}

std::span<const std::byte> FrameMaker::next() {
    Header header;
    header.type = ASK_DATA;
    header.rows = what_.geometry.rows;
    header.geometry = what_.geometry;
    header.instance = kInstance;
    header.channel = {.host = kHost, .port = port_};
    header.incarnation = kIncarnation;
    header.seq = ++seq_;
    std::array<std::uint32_t, ASK_MAX_ROWS> bitmaps{};
    bitmaps.fill(static_cast<std::uint32_t>((std::uint64_t{1} << what_.geometry.slots()) - 1));
    const std::span<std::byte> payload = std::span(frame_).subspan(kFrameHeaderBytes);
    const std::size_t at = write_header(payload, header, std::span(bitmaps).first(header.rows));
    fill_rows(payload.subspan(at));
    key_.seal(payload, {.source = port_, .dest = ASK_UDP_PORT});
    return frame_;
}

void FrameMaker::fill_rows(std::span<std::byte> rows) {
    for (std::size_t at = 0; at + ASK_SLOT_BYTES <= rows.size(); at += ASK_SLOT_BYTES) {
        const auto aa = at / ASK_SLOT_BYTES % what_.geometry.aas();
        const auto position =
            aa < what_.geometry.short_slots ? 0 : (aa - what_.geometry.short_slots) % what_.geometry.m;
        // Leading words of a group are constant: the last word alone tells its keys apart.
        const bool leading = aa >= what_.geometry.short_slots && position + 1 < what_.geometry.m;
        const auto draw = static_cast<std::uint32_t>(random_() % what_.keys());
        const std::uint32_t kpart = 0x41000000U | (leading ? 0 : draw);
        const std::uint32_t vpart = htobe32(leading ? 0 : 1);
        std::memcpy(rows.data() + at, &kpart, sizeof(kpart));
        std::memcpy(rows.data() + at + sizeof(kpart), &vpart, sizeof(vpart));
    }
}

}  // namespace ask::bench
