// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/schema.h"

#include <algorithm>
#include <utility>

#include "lib/text/suggest.h"

namespace ask::topology {
namespace {

std::string number_text(const Value& value) {
    return value.kind == Value::Kind::kInteger ? std::to_string(value.integer) : std::to_string(value.real);
}

}  // namespace

const Value* Value::find(std::string_view key) const {
    const auto found =
        std::find_if(members.begin(), members.end(), [key](const auto& m) { return m.key == key; });
    return found == members.end() ? nullptr : &found->value;
}

std::string_view kind_name(Value::Kind kind) {
    switch (kind) {
        case Value::Kind::kNull:
            return "no value";
        case Value::Kind::kBool:
            return "a boolean";
        case Value::Kind::kInteger:
            return "a whole number";
        case Value::Kind::kReal:
            return "a number";
        case Value::Kind::kString:
            return "a string";
        case Value::Kind::kArray:
            return "an array";
        case Value::Kind::kTable:
            return "a table";
    }
    return "something";
}

Error at_line(const std::string& name, std::uint32_t line, const std::string& text) {
    // What is missing stands on no line.
    return {Errc::kInput, name + (line == 0 ? "" : ":" + std::to_string(line)) + ": " + text};
}

Format guess_format(std::string_view text, std::string_view name) {
    if (name.ends_with(".json")) {
        return Format::kJson;
    }
    if (name.ends_with(".toml")) {
        return Format::kToml;
    }
    const auto first = text.find_first_not_of(" \t\r\n");
    return first != std::string_view::npos && text[first] == '{' ? Format::kJson : Format::kToml;
}

TableReader::TableReader(const Value& table, std::string source, std::string what)
    : table_(table), source_(std::move(source)), what_(std::move(what)) {}

const Value* TableReader::take(std::string_view key) {
    known_.push_back(key);
    return error_ ? nullptr : table_.find(key);
}

void TableReader::fail(std::uint32_t line, const std::string& text) {
    if (!error_) {
        error_ = at_line(source_, line, (what_.empty() ? "" : what_ + ": ") + text);
    }
}

void TableReader::fail_kind(std::string_view key, const Value& value, std::string_view want) {
    fail(value.line,
         std::string(key) + " must be " + std::string(want) + ", not " + std::string(kind_name(value.kind)));
}

void TableReader::text(std::string_view key, std::string& out) {
    constexpr std::size_t kLongest = 255;
    const Value* value = take(key);
    if (value == nullptr) {
        return;
    }
    if (value->kind != Value::Kind::kString) {
        return fail_kind(key, *value, "a string");
    }
    const bool printable = std::none_of(value->text.begin(), value->text.end(),
                                        [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; });
    if (value->text.empty() || value->text.size() > kLongest || !printable) {
        return fail(value->line, std::string(key) + " must be 1 to 255 bytes without control characters");
    }
    out = value->text;
}

void TableReader::real(std::string_view key, double& out, double low, double high, std::string_view unit) {
    const Value* value = take(key);
    if (value == nullptr) {
        return;
    }
    if (value->kind != Value::Kind::kInteger && value->kind != Value::Kind::kReal) {
        return fail_kind(key, *value, "a number of " + std::string(unit));
    }
    const double number =
        value->kind == Value::Kind::kInteger ? static_cast<double>(value->integer) : value->real;
    if (!(number >= low && number <= high)) {  // a NaN is not in any range
        std::string range = low > 0 ? "more than zero" : "zero or more";
        return fail(value->line, std::string(key) + " " + number_text(*value) + " is not a number of " +
                                     std::string(unit) + " that is " + range + " and in range");
    }
    out = number;
}

void TableReader::count(std::string_view key, std::uint64_t& out, std::uint64_t high) {
    const Value* value = take(key);
    if (value == nullptr) {
        return;
    }
    const bool number = value->kind == Value::Kind::kInteger || value->kind == Value::Kind::kReal;
    if (!number) {
        return fail_kind(key, *value, "a whole number");
    }
    if (value->kind != Value::Kind::kInteger || value->integer < 0 ||
        static_cast<std::uint64_t>(value->integer) > high) {
        return fail(value->line, std::string(key) + " " + number_text(*value) +
                                     " is not a whole number from 0 to " + std::to_string(high));
    }
    out = static_cast<std::uint64_t>(value->integer);
}

void TableReader::flag(std::string_view key, bool& out) {
    const Value* value = take(key);
    if (value == nullptr) {
        return;
    }
    if (value->kind != Value::Kind::kBool) {
        return fail_kind(key, *value, "true or false");
    }
    out = value->boolean;
}

void TableReader::names(std::string_view key, std::optional<std::vector<std::string>>& out) {
    const Value* value = take(key);
    if (value == nullptr) {
        return;
    }
    if (value->kind != Value::Kind::kArray) {
        return fail_kind(key, *value, "an array of names");
    }
    out.emplace();
    for (const Value& item : value->items) {
        if (item.kind != Value::Kind::kString) {
            return fail(item.line, std::string(key) + " holds " + std::string(kind_name(item.kind)) +
                                       "; it wants names");
        }
        out->push_back(item.text);
    }
}

const Value* TableReader::any(std::string_view key) {
    return take(key);
}

void TableReader::require(std::string_view key) {
    if (!error_ && table_.find(key) == nullptr) {
        fail(table_.line, "needs '" + std::string(key) + "'");
    }
}

Result<> TableReader::finish() {
    if (error_) {
        return *error_;
    }
    const auto unknown =
        std::find_if(table_.members.begin(), table_.members.end(), [this](const auto& member) {
            return std::find(known_.begin(), known_.end(), member.key) == known_.end();
        });
    if (unknown != table_.members.end()) {
        std::string list;
        for (const std::string_view name : known_) {
            list.append(list.empty() ? "" : ", ").append(name);
        }
        const std::vector<std::string> names(known_.begin(), known_.end());
        fail(unknown->value.line,
             "unknown key '" + unknown->key + "'" + suggestion(unknown->key, names) + "; known: " + list);
        return *error_;
    }
    return {};
}

Result<std::vector<const Value*>> tables_of(const Value* array, const std::string& source,
                                            std::string_view key) {
    std::vector<const Value*> out;
    if (array == nullptr) {
        return out;
    }
    if (array->kind != Value::Kind::kArray) {
        return at_line(
            source, array->line,
            std::string(key) + " must be an array of tables, not " + std::string(kind_name(array->kind)));
    }
    for (const Value& item : array->items) {
        if (item.kind != Value::Kind::kTable) {
            return at_line(
                source, item.line,
                std::string(key) + " holds " + std::string(kind_name(item.kind)) + "; it wants tables");
        }
        out.push_back(&item);
    }
    return out;
}

}  // namespace ask::topology
