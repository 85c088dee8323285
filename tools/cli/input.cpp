// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/input.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

namespace ask::cli {
namespace {

constexpr std::size_t kReadBytes = 1U << 20;

bool is_stdin(const std::string& file) {
    return file == "-";
}

bool readable_now(int fd) {
    pollfd poll_fd{fd, POLLIN, 0};
    return ::poll(&poll_fd, 1, 0) == 1;
}

}  // namespace

bool Input::regular() const {
    struct stat info{};
    return ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

Result<Input> open_input(const std::string& file) {
    Input input;
    if (is_stdin(file)) {
        input.name = "(standard input)";
        input.fd = STDIN_FILENO;
        return input;
    }
    input.name = file;
    // Non-blocking: opening a named pipe must not wait for its writer where Ctrl-C cannot reach.
    input.owned.reset(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!input.owned) {
        const int err = errno;
        Error error = Error::from_errno(err, file);
        return err == ENOENT ? Error(Errc::kInput, error.text()) : std::move(error);
    }
    input.fd = input.owned.get();
    struct stat info{};
    if (::fstat(input.fd, &info) == 0 && S_ISDIR(info.st_mode)) {
        return Error(Errc::kInput, file + ": is a directory");
    }
    return input;
}

Result<> check_stop(int stop_fd) {
    return readable_now(stop_fd) ? Result<>(Error(Errc::kAborted, "interrupted")) : Result<>();
}

Result<> check_readable(const std::vector<std::string>& files) {
    for (const std::string& file : files) {
        // A named pipe's writer would lose its reader when this look at it ends.
        struct stat info{};
        if (!is_stdin(file) && ::stat(file.c_str(), &info) == 0 && S_ISFIFO(info.st_mode)) {
            continue;
        }
        if (auto input = open_input(file); !input) {
            return std::move(input).error();
        }
    }
    return {};
}

Result<> send_input(client::SendSession& session, Input input, LineForm form, int stop_fd) {
    LineParser parser(input.name, form);
    const auto sink = [&session](std::string_view key, std::int64_t value) {
        return session.send(key, value);
    };
    if (auto fed = parser.feed(input.head, sink); !fed) {
        return fed;
    }
    const auto buffer = std::make_unique_for_overwrite<char[]>(kReadBytes);
    while (!input.ended) {
        if (auto go_on = check_stop(stop_fd); !go_on) {
            return go_on;
        }
        if (!readable_now(input.fd)) {
            if (auto ready = session.wait_for_input(input.fd); !ready) {
                return ready;
            }
        }
        const ssize_t count = ::read(input.fd, buffer.get(), kReadBytes);
        if (count < 0 && errno != EINTR && errno != EAGAIN) {
            return Error::from_errno(errno, input.name);
        }
        input.ended = count == 0;
        if (count > 0) {
            if (auto fed = parser.feed({buffer.get(), static_cast<std::size_t>(count)}, sink); !fed) {
                return fed;
            }
        }
    }
    return parser.finish(sink);
}

}  // namespace ask::cli
