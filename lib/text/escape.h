// SPDX-License-Identifier: Apache-2.0
//
// How keys are written in lines of text (docs/commands.md): any bytes, reversibly. A backslash starts an
// escape: \\ \t \n \r \0 and \xHH.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ask {

// Appends `bytes` with control bytes, 0x7f, backslash and the UTF-8 of control characters (U+0080 to U+009F)
// escaped; everything else, other UTF-8 included, as it is.
void append_escaped(std::string& out, std::string_view bytes);
[[nodiscard]] std::string escaped(std::string_view bytes);
// The same for formats that are UTF-8 throughout, as JSON is: if `bytes` are none, all from 0x80 on are
// escaped, too.
void append_escaped_utf8(std::string& out, std::string_view bytes);
[[nodiscard]] bool is_utf8(std::string_view bytes);
// As errors show a piece of text: escaped, between quotes, and no more of it than fits a line.
[[nodiscard]] std::string shown(std::string_view text);

// Appends the bytes that `text` stands for; raw control bytes stand for themselves. Returns the offset of the
// first backslash that starts no escape, if any; `out` is half-written then.
[[nodiscard]] std::optional<std::size_t> append_unescaped(std::string& out, std::string_view text);

}  // namespace ask
