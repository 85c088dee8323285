// SPDX-License-Identifier: Apache-2.0
//
// The file of --stats: whole or not there at all, and known to be writable before the work starts.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace ask::cli {

class StatsFile {
 public:
    // Makes a temporary file beside `path`; what is no regular file (a pipe, /dev/stderr) is opened as it is.
    // An empty path gives one that writes nothing.
    static Result<StatsFile> create(const std::string& path);
    StatsFile(StatsFile&&) noexcept;
    StatsFile& operator=(StatsFile&&) = delete;
    // Removes the temporary file unless write() has succeeded.
    ~StatsFile();

    // Writes the content and gives the file its name.
    Result<> write(std::string_view content);

 private:
    StatsFile() = default;
    std::string path_;
    std::string temporary_;  // empty: none, or it has its name
    UniqueFd fd_;
};

}  // namespace ask::cli
