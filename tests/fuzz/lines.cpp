// SPDX-License-Identifier: Apache-2.0
//
// Input lines: cut into any pieces they give the tuples and the error of the whole, and an escaped key is
// read as what it was.
#include <string>
#include <utility>
#include <vector>

#include "lib/text/escape.h"
#include "lib/text/line_parser.h"
#include "tests/fuzz/fuzz.h"

namespace ask::fuzz {
namespace {

struct Outcome {
    std::vector<std::pair<std::string, std::int64_t>> tuples;
    std::uint64_t lines = 0;
    std::string error;
    bool operator==(const Outcome&) const = default;
};

Outcome read(LineForm form, const std::vector<std::string_view>& pieces) {
    Outcome outcome;
    LineParser parser("in", form);
    const auto sink = [&](std::span<const Tuple> tuples) -> Result<> {
        for (const Tuple& tuple : tuples) {
            require(tuple.head == Tuple(tuple.key, 0).head, "a key's head is its first bytes");
            outcome.tuples.emplace_back(tuple.key, tuple.value);
        }
        return {};
    };
    Result<> done;
    for (const std::string_view piece : pieces) {
        if (done.ok()) {
            done = parser.feed(piece, sink);
        }
    }
    if (done.ok()) {
        done = parser.finish(sink);
    }
    outcome.error = done.ok() ? "" : done.error().text();
    outcome.lines = parser.lines();
    return outcome;
}

void check_escape(std::string_view key) {
    const std::string text = escaped(key);
    require(text.find_first_of("\t\n\r") == std::string::npos, "an escaped key has neither TAB nor line end");
    std::string back;
    require(!append_unescaped(back, text), "what was escaped is read back");
    require(back == key, "a key is its escaped form, read back");
    std::string any;
    if (const auto bad = append_unescaped(any, key)) {
        require(*bad < key.size() && key[*bad] == '\\', "a bad escape is where its backslash is");
    }
}

}  // namespace
}  // namespace ask::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace ask::fuzz;
    Input input(data, size);
    const ask::LineForm form = input.flag() ? ask::LineForm::kKey : ask::LineForm::kKeyValue;
    std::vector<std::size_t> cuts(input.below(8));
    for (std::size_t& cut : cuts) {
        cut = input.take<std::uint8_t>();
    }
    const std::string_view text = input.rest();
    std::vector<std::string_view> pieces;
    std::string_view left = text;
    for (const std::size_t cut : cuts) {
        pieces.push_back(left.substr(0, cut));
        left.remove_prefix(std::min(cut, left.size()));
    }
    pieces.push_back(left);

    const Outcome whole = read(form, {text});
    require(whole == read(form, pieces), "pieces give what the whole gives");
    for (const auto& [key, value] : whole.tuples) {
        const std::string line =
            ask::escaped(key) + (form == ask::LineForm::kKey ? "" : "\t" + std::to_string(value));
        const Outcome again = read(form, {line});
        require(key.empty() || again == Outcome{{{key, value}}, 1, ""},
                "a tuple, written, is read as it was");
    }
    check_escape(text);
    return 0;
}
