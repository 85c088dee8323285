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
// As many as rotation keeps, and more.
constexpr std::size_t kMostDone = 4096;

Error no_place(const std::string& text) {
    return {Errc::kInput, text};
}

Error lines_gone(const std::string& path) {
    return no_place(path + ": lines that had been read are not there any more");
}

// Of lines that repeat themselves with no time in them, one is as good as another.
constexpr std::size_t kBefore = 64;

// FNV-1a.
std::uint64_t print_of(std::string_view bytes) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const char byte : bytes) {
        hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
    }
    return bytes.empty() ? 0 : hash;
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
    ASK_PASS(input.enter(std::move(file), {}));
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
    ASK_PASS(enter(std::move(file), place));
    if (place.print != 0 && place_.print != place.print) {
        return no_place(options_.path + ": what is before byte " + std::to_string(place.offset) +
                        " is not what had been read: it was cut off meanwhile");
    }
    return {};
}

Result<> TailInput::enter(UniqueFd file, const FilePlace& place) {
    const auto info = log_file(file.get());
    if (!info) {
        return no_place(options_.path + ": is no regular file");
    }
    before_.resize(std::min<std::uint64_t>(place.offset, kBefore));
    const ssize_t count = ::pread(file.get(), before_.data(), before_.size(),
                                  static_cast<off_t>(place.offset - before_.size()));
    if (count < 0) {
        return Error::from_errno(errno, options_.path);
    }
    file_ = std::move(file);
    place_ = {
        .device = info->device, .inode = info->inode, .offset = place.offset, .print = print_of(before_)};
    nameless_ = false;
    unfinished_ = 0;
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

Result<std::optional<std::string_view>> TailInput::read_lines(std::uint64_t end) {
    using Lines = std::optional<std::string_view>;
    const std::size_t known = before_.size();
    for (std::size_t size = kTailPiece;; size *= 2) {
        const std::size_t most = std::min<std::uint64_t>(size, end - place_.offset);
        buffer_.resize(known + most);
        // One read: nothing is cut off between the check and the lines.
        const ssize_t count =
            ::pread(file_.get(), buffer_.data(), buffer_.size(), static_cast<off_t>(place_.offset - known));
        if (count < 0) {
            return Error::from_errno(errno, options_.path);
        }
        buffer_.resize(static_cast<std::size_t>(count));
        if (!buffer_.starts_with(before_)) {
            buffer_.clear();
            return Lines();
        }
        buffer_.erase(0, known);
        const auto newline = buffer_.rfind('\n');
        if (newline != std::string::npos) {
            buffer_.resize(newline + 1);
            return Lines(buffer_);
        }
        if (buffer_.size() < most || most < size || size >= kLongestLine) {
            return Lines(buffer_.size() >= kLongestLine ? std::string_view(buffer_) : std::string_view());
        }
    }
}

void TailInput::advance(std::string_view read) {
    place_.offset += read.size();
    before_ += read.substr(read.size() - std::min(read.size(), kBefore));
    before_.erase(0, before_.size() - std::min(before_.size(), kBefore));
    place_.print = print_of(before_);
    unfinished_ = 0;
    came_ = TailClock::now();
}

void TailInput::begin_again() {
    tell("was cut off: read from its beginning");
    left_.push_back(place_);
    before_.clear();
    place_.offset = 0;
    place_.print = 0;
    unfinished_ = 0;
}

bool TailInput::has_grown() {
    const bool grown = unfinished_ && *unfinished_ != buffer_.size();
    unfinished_ = buffer_.size();
    if (grown) {
        came_ = TailClock::now();
    }
    return grown;
}

Result<std::string_view> TailInput::next() {
    for (;;) {
        // Told before the file is read: what comes to it after that reading is never behind its end.
        const bool quiet = nameless_ && TailClock::now() - came_ >= options_.last_words;
        const auto lines = read_lines(UINT64_MAX);
        ASK_PASS(lines);
        if (!*lines) {
            begin_again();
            continue;
        }
        if (!(*lines)->empty()) {
            advance(**lines);
            look_again_in(std::chrono::nanoseconds(1));
            return **lines;
        }
        // Whoever was held up for longer than that has not seen half a line come.
        const bool over = !has_grown() && quiet;
        if (over && !buffer_.empty()) {
            // Nothing more will come to it.
            const auto came = came_;
            advance(buffer_);
            came_ = came;
            buffer_ += '\n';
            return std::string_view(buffer_);
        }
        const auto more = look(over);
        ASK_PASS(more);
        if (!*more) {
            look_again_in(kTailEvery);
            return std::string_view();
        }
    }
}

Result<bool> TailInput::look(bool over) {
    struct stat named{};
    if (::stat(options_.path.c_str(), &named) != 0 || same_file(named, place_)) {
        nameless_ = false;
        return false;
    }
    if (!std::exchange(nameless_, true)) {
        came_ = TailClock::now();
    }
    return over ? move_on() : Result<bool>(false);
}

Result<bool> TailInput::move_on() {
    UniqueFd file = open_to_read(options_.path);
    const auto named = file ? log_file(file.get()) : std::nullopt;
    const auto old = log_file(file_.get());
    const auto files = rotated_files(options_.path);
    struct stat still{};
    // Names that change are looked at again when they have settled.
    if (!named || !old || !files || ::stat(options_.path.c_str(), &still) != 0 ||
        still.st_ino != named->inode || still.st_dev != named->device) {
        return false;
    }
    const auto next =
        rotated_after(*files, *old, *named, [this](const LogFile& each) { return done(each) != nullptr; });
    if (next) {
        file = open_rotated(options_.path, *next);
        if (!file) {
            return false;
        }
    }
    say_lost(lost_after(*files, *old));
    leave(*old, *files);
    // One that has its name again is not read again.
    const Done* const before = next ? nullptr : done(*named);
    ASK_PASS(enter(std::move(file), before != nullptr ? before->place : FilePlace{}));
    if (next) {
        // Nothing has come to it since its name was changed, or longer.
        const std::chrono::nanoseconds changed(next->changed);
        const auto quiet = std::chrono::system_clock::now().time_since_epoch() - changed;
        came_ -= std::max<TailClock::duration>(quiet, TailClock::duration::zero());
        unfinished_.reset();
        nameless_ = true;
    }
    return true;
}

const TailInput::Done* TailInput::done(const LogFile& file) const {
    const auto found = std::ranges::find_if(done_, [&file](const Done& each) { return each.file.is(file); });
    return found == done_.end() ? nullptr : &*found;
}

void TailInput::leave(const LogFile& file, const RotatedFiles& others) {
    left_.push_back(place_);
    // Where births are not known, the inode of one that is gone may be another file's.
    std::erase_if(done_, [&](const Done& each) {
        const bool there =
            std::ranges::any_of(others.whole, [&each](const LogFile& other) { return other.is(each.file); });
        return each.file.is(file) || (each.file.born == 0 && !there);
    });
    if (done_.size() >= kMostDone) {
        done_.erase(done_.begin());
    }
    done_.push_back({.file = file, .place = place_});
}

void TailInput::say_lost(const std::vector<LogFile>& files) {
    for (const LogFile& file : files) {
        if (std::ranges::any_of(lost_, [&file](const LogFile& told) { return told.is(file); })) {
            continue;
        }
        tell(file.name + " was rotated before its end was read: its lines are in no window");
        lost_.push_back(file);
    }
}

Result<std::string_view> TailInput::next_before(const FilePlace& end) {
    const bool here = place_.device == end.device && place_.inode == end.inode;
    if (here && place_.offset == end.offset && (end.print == 0 || end.print == place_.print)) {
        return std::string_view();
    }
    if (here && place_.offset >= end.offset) {
        return lines_gone(options_.path);
    }
    const auto lines = read_lines(here ? end.offset : UINT64_MAX);
    ASK_PASS(lines);
    if (*lines && !(*lines)->empty()) {
        advance(**lines);
        return **lines;
    }
    if (!buffer_.empty()) {
        advance(buffer_);
        buffer_ += '\n';
        return std::string_view(buffer_);
    }
    if (here || !*lines) {
        return lines_gone(options_.path);
    }
    FilePlace begin = end;
    begin.offset = 0;
    begin.print = 0;
    ASK_PASS(open_at(begin));
    return next_before(end);
}

}  // namespace ask::cli
