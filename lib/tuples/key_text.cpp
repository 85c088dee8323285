// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/key_text.h"

namespace ask {

std::string quote_key(std::string_view key) {
    constexpr std::size_t kShown = 64;
    constexpr std::string_view kHex = "0123456789abcdef";
    std::string text = "'";
    for (const char c : key.substr(0, kShown)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x7f && c != '\\' && c != '\'') {
            text += c;
        } else {
            text += "\\x";
            text += kHex[byte >> 4];
            text += kHex[byte & 15];
        }
    }
    text += "'";
    if (key.size() > kShown) {
        text += "... (" + std::to_string(key.size()) + " bytes)";
    }
    return text;
}

}  // namespace ask
