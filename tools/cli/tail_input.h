// SPDX-License-Identifier: Apache-2.0
//
// A file that grows, whole lines at a time, through what is done to logs: renamed, with a new file at its
// name (logrotate's create), or cut off (copytruncate). Files that had the name in between are read too.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "tools/cli/rotated.h"

namespace ask::cli {

// How far a file has been read; the file by what stays when it is renamed.
struct FilePlace {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t offset = 0;
    std::uint64_t print = 0;  // of the last bytes before it; 0: not known, or none
    friend bool operator==(const FilePlace&, const FilePlace&) = default;
};

class TailInput {
 public:
    // That nothing more may come into a file that has lost its name.
    static constexpr std::chrono::milliseconds kLastWords{1'000};
    struct Options {
        std::string path{};
        std::optional<FilePlace> from{};  // unset: the file's beginning
        std::function<void(const std::string&)> on_news{};
        std::chrono::milliseconds last_words{kLastWords};
    };
    // kInput: no such file, or the one that was read has gone, or lacks what had been read of it.
    static Result<TailInput> open(Options options);

    // Readable when next() is worth a call.
    [[nodiscard]] int fd() const { return timer_.get(); }
    // Of what next() has not given.
    [[nodiscard]] const FilePlace& place() const { return place_; }
    // Where files were left, or cut off, since this was asked last, in their order.
    [[nodiscard]] std::vector<FilePlace> take_left() { return std::exchange(left_, {}); }
    // Files that were lost before they could be read.
    [[nodiscard]] std::uint64_t lost() const { return lost_.size(); }
    // Whole lines, borrowed until the next call; empty: none for the time being. A last line without its
    // newline waits, unless its file has lost its name.
    Result<std::string_view> next();
    // The same of what lies before `end`, which is in this file or in the next one; empty: that is all.
    // kInput: it is not there any more.
    Result<std::string_view> next_before(const FilePlace& end);

 private:
    struct Done {
        LogFile file{};
        FilePlace place{};
    };
    explicit TailInput(Options options) : options_(std::move(options)) {}
    Result<> open_at(const FilePlace& place);
    Result<> enter(UniqueFd file, const FilePlace& place);
    // Whole lines from here on, none beyond `end`. Nothing, if what was read before is not there any more.
    Result<std::optional<std::string_view>> read_lines(std::uint64_t end);
    void advance(std::string_view read);
    // At the file's end, with half a line there perhaps: whether that has grown.
    bool has_grown();
    // At the file's end: whether there is something to read now. `over`: nothing more will come to this file.
    Result<bool> look(bool over);
    // To the file that comes after this one, which has lost its name.
    Result<bool> move_on();
    [[nodiscard]] const Done* done(const LogFile& file) const;
    void leave(const LogFile& file, const RotatedFiles& others);
    void say_lost(const std::vector<LogFile>& files);
    void begin_again();
    void look_again_in(std::chrono::nanoseconds time);
    void tell(const std::string& news) const;

    Options options_;
    UniqueFd file_;
    UniqueFd timer_;
    FilePlace place_;
    std::string buffer_;
    std::string before_;  // the last bytes before the place
    std::vector<FilePlace> left_;
    std::vector<Done> done_;
    std::vector<LogFile> lost_;
    std::optional<std::size_t> unfinished_ = 0;  // bytes behind the last whole line; unset: whatever is there
    bool nameless_ = false;                      // another file has its name
    std::chrono::steady_clock::time_point came_;  // the last bytes, or the loss of the name
};

}  // namespace ask::cli
