// SPDX-License-Identifier: Apache-2.0
#include "lib/text/clean.h"

#include <algorithm>

namespace ask {
namespace {

bool is_printable_ascii(char c) {
    return c >= ' ' && c <= '~';
}

void append_clean(std::string& out, char c) {
    constexpr std::string_view kHex = "0123456789abcdef";
    if (is_printable_ascii(c)) {
        out += c;
        return;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += "\\x";
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
}

std::string clean(std::string_view text, std::size_t longest) {
    if (text.size() <= longest && std::ranges::all_of(text, is_printable_ascii)) {
        return std::string(text);
    }
    constexpr std::string_view kCut = "...";
    std::string out;
    std::size_t fits = 0;  // of it, with kCut behind
    for (const char c : text) {
        append_clean(out, c);
        if (out.size() > longest) {
            out.resize(fits);
            return out += kCut;
        }
        fits = out.size() + kCut.size() <= longest ? out.size() : fits;
    }
    return out;
}

}  // namespace

std::string clean_name(std::string_view name) {
    return clean(name, kLongestName);
}

std::string clean_text(std::string_view text) {
    return clean(text, kLongestText);
}

std::string clean_lines(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '\n') {
            out += "\n  ";
        } else if (c == '\t') {
            out += c;
        } else {
            append_clean(out, c);
        }
    }
    return out;
}

}  // namespace ask
