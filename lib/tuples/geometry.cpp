// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <optional>

#include "lib/tuples/types.h"

namespace ask {

namespace {

Error bad_geometry(const Geometry& geometry, std::string why) {
    return Error(Errc::kUsage, "geometry " + to_string(geometry) + ": " + std::move(why));
}

std::string limit_text(std::string_view what, unsigned have, unsigned limit) {
    return std::string(what) + " " + std::to_string(have) + ", the limit is " + std::to_string(limit);
}

// Takes a decimal number of at most 3 digits off the front of `rest`.
std::optional<std::uint8_t> take_number(std::string_view& rest) {
    std::uint8_t value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc{}) {
        return std::nullopt;
    }
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return value;
}

bool take(std::string_view& rest, char c) {
    if (!rest.starts_with(c)) {
        return false;
    }
    rest.remove_prefix(1);
    return true;
}

// SHORT, SHORT+GROUPSxM, either with *ROWS; rows stay 0 when not given.
std::optional<Geometry> read_text(std::string_view rest) {
    Geometry geometry{.short_slots = 0, .groups = 0, .m = 0, .rows = 0};
    const auto short_slots = take_number(rest);
    if (!short_slots) {
        return std::nullopt;
    }
    geometry.short_slots = *short_slots;
    if (take(rest, '+')) {
        const auto groups = take_number(rest);
        if (!groups || !take(rest, 'x')) {
            return std::nullopt;
        }
        const auto m = take_number(rest);
        if (!m) {
            return std::nullopt;
        }
        geometry.groups = *groups;
        geometry.m = *groups > 0 ? *m : std::uint8_t{0};
    }
    if (take(rest, '*')) {
        const auto rows = take_number(rest);
        if (!rows || *rows == 0) {
            return std::nullopt;
        }
        geometry.rows = *rows;
    }
    return rest.empty() ? std::optional(geometry) : std::nullopt;
}

// Everything but the rows.
Result<> validate_row(const Geometry& geometry) {
    const unsigned slots = geometry.slots();
    if (slots == 0) {
        return bad_geometry(geometry, "a row needs at least one slot");
    }
    if (slots > ASK_MAX_SLOTS) {
        return bad_geometry(geometry, limit_text("slots a row:", slots, ASK_MAX_SLOTS));
    }
    if (geometry.groups == 0 && geometry.m != 0) {
        return bad_geometry(geometry, "m must be 0 without groups");
    }
    if (geometry.m > ASK_MAX_M) {
        return bad_geometry(geometry, limit_text("m:", geometry.m, ASK_MAX_M));
    }
    if (geometry.groups > 0 && geometry.m < (geometry.short_slots > 0 ? 2 : 1)) {
        return bad_geometry(geometry, "m must be at least 2 beside short slots, at least 1 without them");
    }
    if (geometry.aas() > ASK_MAX_AAS) {
        return bad_geometry(geometry, limit_text("aggregator arrays:", geometry.aas(), ASK_MAX_AAS));
    }
    return {};
}

}  // namespace

unsigned most_rows(const Geometry& geometry, unsigned payload_limit) {
    unsigned rows = std::min(ASK_MAX_ROWS, ASK_MAX_TUPLES / geometry.slots());
    while (rows > 0 && geometry.payload_bytes(rows) > payload_limit) {
        --rows;
    }
    return rows;
}

Result<> validate(const Geometry& geometry) {
    if (auto row = validate_row(geometry); !row) {
        return row;
    }
    if (geometry.rows == 0 || geometry.rows > ASK_MAX_ROWS) {
        return bad_geometry(geometry, "rows must be 1 to " + std::to_string(ASK_MAX_ROWS));
    }
    if (geometry.slots() * geometry.rows > ASK_MAX_TUPLES) {
        return bad_geometry(geometry,
                            limit_text("slots x rows:", geometry.slots() * geometry.rows, ASK_MAX_TUPLES));
    }
    const unsigned payload = geometry.payload_bytes(geometry.rows);
    if (payload > ASK_MAX_PAYLOAD) {
        return bad_geometry(geometry, limit_text("bytes of UDP payload:", payload, ASK_MAX_PAYLOAD));
    }
    return {};
}

Result<Geometry> parse_geometry(std::string_view text, unsigned payload_limit) {
    auto parsed = read_text(text);
    if (!parsed) {
        return Error(Errc::kUsage,
                     "geometry '" + std::string(text.substr(0, 32)) +
                         "': expected SHORT+GROUPSxM[*ROWS], such as 16+8x2*4, or SHORT[*ROWS]");
    }
    if (auto row = validate_row(*parsed); !row) {
        return std::move(row).error();
    }
    const unsigned limit = std::min(payload_limit, ASK_MAX_PAYLOAD);
    if (parsed->rows == 0) {
        // One row is kept when none fits, so that the error below gives its size.
        parsed->rows = static_cast<std::uint8_t>(std::max(1U, most_rows(*parsed, limit)));
    }
    if (auto valid = validate(*parsed); !valid) {
        return std::move(valid).error();
    }
    const unsigned payload = parsed->payload_bytes(parsed->rows);
    if (payload > limit) {
        return bad_geometry(*parsed, limit_text("bytes of UDP payload:", payload, limit) +
                                         "; take fewer rows or slots, or raise the MTU");
    }
    return *parsed;
}

std::string to_string(const Geometry& geometry) {
    std::string text = std::to_string(geometry.short_slots);
    if (geometry.groups > 0 || geometry.m > 0) {
        text += '+' + std::to_string(geometry.groups) + 'x' + std::to_string(geometry.m);
    }
    // None yet: nobody has said how many.
    return geometry.rows == 0 ? text : text + '*' + std::to_string(geometry.rows);
}

}  // namespace ask
