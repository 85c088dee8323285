// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/packet.h"

#include <algorithm>
#include <cstddef>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "lib/abi/var.h"
#include "lib/base/bytes.h"

namespace ask {

namespace {

constexpr std::size_t kHeaderBytes = sizeof(ask_hdr);
constexpr std::size_t kCheckOffset = offsetof(ask_hdr, check);
static_assert(kCheckOffset == ASK_CHECK_HEAD_WORDS * 4);
constexpr std::size_t kFormatOffset = offsetof(ask_hdr, short_slots);
static_assert(offsetof(ask_hdr, op) == kFormatOffset + offsetof(ask_format, op));

std::uint8_t byte_at(std::span<const std::byte> bytes, std::size_t offset) {
    return std::to_integer<std::uint8_t>(bytes[offset]);
}

// What lib/abi/format.h says of a packet whose rows are counted by its own field.
bool format_fits(const Header& header) {
    const bool rows_fit =
        ask_type_aggregates(header.type) != 0
            ? header.rows >= 1 && (header.type == ASK_DATA || header.rows <= ASK_VAR_MAX_ROWS)
            : header.rows == 0;
    return rows_fit && ask_format_fits(header.format, header.rows) != 0;
}

// Rows that a DATA packet carries: up to the last whose bitmap is not 0 (lib/abi/wire.h).
unsigned rows_present(const std::byte* bitmaps, unsigned count) {
    while (count > 0 && load_raw<std::uint32_t>(bitmaps + std::size_t{4} * (count - 1)) == 0) {
        --count;
    }
    return count;
}

std::size_t row_bytes(const Header& header) {
    return std::size_t{8} * ask_format_row_words(header.format);
}

std::size_t bitmap_bytes(const Header& header) {
    return std::size_t{4} * header.rows;
}

// What a VAR counts, behind its bitmaps; nothing if it is too short for that.
ask_var_hdr read_counts(const Header& header, std::span<const std::byte> payload) {
    ask_var_hdr counts{};
    const std::size_t at = kHeaderBytes + bitmap_bytes(header);
    if (payload.size() >= at + sizeof(counts)) {
        std::memcpy(&counts, payload.data() + at, sizeof(counts));
    }
    return counts;
}

bool var_length_fits(const Header& header, std::span<const std::byte> payload) {
    const ask_var_hdr counts = read_counts(header, payload);
    const std::uint32_t records = ask_var_records(&counts);
    return records >= 1 && records <= ASK_VAR_MAX_RECORDS && header.rows == ask_var_rows(records) &&
           payload.size() == kHeaderBytes + bitmap_bytes(header) + ask_var_body_bytes(&counts);
}

Header read_header(std::span<const std::byte> payload) {
    const std::byte* at = payload.data();
    Header header;
    header.type = byte_at(payload, offsetof(ask_hdr, type));
    header.flags = byte_at(payload, offsetof(ask_hdr, flags));
    header.rows = byte_at(payload, offsetof(ask_hdr, rows));
    std::memcpy(&header.format, at + kFormatOffset, sizeof(header.format));
    header.instance = load_be<std::uint64_t>(at + offsetof(ask_hdr, task));
    header.channel = {.host = load_be<std::uint32_t>(at + offsetof(ask_hdr, host)),
                      .port = load_be<std::uint16_t>(at + offsetof(ask_hdr, port))};
    header.mark = {.switch_id = load_be<std::uint16_t>(at + offsetof(ask_hdr, mark_switch)),
                   .incarnation = load_be<std::uint32_t>(at + offsetof(ask_hdr, mark_incarnation))};
    header.incarnation = load_be<std::uint32_t>(at + offsetof(ask_hdr, incarnation));
    header.seq = load_be<std::uint64_t>(at + offsetof(ask_hdr, seq));
    return header;
}

// The payload has a whole header, and the header's format is within its limits.
bool length_fits(const Header& header, std::span<const std::byte> payload) {
    const std::size_t left = payload.size() - kHeaderBytes;
    switch (header.type) {
        case ASK_DATA: {
            if (left < bitmap_bytes(header)) {
                return false;
            }
            const unsigned present = rows_present(payload.data() + kHeaderBytes, header.rows);
            return present > 0 && left == bitmap_bytes(header) + present * row_bytes(header);
        }
        case ASK_VAR:
            return var_length_fits(header, payload);
        case ASK_LONG:
            return left >= sizeof(ask_long_hdr) && left % 8 == 0;
        case ASK_FIN:
            return left == sizeof(ask_fin);
        default:
            return left == 0;
    }
}

// Bits of a row's bitmap that may be set.
std::uint32_t allowed_bits(const Header& header, const ask_var_hdr& counts, unsigned row) {
    return header.type == ASK_VAR
               ? ask_var_full_row(ask_var_records(&counts), row)
               : static_cast<std::uint32_t>((std::uint64_t{1} << ask_format_bits(header.format)) - 1);
}

// Bitmaps of DATA or VAR. False if one has bits of nothing, or none has any.
bool read_bitmaps(std::span<const std::byte> payload, PacketView& view) {
    const ask_var_hdr counts = read_counts(view.header, payload);
    std::uint32_t any = 0;
    for (unsigned row = 0; row < view.header.rows; ++row) {
        const auto bitmap = load_be<std::uint32_t>(payload.data() + kHeaderBytes + std::size_t{4} * row);
        if ((bitmap & ~allowed_bits(view.header, counts, row)) != 0) {
            return false;
        }
        view.bitmap[row] = bitmap;
        any |= bitmap;
    }
    return view.header.rows == 0 || any != 0;
}

// Fills `view` except its spans; nullopt when all is well.
std::optional<ParseError> read_fields(std::span<const std::byte> payload, PacketView& view) {
    if (payload.size() < kHeaderBytes) {
        return ParseError::kTooShort;
    }
    if (byte_at(payload, offsetof(ask_hdr, version)) != ASK_WIRE_VERSION) {
        return ParseError::kVersion;
    }
    view.header = read_header(payload);
    if (view.header.type < ASK_DATA || view.header.type > ASK_VAR) {
        return ParseError::kType;
    }
    if (!format_fits(view.header)) {
        return ParseError::kFormat;
    }
    if (payload.size() > ASK_MAX_PAYLOAD || !length_fits(view.header, payload)) {
        return ParseError::kLength;
    }
    if (!read_bitmaps(payload, view)) {
        return ParseError::kFormat;
    }
    return std::nullopt;
}

// Finds the rows by the header's own fields. False if the payload is too short for them or
// has more words than the check covers: such a packet never verifies.
bool find_rows(std::span<const std::byte> payload, CheckedParts& parts) {
    if (payload.size() < kHeaderBytes) {
        return false;
    }
    parts.body = payload.subspan(kHeaderBytes);
    const Header header = read_header(payload);
    parts.line_words = ASK_LONG_ROW_WORDS;
    if (ask_type_aggregates(header.type) != 0) {
        if (header.rows > ASK_MAX_ROWS || ask_format_row_words(header.format) > ASK_MAX_AAS ||
            !length_fits(header, payload)) {
            return false;
        }
        parts.extension = parts.body.first(bitmap_bytes(header));
        parts.body = parts.body.subspan(bitmap_bytes(header));
    }
    if (header.type == ASK_DATA) {
        parts.line_words = std::max(1U, ask_format_row_words(header.format));
    }
    return parts.body.size() % 8 == 0 && parts.body.size() / 8 <= parts.line_words * ASK_MAX_CHECK_LINES;
}

#ifdef __x86_64__
bool has_avx2() {
    static const bool kHas = __builtin_cpu_supports("avx2") != 0;
    return kHas;
}

// The sum of ask_check_nh() of `count` words, a multiple of four: four at a time.
[[gnu::target("avx2")]] std::uint64_t sum_fours(const std::uint32_t* nh, const std::byte* words,
                                                std::size_t count) {
    __m256i sum = _mm256_setzero_si256();
    for (std::size_t i = 0; i < count; i += 4) {
        const __m256i secret = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(nh + 2 * i));
        const __m256i word = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + 8 * i));
        const __m256i keyed = _mm256_add_epi32(secret, word);
        sum = _mm256_add_epi64(sum, _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32)));
    }
    alignas(32) std::uint64_t lanes[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sum);
    return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}
