// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

#include "lib/text/decimal.h"
#include "lib/text/escape.h"

namespace ask::cli {
namespace {

constexpr std::size_t kFlushAt = 1U << 20;
// At once, where somebody wants to hear of it: a slow reader of a pipe is to be told from one that is stuck.
constexpr std::size_t kHeardPiece = 1U << 16;

}  // namespace

Result<> write_all(int fd, std::string_view bytes, const OnWritten& on_written) {
    const std::size_t most = on_written ? kHeardPiece : bytes.size();
    while (!bytes.empty()) {
        const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), most));
        if (written > 0) {
            bytes.remove_prefix(static_cast<std::size_t>(written));
            if (on_written) {
                ASK_PASS(on_written());
            }
            continue;
        }
        const int err = written == 0 ? ENOSPC : errno;
        if (err == EAGAIN) {
            // Somebody made the terminal or pipe non-blocking; as with a blocking one, its reader decides.
            pollfd poll_fd{fd, POLLOUT, 0};
            ::poll(&poll_fd, 1, -1);
        } else if (err != EINTR) {
            return Error::from_errno(err, "write");
        }
    }
    return {};
}

const std::vector<std::string>& result_format_names() {
    static const std::vector<std::string> kNames{"tsv", "csv", "json"};
    return kNames;
}

std::optional<ResultFormat> parse_result_format(std::string_view text) {
    const auto& names = result_format_names();
    const auto at = std::ranges::find(names, text);
    return at == names.end() ? std::nullopt : std::optional(static_cast<ResultFormat>(at - names.begin()));
}

ResultWriter::ResultWriter(int fd, const Style& style, OnWritten on_written)
    : fd_(fd), style_(style), on_written_(std::move(on_written)) {
    buffer_.reserve(kFlushAt + kFlushAt / 4);
    switch (style_.format) {
        case ResultFormat::kTsv:
            break;
        case ResultFormat::kCsv:
            buffer_ = style_.mean_decimals ? "key,mean,sum,count\r\n" : "key,value\r\n";
            break;
        case ResultFormat::kJson:
            buffer_ = "[";
            break;
    }
}

void ResultWriter::append_key(std::string_view key) {
    if (style_.format == ResultFormat::kTsv) {
        append_escaped(buffer_, key);
        return;
    }
    text_.clear();
    append_escaped_utf8(text_, key);
    const bool json = style_.format == ResultFormat::kJson;
    // Escaped, it has no line breaks, nor any other control characters that JSON would not take.
    if (!json && text_.find_first_of(",\"") == std::string::npos) {
        buffer_ += text_;
        return;
    }
    buffer_ += '"';
    for (const char c : text_) {
        if (c == '"') {
            buffer_ += json ? '\\' : '"';
        } else if (c == '\\' && json) {
            buffer_ += '\\';
        }
        buffer_ += c;
    }
    buffer_ += '"';
}

void ResultWriter::append_value(std::int64_t value) {
    if (style_.scale > 0) {
        append_scaled(buffer_, value, style_.scale);
        return;
    }
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    buffer_.append(digits.data(), end);
}

void ResultWriter::begin(std::string_view key) {
    if (style_.format == ResultFormat::kJson) {
        buffer_ += any_ ? ",\n{\"key\":" : "\n{\"key\":";
    }
    if (!style_.before_key.empty()) {
        buffer_ += style_.before_key;
        buffer_ += '\t';
    }
    append_key(key);
    any_ = true;
}

// What stands between two columns.
void ResultWriter::append_name(std::string_view name) {
    switch (style_.format) {
        case ResultFormat::kTsv:
            buffer_ += '\t';
            break;
        case ResultFormat::kCsv:
            buffer_ += ',';
            break;
        case ResultFormat::kJson:
            buffer_ += ",\"";
            buffer_ += name;
            buffer_ += "\":";
            break;
    }
}

Result<> ResultWriter::end() {
    switch (style_.format) {
        case ResultFormat::kTsv:
            buffer_ += '\n';
            break;
        case ResultFormat::kCsv:
            buffer_ += "\r\n";
            break;
        case ResultFormat::kJson:
            buffer_ += '}';
            break;
    }
    return buffer_.size() < kFlushAt ? Result<>() : flush();
}

Result<> ResultWriter::add(std::string_view key, std::int64_t value) {
    begin(key);
    append_name("value");
    append_value(value);
    return end();
}

Result<> ResultWriter::add(const client::Mean& mean) {
    begin(mean.key);
    append_name("mean");
    append_mean(buffer_, mean.sum, mean.count, style_.scale, style_.mean_decimals.value_or(0));
    append_name("sum");
    append_value(mean.sum);
    append_name("count");
    append_scaled(buffer_, mean.count, 0);
    return end();
}

Result<> ResultWriter::finish() {
    if (style_.format == ResultFormat::kJson) {
        buffer_ += any_ ? "\n]\n" : "]\n";
    }
    return flush();
}

Result<> ResultWriter::flush() {
    auto written = write_all(fd_, buffer_, on_written_);
    buffer_.clear();
    return written;
}

}  // namespace ask::cli
