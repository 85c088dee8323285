// SPDX-License-Identifier: Apache-2.0
#include "lib/text/escape.h"

#include <algorithm>
#include <array>

namespace ask {
namespace {

// As much of a piece of text as an error shows.
constexpr std::size_t kShown = 40;

constexpr std::string_view kDigits = "0123456789abcdef";

// UTF-8 of U+0080 to U+00BF begins with this byte; the first half of them are control characters, which
// terminals obey: U+009B is what ESC [ is.
constexpr unsigned char kFirstOfC1 = 0xc2;

bool is_c1(std::string_view text) {
    return text.size() > 1 && static_cast<unsigned char>(text[0]) == kFirstOfC1 &&
           static_cast<unsigned char>(text[1]) >= 0x80 && static_cast<unsigned char>(text[1]) < 0xa0;
}

constexpr std::array<bool, 256> make_special() {
    std::array<bool, 256> special{};
    for (std::size_t byte = 0; byte < 0x20; ++byte) {
        special[byte] = true;
    }
    special[0x7f] = true;
    special['\\'] = true;
    special[kFirstOfC1] = true;
    return special;
}
constexpr std::array<bool, 256> kSpecial = make_special();

bool is_special(char c) {
    return kSpecial[static_cast<unsigned char>(c)];
}

void append_hex(std::string& out, char c) {
    const auto byte = static_cast<unsigned char>(c);
    out += "\\x";
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
}

void append_escape(std::string& out, char c) {
    switch (c) {
        case '\\':
            out += "\\\\";
            return;
        case '\t':
            out += "\\t";
            return;
        case '\n':
            out += "\\n";
            return;
        case '\r':
            out += "\\r";
            return;
        case '\0':
            out += "\\0";
            return;
        default:
            append_hex(out, c);
    }
}

// How long the sequence at the start of `text` is; 0: it is no UTF-8 (RFC 3629, section 4).
std::size_t utf8_length(std::string_view text) {
    const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned first = byte(0);
    if (first < 0x80) {
        return 1;
    }
    const std::size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (length == 0 || text.size() < length) {
        return 0;
    }
    // No longer than need be, no surrogates, nothing beyond U+10FFFF.
    const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (byte(1) < low || byte(1) > high) {
        return 0;
    }
    for (std::size_t i = 2; i < length; ++i) {
        if (byte(i) < 0x80 || byte(i) > 0xbf) {
            return 0;
        }
    }
    return length;
}

std::optional<unsigned> hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return static_cast<unsigned>(c - '0');
    }
    const char lower = static_cast<char>(c | 0x20);
    if (lower >= 'a' && lower <= 'f') {
        return static_cast<unsigned>(lower - 'a' + 10);
    }
    return std::nullopt;
}

// Decodes the escape at the start of `text`; returns its length, 0 if it is none.
std::size_t decode_escape(std::string_view text, char& byte) {
    if (text.size() < 2) {
        return 0;
    }
    switch (text[1]) {
        case '\\':
            byte = '\\';
            return 2;
        case 't':
            byte = '\t';
            return 2;
        case 'n':
            byte = '\n';
            return 2;
        case 'r':
            byte = '\r';
            return 2;
        case '0':
            byte = '\0';
            return 2;
        case 'x':
            break;
        default:
            return 0;
    }
    if (text.size() < 4) {
        return 0;
    }
    const auto high = hex_digit(text[2]);
    const auto low = hex_digit(text[3]);
    if (!high || !low) {
        return 0;
    }
    byte = static_cast<char>(*high << 4 | *low);
    return 4;
}

}  // namespace

void append_escaped(std::string& out, std::string_view bytes) {
    while (!bytes.empty()) {
        const auto special = std::find_if(bytes.begin(), bytes.end(), is_special);
        const auto plain = static_cast<std::size_t>(special - bytes.begin());
        out.append(bytes.substr(0, plain));
        bytes.remove_prefix(plain);
        if (bytes.empty()) {
            return;
        }
        if (is_c1(bytes)) {
            append_escape(out, bytes[0]);
            append_escape(out, bytes[1]);
            bytes.remove_prefix(2);
            continue;
        }
        if (static_cast<unsigned char>(bytes.front()) == kFirstOfC1) {
            out += bytes.front();
        } else {
            append_escape(out, bytes.front());
        }
        bytes.remove_prefix(1);
    }
}

bool is_utf8(std::string_view bytes) {
    while (!bytes.empty()) {
        const std::size_t length = utf8_length(bytes);
        if (length == 0) {
            return false;
        }
        bytes.remove_prefix(length);
    }
    return true;
}

void append_escaped_utf8(std::string& out, std::string_view bytes) {
    if (is_utf8(bytes)) {
        append_escaped(out, bytes);
        return;
    }
    for (const char c : bytes) {
        if (static_cast<unsigned char>(c) >= 0x80) {
            append_hex(out, c);
        } else {
            append_escaped(out, {&c, 1});
        }
    }
}

std::string escaped(std::string_view bytes) {
    std::string out;
    append_escaped(out, bytes);
    return out;
}

std::string shown(std::string_view text) {
    std::string out = "'";
    append_escaped(out, text.substr(0, kShown));
    return out + (text.size() > kShown ? "...'" : "'");
}

std::optional<std::size_t> append_unescaped(std::string& out, std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t next = std::min(text.find('\\', at), text.size());
        out.append(text.substr(at, next - at));
        at = next;
        if (at == text.size()) {
            break;
        }
        char byte = 0;
        const std::size_t length = decode_escape(text.substr(at), byte);
        if (length == 0) {
            return at;
        }
        out += byte;
        at += length;
    }
    return std::nullopt;
}

}  // namespace ask
