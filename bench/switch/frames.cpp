// SPDX-License-Identifier: Apache-2.0
#include "bench/switch/frames.h"

#include <endian.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

#include "lib/abi/hash.h"
#include "lib/net/frame.h"
#include "lib/tuples/whole_keys.h"

namespace ask::bench {
namespace {

constexpr std::uint32_t kFirstKey = 0x41000000U;
constexpr std::uint32_t kLeadingWord = kFirstKey;  // of every group: its last word alone tells keys apart

// The last words of keys of `m` words each. Of hits, each has an aggregator to itself, whatever AA it is in.
std::vector<std::uint32_t> make_keys(const Case& what, unsigned m) {
    const bool hits = what.load == Load::kHits || what.load == Load::kSeen;
    std::uint32_t leading = ASK_HASH_SEED;
    for (unsigned word = 1; word < m; ++word) {
        leading = ask_hash_add(leading, kLeadingWord);
    }
    std::vector<std::uint32_t> keys;
    std::vector<bool> used(what.aggregators);
    for (std::uint32_t key = kFirstKey; keys.size() < what.keys(); ++key) {
        const std::uint32_t at = ask_hash_index(ask_hash_add(leading, key), what.aggregators);
        if (!hits || !used[at]) {
            keys.push_back(key);
            used[at] = true;
        }
    }
    return keys;
}

std::size_t payload_bytes(const Case& what) {
    return what.is_var() ? sizeof(ask_hdr) + 4 * ask_var_rows(what.tuples()) + sizeof(ask_var_hdr) +
                               what.tuples() * ask_var_record_bytes(what.group)
                         : what.geometry.payload_bytes(what.geometry.rows);
}

}  // namespace

FrameMaker::FrameMaker(const Case& what, const CheckKey& key, unsigned channel)
    : what_(what),
      key_(key),
      port_(port_of(channel)),
      frame_(kFrameHeaderBytes + payload_bytes(what)),
      short_keys_(what.is_var() ? std::vector<std::uint32_t>{} : make_keys(what, 1)),
      medium_keys_(what.geometry.groups == 0 ? std::vector<std::uint32_t>{}
                                             : make_keys(what, what.geometry.m)),
      random_(channel + 1) {
    write_frame_header(frame_,
                       {.source_mac = {2, 0, 0, 0, 0, 1},
                        .dest_mac = {2, 0, 0, 0, 0, 2},
                        .source = kHost,
                        .dest = kReceiver,
                        .source_port = port_,
                        .dest_port = ASK_UDP_PORT},
                       frame_.size() - kFrameHeaderBytes);
}

std::span<const std::byte> FrameMaker::next() {
    Header header;
    header.type = what_.is_var() ? ASK_VAR : ASK_DATA;
    header.rows =
        what_.is_var() ? static_cast<std::uint8_t>(ask_var_rows(what_.tuples())) : what_.geometry.rows;
    header.format = format_of(what_.geometry, Op::kSum);
    header.instance = kInstance;
    header.channel = {.host = kHost, .port = port_};
    header.incarnation = kIncarnation;
    header.seq = ++seq_;
    std::array<std::uint32_t, ASK_MAX_ROWS> bitmaps{};
    for (std::uint32_t row = 0; row < header.rows; ++row) {
        bitmaps[row] = what_.is_var()
                           ? ask_var_full_row(what_.tuples(), row)
                           : static_cast<std::uint32_t>((std::uint64_t{1} << what_.geometry.slots()) - 1);
    }
    const std::span<std::byte> payload = std::span(frame_).subspan(kFrameHeaderBytes);
    const std::size_t at = write_header(payload, header, std::span(bitmaps).first(header.rows));
    if (what_.is_var()) {
        fill_records(payload.subspan(at));
    } else {
        fill_rows(payload.subspan(at));
    }
    key_.seal(payload, {.source = port_, .dest = ASK_UDP_PORT});
    return frame_;
}

std::uint32_t FrameMaker::draw(std::size_t keys) {
    if (what_.load == Load::kBack && given_ < keys) {
        return given_++;
    }
    return static_cast<std::uint32_t>(random_() % keys);
}

// Keys as long as the group has them, which their last digits tell apart.
void FrameMaker::fill_records(std::span<std::byte> body) {
    constexpr std::size_t kDigits = 10;
    std::array<char, ASK_VAR_MAX_KEY> key;
    const std::size_t size = kBackKeyBytes[what_.group];
    ask_var_hdr counts{};
    counts.count[what_.group] = static_cast<std::uint8_t>(what_.tuples());
    std::memcpy(body.data(), &counts, sizeof(counts));
    for (std::size_t at = sizeof(counts); at < body.size(); at += ask_var_record_bytes(what_.group)) {
        key.fill('0');
        const std::uint32_t number = draw(what_.keys());
        std::to_chars(key.data() + size - kDigits, key.data() + size, number);
        write_record(body.data() + at, {key.data(), size}, 1);
    }
}

void FrameMaker::fill_rows(std::span<std::byte> rows) {
    for (std::size_t at = 0; at + ASK_SLOT_BYTES <= rows.size(); at += ASK_SLOT_BYTES) {
        const auto aa = at / ASK_SLOT_BYTES % what_.geometry.aas();
        const auto position =
            aa < what_.geometry.short_slots ? 0 : (aa - what_.geometry.short_slots) % what_.geometry.m;
        const bool is_short = aa < what_.geometry.short_slots;
        const bool leading = !is_short && position + 1 < what_.geometry.m;
        const std::vector<std::uint32_t>& keys = is_short ? short_keys_ : medium_keys_;
        const std::uint32_t drawn = keys[draw(keys.size())];
        const std::uint32_t kpart = leading ? kLeadingWord : drawn;
        const std::uint32_t vpart = htobe32(leading ? 0 : 1);
        std::memcpy(rows.data() + at, &kpart, sizeof(kpart));
        std::memcpy(rows.data() + at + sizeof(kpart), &vpart, sizeof(vpart));
    }
}

}  // namespace ask::bench