#endif

// N of a line (lib/abi/check.h) of `count` words. Four sums, so that the additions do not wait for each
// other.
std::uint64_t sum_line(const std::uint32_t* nh, const std::byte* words, std::size_t count) {
    const auto one = [nh, words](std::size_t i) {
        const auto word = load_raw<std::uint64_t>(words + 8 * i);
        return ask_check_nh(nh[2 * i], nh[2 * i + 1], static_cast<std::uint32_t>(word),
                            static_cast<std::uint32_t>(word >> 32));
    };
    std::uint64_t sum[4] = {count, 0, 0, 0};
    std::size_t i = 0;
#ifdef __x86_64__
    if (has_avx2()) {
        i = count / 4 * 4;
        sum[1] = sum_fours(nh, words, i);
    }
#endif
    for (; i + 4 <= count; i += 4) {
        sum[0] += one(i);
        sum[1] += one(i + 1);
        sum[2] += one(i + 2);
        sum[3] += one(i + 3);
    }
    for (; i < count; ++i) {
        sum[0] += one(i);
    }
    return sum[0] + sum[1] + sum[2] + sum[3];
}

}  // namespace

std::optional<PacketView> parse_packet(std::span<const std::byte> payload, ParseError* error) {
    PacketView view;
    if (const auto wrong = read_fields(payload, view)) {
        if (error != nullptr) {
            *error = *wrong;
        }
        return std::nullopt;
    }
    view.payload = payload;
    view.body = payload.subspan(kHeaderBytes + bitmap_bytes(view.header));
    return view;
}

