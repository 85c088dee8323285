// SPDX-License-Identifier: Apache-2.0
//
// Text of others, made fit for people's terminals and logs. Whatever comes from another process in a message,
// a status or a name goes through here before it is shown.
#pragma once

#include <string>
#include <string_view>

namespace ask {

// Printable ASCII as it is and every other byte as \xHH, so that nothing moves a cursor, begins a line, or
// turns the direction of writing; what would be longer than so many bytes ends in "...". What it gives, it
// leaves as it is.
inline constexpr std::size_t kLongestName = 128;
inline constexpr std::size_t kLongestText = 1024;
[[nodiscard]] std::string clean_name(std::string_view name);
// For a sentence.
[[nodiscard]] std::string clean_text(std::string_view text);
// For something that may have several lines and be long, like a log's message: bounded by nothing, and lines
// after the first begin with two spaces, so that none looks like one of the log's own.
[[nodiscard]] std::string clean_lines(std::string_view text);

}  // namespace ask
