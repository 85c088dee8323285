// SPDX-License-Identifier: Apache-2.0
//
// A TOML or JSON document as one kind of tree that remembers on which line each value stood, so that every
// complaint about a topology can say where.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"

namespace ask::topology {

struct Value {
    enum class Kind : std::uint8_t { kNull, kBool, kInteger, kReal, kString, kArray, kTable };

    struct Member;

    Kind kind = Kind::kNull;
    std::uint32_t line = 0;  // from 1; 0: none, as the whole document
    bool boolean = false;
    std::int64_t integer = 0;
    double real = 0;
    std::string text;
    std::vector<Value> items;     // of an array
    std::vector<Member> members;  // of a table, in the order of the file

    // Null if there is no such member.
    [[nodiscard]] const Value* find(std::string_view key) const;
};

struct Value::Member {
    std::string key;
    Value value;
};

// "a string", "a table", ... for error texts.
[[nodiscard]] std::string_view kind_name(Value::Kind kind);

enum class Format : std::uint8_t { kToml, kJson };

inline constexpr std::size_t kMaxDocumentBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxDocumentDepth = 16;

// Both fail with kInput; the text is "NAME:LINE: what is wrong". JSON objects with a repeated key are
// refused, as TOML refuses them.
Result<Value> read_toml(std::string_view text, const std::string& name);
Result<Value> read_json(std::string_view text, const std::string& name);

// By `name`'s extension (.toml, .json); otherwise by the first character that is not blank: JSON starts with
// '{'.
[[nodiscard]] Format guess_format(std::string_view text, std::string_view name);

// "NAME:LINE: TEXT" as an error of class kInput; without a line if that is 0.
[[nodiscard]] Error at_line(const std::string& name, std::uint32_t line, const std::string& text);

}  // namespace ask::topology
