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

LineWriter::LineWriter(int fd, unsigned scale, OnWritten on_written)
    : fd_(fd), scale_(scale), on_written_(std::move(on_written)) {
    buffer_.reserve(kFlushAt + kFlushAt / 4);
}

Result<> LineWriter::line(std::string_view key, std::int64_t value) {
    append_escaped(buffer_, key);
    buffer_ += '\t';
    if (scale_ == 0) {
        std::array<char, 24> digits{};
        const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
        buffer_.append(digits.data(), end);
    } else {
        append_scaled(buffer_, value, scale_);
    }
    buffer_ += '\n';
    return buffer_.size() < kFlushAt ? Result<>() : flush();
}

Result<> LineWriter::flush() {
    auto written = write_all(fd_, buffer_, on_written_);
    buffer_.clear();
    return written;
}

}  // namespace ask::cli
