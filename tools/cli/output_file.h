// SPDX-License-Identifier: Apache-2.0
//
// A file of --output or --stats: whole or not there at all, and known to be writable before the work starts.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace ask::cli {

class OutputFile {
 public:
    // Makes a temporary file beside the file that `path` leads to, through however many links: these stay.
    // What is no regular file, or another process's view of one (a pipe, /dev/stderr), is opened and written
    // to as it is: nothing but a regular file is ever replaced. An empty path gives one that writes nothing.
    // `what` names it in errors. kUsage: there is no such directory, or the path is one.
    static Result<OutputFile> create(std::string what, const std::string& path);
    OutputFile(OutputFile&&) noexcept;
    OutputFile& operator=(OutputFile&&) = delete;
    // Removes the temporary file unless finish() has succeeded.
    ~OutputFile();

    [[nodiscard]] int fd() const { return fd_.get(); }
    // Whether finish() will give a new file its name.
    [[nodiscard]] bool replaces() const { return !temporary_.empty(); }
    // Gives the file its name, once all is written. With `durable` it is on disk under that name by then.
    Result<> finish(bool durable);
    // Writes the content and finishes.
    Result<> write(std::string_view content, bool durable = false);

 private:
    OutputFile() = default;
    Result<> make_temporary();
    [[nodiscard]] Error error_of(int err) const;

    std::string what_;
    std::string path_;       // as it was named
    std::string target_;     // the file that it leads to, if that is to be replaced
    std::string temporary_;  // empty: none, or it has its name
    UniqueFd fd_;
};

}  // namespace ask::cli
