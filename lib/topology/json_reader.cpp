// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <iterator>
#include <optional>

#include <nlohmann/json.hpp>

#include "lib/topology/document.h"

namespace ask::topology {
namespace {

// How far the parser has read. It reads one character beyond a number to see its end, and none beyond
// anything else; so the line *before* the last character is the line of what has just been read.
struct Position {
    std::uint32_t line = 1;
    char last = 0;

    void read(char c) {
        line += last == '\n' ? 1 : 0;
        last = c;
    }
};

// Feeds the parser and keeps the position, which its copies share.
class Cursor {
 public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    Cursor(const char* at, Position* position) : at_(at), position_(position) {}

    reference operator*() const { return *at_; }
    Cursor& operator++() {
        position_->read(*at_++);
        return *this;
    }
    Cursor operator++(int) {
        Cursor before = *this;
        ++*this;
        return before;
    }
    bool operator==(const Cursor& other) const { return at_ == other.at_; }
    bool operator!=(const Cursor& other) const { return at_ != other.at_; }

 private:
    const char* at_;
    Position* position_;
};

class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
    Builder(const std::string& name, const Position& position) : name_(name), position_(position) {}

    bool null() override { return add(Value{}); }
    bool boolean(bool value) override {
        Value made;
        made.kind = Value::Kind::kBool;
        made.boolean = value;
        return add(std::move(made));
    }
    bool number_integer(number_integer_t value) override {
        Value made;
        made.kind = Value::Kind::kInteger;
        made.integer = value;
        return add(std::move(made));
    }
    bool number_unsigned(number_unsigned_t value) override {
        if (value > static_cast<number_unsigned_t>(INT64_MAX)) {
            return number_float(static_cast<double>(value), {});
        }
        return number_integer(static_cast<number_integer_t>(value));
    }
    bool number_float(number_float_t value, const string_t& /*text*/) override {
        Value made;
        made.kind = Value::Kind::kReal;
        made.real = value;
        return add(std::move(made));
    }
    bool string(string_t& value) override {
        Value made;
        made.kind = Value::Kind::kString;
        made.text = std::move(value);
        return add(std::move(made));
    }
    bool binary(binary_t& /*value*/) override { return fail(position_.line, "binary data"); }
    bool start_object(std::size_t /*size*/) override { return open(Value::Kind::kTable); }
    bool end_object() override { return close(); }
    bool start_array(std::size_t /*size*/) override { return open(Value::Kind::kArray); }
    bool end_array() override { return close(); }
    bool key(string_t& value) override {
        if (open_.back().find(value) != nullptr) {
            return fail(position_.line, "'" + value + "' is given twice");
        }
        open_.back().members.push_back({std::move(value), Value{}});
        return true;
    }
    bool parse_error(std::size_t /*byte*/, const std::string& token,
                     const nlohmann::json::exception& /*error*/) override {
        return fail(position_.line, "this is not JSON" + (token.empty() ? "" : ", near '" + token + "'"));
    }

    [[nodiscard]] const std::optional<Error>& error() const { return error_; }
    Value take() { return std::move(done_); }

 private:
    bool fail(std::uint32_t line, const std::string& text) {
        error_ = at_line(name_, line, text);
        return false;
    }

    bool open(Value::Kind kind) {
        if (open_.size() == kMaxDocumentDepth) {
            return fail(position_.line,
                        "nested more than " + std::to_string(kMaxDocumentDepth) + " levels deep");
        }
        Value made;
        made.kind = kind;
        made.line = position_.line;
        open_.push_back(std::move(made));
        return true;
    }

    bool close() {
        Value made = std::move(open_.back());
        open_.pop_back();
        const std::uint32_t line = made.line;
        return place(std::move(made), line);
    }

    bool add(Value made) { return place(std::move(made), position_.line); }

    bool place(Value made, std::uint32_t line) {
        made.line = line;
        if (open_.empty()) {
            done_ = std::move(made);
        } else if (open_.back().kind == Value::Kind::kArray) {
            open_.back().items.push_back(std::move(made));
        } else {
            open_.back().members.back().value = std::move(made);
        }
        return true;
    }

    const std::string& name_;
    const Position& position_;
    std::vector<Value> open_;
    Value done_;
    std::optional<Error> error_;
};

}  // namespace

Result<Value> read_json(std::string_view text, const std::string& name) {
    Position position;
    Builder builder(name, position);
    const bool parsed = nlohmann::json::sax_parse(Cursor(text.data(), &position),
                                                  Cursor(text.data() + text.size(), &position), &builder);
    if (builder.error()) {
        return *builder.error();
    }
    if (!parsed) {
        return at_line(name, position.line, "this is not JSON");
    }
    return builder.take();
}

}  // namespace ask::topology
