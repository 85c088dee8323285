// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/tail_input.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <utility>

namespace ask::cli {
namespace {

using TailClock = std::chrono::steady_clock;

constexpr std::size_t kTailPiece = 64U << 10U;
// Longer lines are handed on in pieces, for whoever parses them to refuse.
constexpr std::size_t kLongestLine = 1U << 20U;
constexpr std::chrono::milliseconds kTailEvery{100};

Error no_place(const std::string& text) {
    return {Errc::kInput, text};
}

bool same_file(const struct stat& info, const FilePlace& place) {
    return info.st_dev == place.device && info.st_ino == place.inode;
}

UniqueFd open_to_read(const std::string& path) {
    return UniqueFd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
}

// The file, by whatever name beside `path` it goes: logs keep their directory when they are renamed.
UniqueFd find_file(const std::string& path, const FilePlace& place) {
    const auto slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder.c_str()), &::closedir);
    if (!listing) {
        return {};
    }
    // One thread reads it.
    while (const dirent* const entry = ::readdir(listing.get())) {  // NOLINT(concurrency-mt-unsafe)
        if (entry->d_ino != place.inode) {
            continue;
        }
        UniqueFd file(::openat(::dirfd(listing.get()), static_cast<const char*>(entry->d_name),
                               O_RDONLY | O_NONBLOCK | O_CLOEXEC));
        struct stat info{};
        if (file && ::fstat(file.get(), &info) == 0 && same_file(info, place)) {
            return file;
        }
    }
    return {};
}

}  // namespace

Result<TailInput> TailInput::open(Options options) {
    TailInput input(std::move(options));
    input.timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!input.timer_) {
        return Error::from_errno(errno, "make a timer");
    }
    input.look_again_in(std::chrono::nanoseconds(1));
    if (input.options_.from) {
        ASK_PASS(input.open_at(*input.options_.from));
        return input;
    }
    UniqueFd file = open_to_read(input.options_.path);
    if (!file) {
        return no_place(Error::from_errno(errno, input.options_.path).text());
    }
    ASK_PASS(input.enter(std::move(file), 0));
    return input;
}

Result<> TailInput::open_at(const FilePlace& place) {
    UniqueFd file = find_file(options_.path, place);
    struct stat info{};
    if (!file || ::fstat(file.get(), &info) != 0) {
        return no_place(options_.path + ": the file that was read last, inode " +
                        std::to_string(place.inode) +
                        ", is not beside it any more: what had come from it cannot be read again");
    }
    if (static_cast<std::uint64_t>(info.st_size) < place.offset) {
        return no_place(options_.path + ": it has " + std::to_string(info.st_size) + " bytes, of which " +
                        std::to_string(place.offset) + " had been read: it was cut off meanwhile");
    }
    return enter(std::move(file), place.offset);
}

Result<> TailInput::enter(UniqueFd file, std::uint64_t offset) {
    struct stat info{};
    if (::fstat(file.get(), &info) != 0) {
        return Error::from_errno(errno, options_.path);
    }
    if (!S_ISREG(info.st_mode)) {
        return no_place(options_.path + ": is no regular file");
    }
    file_ = std::move(file);
    place_ = {.device = info.st_dev, .inode = info.st_ino, .offset = offset};
    nameless_ = false;
    came_ = TailClock::now();
    return {};
}

void TailInput::look_again_in(std::chrono::nanoseconds time) {
    const itimerspec when{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = time.count()}};
    ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

void TailInput::tell(const std::string& news) const {
    if (options_.on_news) {
        options_.on_news(options_.path + ": " + news);
    }
}

// Whole lines from here on, none beyond `end`.
Result<std::string_view> TailInput::read_lines(std::uint64_t end) {
    for (std::size_t size = kTailPiece;; size *= 2) {
        const std::size_t most = std::min<std::uint64_t>(size, end - place_.offset);
        buffer_.resize(most);
        const ssize_t count = ::pread(file_.get(), buffer_.data(), most, static_cast<off_t>(place_.offset));
        if (count < 0) {
            return Error::from_errno(errno, options_.path);
        }
        buffer_.resize(static_cast<std::size_t>(count));
        const auto newline = buffer_.rfind('\n');
        if (newline != std::string::npos) {
            buffer_.resize(newline + 1);
            return std::string_view(buffer_);
        }
        if (buffer_.size() < most || most < size || size >= kLongestLine) {
            return buffer_.size() >= kLongestLine ? std::string_view(buffer_) : std::string_view();
        }
    }
}

Result<std::string_view> TailInput::next() {
    for (;;) {
        auto lines = read_lines(UINT64_MAX);
        ASK_PASS(lines);
        if (!lines->empty()) {
            place_.offset += lines->size();
            came_ = TailClock::now();
            look_again_in(std::chrono::nanoseconds(1));
            return lines;
        }
        const bool rest = nameless_ && TailClock::now() - came_ >= options_.last_words && !buffer_.empty();
        if (rest) {
            // Nothing more will come to it.
            place_.offset += buffer_.size();
            buffer_ += '\n';
            return std::string_view(buffer_);
        }
        const auto more = look();
        ASK_PASS(more);
        if (!*more) {
            look_again_in(kTailEvery);
            return std::string_view();
        }
    }
}

Result<bool> TailInput::look() {
    struct stat info{};
    if (::fstat(file_.get(), &info) != 0) {
        return Error::from_errno(errno, options_.path);
    }
    if (static_cast<std::uint64_t>(info.st_size) < place_.offset) {
        tell("was cut off: read from its beginning");
        place_.offset = 0;
        return info.st_size > 0;
    }
    struct stat named{};
    if (::stat(options_.path.c_str(), &named) != 0 || same_file(named, place_)) {
        nameless_ = false;
        return false;
    }
    if (!std::exchange(nameless_, true)) {
        came_ = TailClock::now();
    }
    if (TailClock::now() - came_ < options_.last_words) {
        return false;
    }
    UniqueFd file = open_to_read(options_.path);
    if (!file) {
        return false;
    }
    ASK_PASS(enter(std::move(file), 0));
    return true;
}

Result<std::string_view> TailInput::next_before(const FilePlace& end) {
    const bool here = place_.device == end.device && place_.inode == end.inode;
    if (here && place_.offset >= end.offset) {
        return std::string_view();
    }
    auto lines = read_lines(here ? end.offset : UINT64_MAX);
    ASK_PASS(lines);
    if (!lines->empty()) {
        place_.offset += lines->size();
        return lines;
    }
    if (!buffer_.empty()) {
        place_.offset += buffer_.size();
        buffer_ += '\n';
        return std::string_view(buffer_);
    }
    if (here) {
        return no_place(options_.path + ": lines that had been read are not there any more");
    }
    FilePlace begin = end;
    begin.offset = 0;
    ASK_PASS(open_at(begin));
    return next_before(end);
}

}  // namespace ask::cli
