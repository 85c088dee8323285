// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/input.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <utility>

namespace ask::cli {
namespace {

// Stays in a core's cache between being read and being parsed.
constexpr std::size_t kReadBytes = 256U << 10U;

bool is_stdin(const std::string& file) {
    return file == "-";
}

// In bytes; nothing if it is no regular file.
std::optional<double> regular_size(const std::string& file) {
    struct stat info{};
    const int got = is_stdin(file) ? ::fstat(STDIN_FILENO, &info) : ::stat(file.c_str(), &info);
    return got == 0 && S_ISREG(info.st_mode) ? std::optional(static_cast<double>(info.st_size))
                                             : std::nullopt;
}

bool is_regular_file(const std::string& file) {
    return regular_size(file).has_value();
}

// Of a regular file; what comes through a pipe comes but once.
Result<> check_start(const Input& input, const ContentRules& content) {
    if (!input.regular()) {
        return {};
    }
    std::array<char, 4096> start;
    const ssize_t count = ::pread(input.fd, start.data(), start.size(), input.start);
    const std::string_view bytes(start.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    return TextStream(input.name, content).feed(bytes, [](std::string_view) { return Result<>(); });
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
        input.start = std::max<off_t>(::lseek(input.fd, 0, SEEK_CUR), 0);
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

Result<> take_pipe(Input& input) {
    struct stat info{};
    if (::fstat(input.fd, &info) != 0 || !S_ISFIFO(info.st_mode)) {
        return {};
    }
    if (!input.owned) {
        // An open file of our own: flags and locks of the one that was inherited are its other owners', too.
        UniqueFd own(
            ::open(("/proc/self/fd/" + std::to_string(input.fd)).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
        if (!own) {
            return {};
        }
        input.owned = std::move(own);
        input.fd = input.owned.get();
    }
    if (::flock(input.fd, LOCK_EX | LOCK_NB) != 0) {
        return errno == EWOULDBLOCK
                   ? Error(Errc::kExists,
                           input.name +
                               ": another ask-send follows this pipe, and each would get a part of "
                               "its lines, cut anywhere: give each a pipe of its own")
                   : Error::from_errno(errno, input.name + ": lock the pipe");
    }
    return {};
}

void leave_pipe(const Input& input) {
    if (input.owned) {
        ::flock(input.fd, LOCK_UN);
    }
}

Result<> check_stop(int stop_fd) {
    return readable_now(stop_fd) ? Result<>(Error(Errc::kAborted, "interrupted")) : Result<>();
}

Result<> check_readable(const std::vector<std::string>& files, const ContentRules& content) {
    for (const std::string& file : files) {
        // A named pipe's writer would lose its reader when this look at it ends.
        struct stat info{};
        if (!is_stdin(file) && ::stat(file.c_str(), &info) == 0 && S_ISFIFO(info.st_mode)) {
            continue;
        }
        auto input = open_input(file);
        ASK_PASS(input);
        ASK_PASS(check_start(*input, content));
    }
    return {};
}

SendInputs::SendInputs(std::vector<std::string> files, InputRules rules, BadLines& bad,
                       std::size_t spool_bytes)
    : files_(std::move(files)),
      rules_(std::move(rules)),
      bad_(bad),
      room_(spool_bytes),
      can_repeat_(spool_bytes > 0 || std::ranges::all_of(files_, is_regular_file)),
      inputs_(files_.size()) {}

void SendInputs::begin_with(Input first) {
    inputs_.front() = std::move(first);
}

Result<> SendInputs::send(client::SendSession& session, int stop_fd) {
    bad_.begin();
    for (std::size_t i = 0; i < files_.size(); ++i) {
        current_ = i;
        ASK_PASS(open(i));
        ASK_PASS(send_input(session, *inputs_[i], stop_fd));
        // There may be more files than descriptors.
        if (inputs_[i]->owned && inputs_[i]->regular()) {
            inputs_[i].reset();
        }
    }
    current_ = files_.size();
    return {};
}

std::optional<double> SendInputs::share_read() const {
    double total = 0;
    double read = 0;
    for (std::size_t i = 0; i < files_.size(); ++i) {
        const auto size = regular_size(files_[i]);
        if (!size) {
            return std::nullopt;
        }
        total += *size;
        read += i < current_ ? *size : 0;
    }
    if (current_ < inputs_.size() && inputs_[current_]) {
        read += static_cast<double>(std::max<off_t>(::lseek(inputs_[current_]->fd, 0, SEEK_CUR), 0));
    }
    // A file may have grown since it was opened.
    return total > 0 ? std::optional(std::min(read / total, 1.0)) : std::nullopt;
}

// At its beginning, whether it has been read before or not.
Result<> SendInputs::open(std::size_t index) {
    std::optional<Input>& input = inputs_[index];
    if (!input) {
        auto opened = open_input(files_[index]);
        ASK_PASS(opened);
        input = *std::move(opened);
    }
    if (!input->regular()) {
        return {};
    }
    if (::lseek(input->fd, input->start, SEEK_SET) < 0) {
        return Error::from_errno(errno, input->name);
    }
    input->ended = false;
    return {};
}

// Room is for all inputs together, and what does not fit makes what was kept worthless.
Result<> SendInputs::keep(client::SendSession& session, Input& input, std::string_view bytes) {
    if (!can_repeat_ || input.regular()) {
        return {};
    }
    if (bytes.size() <= room_) {
        room_ -= bytes.size();
        input.head += bytes;
        return {};
    }
    can_repeat_ = false;
    for (std::optional<Input>& each : inputs_) {
        if (each) {
            each->head = std::string();
        }
    }
    return session.cannot_repeat();
}

Result<> SendInputs::send_input(client::SendSession& session, Input& input, int stop_fd) {
    LineParser parser(input.name, rules_.lines, &bad_);
    TextStream text(input.name, rules_.content);
    const auto tuples = [&session](std::span<const Tuple> some) { return session.send(some); };
    // A little that was read may be much text.
    const TextSink lines = [&](std::string_view piece) -> Result<> {
        ASK_PASS(check_stop(stop_fd));
        return parser.feed(piece, tuples);
    };
    ASK_PASS(text.feed(input.head, lines));
    if (!can_repeat_) {
        input.head = std::string();
    }
    const auto buffer = std::make_unique_for_overwrite<char[]>(kReadBytes);
    while (!input.ended) {
        ASK_PASS(check_stop(stop_fd));
        if (!readable_now(input.fd)) {
            ASK_PASS(session.wait_for_input(input.fd));
        }
        const ssize_t count = ::read(input.fd, buffer.get(), kReadBytes);
        if (count < 0 && errno != EINTR && errno != EAGAIN) {
            return Error::from_errno(errno, input.name);
        }
        input.ended = count == 0;
        if (count > 0) {
            const std::string_view bytes(buffer.get(), static_cast<std::size_t>(count));
            ASK_PASS(keep(session, input, bytes));
            ASK_PASS(text.feed(bytes, lines));
        }
    }
    ASK_PASS(text.finish(lines));
    return parser.finish(tuples);
}

}  // namespace ask::cli