std::size_t write_header(std::span<std::byte> out, const Header& header,
                         std::span<const std::uint32_t> bitmaps) {
    ask_hdr raw{};
    raw.version = ASK_WIRE_VERSION;
    raw.type = header.type;
    raw.flags = header.flags;
    raw.rows = header.rows;
    raw.task = swap_bytes(header.instance);
    raw.host = swap_bytes(header.channel.host);
    raw.port = swap_bytes(header.channel.port);
    raw.mark_switch = swap_bytes(header.mark.switch_id);
    raw.incarnation = swap_bytes(header.incarnation);
    raw.mark_incarnation = swap_bytes(header.mark.incarnation);
    raw.seq = swap_bytes(std::uint64_t{header.seq});
    std::memcpy(out.data(), &raw, sizeof(raw));
    std::memcpy(out.data() + kFormatOffset, &header.format, sizeof(header.format));
    for (std::size_t row = 0; row < header.rows; ++row) {
        store_be(out.data() + kHeaderBytes + 4 * row, row < bitmaps.size() ? bitmaps[row] : 0U);
    }
    return kHeaderBytes + bitmap_bytes(header);
}

CheckKey::CheckKey(const CheckSecret& secret) : key_() {
    const __u64 words[2] = {secret[0], secret[1]};
    ask_check_expand(words, &key_);
}

std::uint64_t CheckKey::check_of(std::span<const std::byte> head, const CheckedParts& parts,
                                 Ports ports) const {
    std::uint32_t words[ASK_CHECK_HEAD_WORDS];
    std::memcpy(words, head.data(), sizeof(words));
    std::uint64_t sum =
        ask_check_head(&key_, words, ask_check_ports(swap_bytes(ports.source), swap_bytes(ports.dest)));
    for (std::size_t i = 0; i < parts.extension.size() / 4; ++i) {
        sum +=
            key_.head[ASK_CHECK_EXTENSION_WORD + i] * load_raw<std::uint32_t>(parts.extension.data() + 4 * i);
    }
    const std::size_t all = parts.body.size() / 8;
    std::size_t done = 0;
    for (std::size_t line = 0; done < all; ++line) {
        const std::size_t count = std::min(parts.line_words, all - done);
        sum += ask_check_line(key_.line + 2 * line, sum_line(key_.nh, parts.body.data() + done * 8, count));
        done += count;
    }
    return ask_check_close(&key_, sum);
}

std::optional<std::uint64_t> CheckKey::compute(std::span<const std::byte> payload, Ports ports) const {
    CheckedParts parts;
    if (!find_rows(payload, parts)) {
        return std::nullopt;
    }
    return check_of(payload.first(kHeaderBytes), parts, ports);
}

void CheckKey::seal(std::span<std::byte> payload, Ports ports) const {
    if (const auto check = compute(payload, ports)) {
        store_be(payload.data() + kCheckOffset, *check);
    }
}

bool CheckKey::verify(std::span<const std::byte> payload, Ports ports) const {
    const auto expected = compute(payload, ports);
    return expected && *expected == load_be<std::uint64_t>(payload.data() + kCheckOffset);
}

std::size_t write_ack(std::span<std::byte> out, const Header& header, Ports ports, Mark mark, bool ecn_echo,
                      const CheckKey& key) {
    Header ack = header;
    ack.type = ASK_ACK;
    ack.flags = ecn_echo ? ASK_F_ECE : 0;
    ack.rows = 0;
    ack.mark = mark;
    const std::size_t bytes = write_header(out, ack, {});
    key.seal(out.first(bytes), {.source = ports.dest, .dest = ports.source});
    return bytes;
}

}  // namespace ask
