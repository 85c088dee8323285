// SPDX-License-Identifier: Apache-2.0
//
// Files beside a log that were the log before: FILE.1, FILE-20261128, FILE.old.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/unique_fd.h"

namespace ask::cli {

// Times in nanoseconds of the epoch.
struct LogFile {
    std::string name{};  // empty: unknown, or none any more
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t written = 0;
    std::int64_t changed = 0;  // also its name
    std::int64_t born = 0;     // 0: the file system does not say
    // An inode's number is given again.
    [[nodiscard]] bool is(const LogFile& other) const {
        return inode == other.inode && device == other.device && born == other.born;
    }
};

struct RotatedFiles {
    std::vector<LogFile> whole;
    std::vector<LogFile> compressed;
};

std::optional<LogFile> log_file(int fd);
// Of the log at `path`, by their names; none while names change, or where the folder cannot be read.
std::optional<RotatedFiles> rotated_files(const std::string& path);
// Empty: it has another file's name by now.
UniqueFd open_rotated(const std::string& path, const LogFile& file);

// The oldest that came after `old`, that is not the one at the log's name, and not one that is `done`.
std::optional<LogFile> rotated_after(const RotatedFiles& files, LogFile old, const LogFile& named,
                                     const std::function<bool(const LogFile&)>& done);
// Compressed ones that came after `old`.
std::vector<LogFile> lost_after(const RotatedFiles& files, LogFile old);

}  // namespace ask::cli
