// SPDX-License-Identifier: Apache-2.0
//
// Results to a file descriptor, in large writes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/client/means.h"

namespace ask::cli {

// Called whenever a descriptor has taken something; an error ends the writing.
using OnWritten = std::function<Result<>()>;

// Writes all of `bytes`, however many calls it takes.
Result<> write_all(int fd, std::string_view bytes, const OnWritten& on_written = {});

enum class ResultFormat : std::uint8_t {
    kTsv,   // key<TAB>value
    kCsv,   // RFC 4180, with a header
    kJson,  // one list of objects, one of them a line
};
[[nodiscard]] const std::vector<std::string>& result_format_names();
[[nodiscard]] std::optional<ResultFormat> parse_result_format(std::string_view text);

// A result, key by key. Keys are escaped in all formats (lib/text/escape.h); CSV and JSON are UTF-8, whatever
// the keys.
class ResultWriter {
 public:
    struct Style {
        ResultFormat format = ResultFormat::kTsv;
        unsigned scale = 0;  // values are printed divided by 10^scale, with just so many decimals
        std::optional<unsigned> mean_decimals{};  // of means; unset: the result has values
        std::string before_key{};  // the first column of each line, of kTsv; empty: there is none
    };
    ResultWriter(int fd, const Style& style, OnWritten on_written = {});
    // Fails when the descriptor cannot take what has gathered.
    Result<> add(std::string_view key, std::int64_t value);
    // Of a result of means: the mean, what it is the mean of, and of how many.
    Result<> add(const client::Mean& mean);
    // What belongs behind the last one, and all that has gathered.
    Result<> finish();

 private:
    void begin(std::string_view key);
    Result<> end();
    void append_key(std::string_view key);
    void append_name(std::string_view name);
    void append_value(std::int64_t value);
    Result<> flush();

    int fd_;
    Style style_;
    OnWritten on_written_;
    std::string buffer_;
    std::string text_;  // of a key
    bool any_ = false;
};

}  // namespace ask::cli
