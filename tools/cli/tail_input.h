// SPDX-License-Identifier: Apache-2.0
//
// A file that grows, whole lines at a time, through what is done to logs: renamed, with a new file at its
// name (logrotate's create), or cut off (copytruncate).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace ask::cli {

// How far a file has been read; the file by what stays when it is renamed.
struct FilePlace {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t offset = 0;
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
    // Whole lines, borrowed until the next call; empty: none for the time being. A last line without its
    // newline waits, unless its file has lost its name.
    Result<std::string_view> next();
    // The same of what lies before `end`, which is in this file or in the one that took its name; empty: that
    // is all.
    Result<std::string_view> next_before(const FilePlace& end);

 private:
    explicit TailInput(Options options) : options_(std::move(options)) {}
    Result<> open_at(const FilePlace& place);
    Result<> enter(UniqueFd file, std::uint64_t offset);
    Result<std::string_view> read_lines(std::uint64_t end);
    // At the file's end: whether there is something to read now.
    Result<bool> look();
    void look_again_in(std::chrono::nanoseconds time);
    void tell(const std::string& news) const;

    Options options_;
    UniqueFd file_;
    UniqueFd timer_;
    FilePlace place_;
    std::string buffer_;
    bool nameless_ = false;                       // another file has its name
    std::chrono::steady_clock::time_point came_;  // the last bytes, or the loss of the name
};

}  // namespace ask::cli
