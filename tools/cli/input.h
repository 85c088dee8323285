// SPDX-License-Identifier: Apache-2.0
//
// Reads files, or standard input, into a send, and once more should the switch have lost what it had.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/unique_fd.h"
#include "lib/client/send_session.h"
#include "lib/text/line_parser.h"
#include "tools/cli/text_stream.h"

namespace ask::cli {

// What the bytes of inputs are, and their lines.
struct InputRules {
    ContentRules content;
    LineRules lines;
};

// An input, opened; standard input ("-") is only borrowed.
struct Input {
    std::string name;  // what errors call it
    UniqueFd owned;
    int fd = -1;
    off_t start = 0;     // of a regular file, where reading began
    std::string head;    // of others, the bytes that have been read and come first in the next sending
    bool ended = false;  // fd has no more
    [[nodiscard]] bool regular() const;
};

Result<Input> open_input(const std::string& file);
// Makes a pipe this input's own, until leave_pipe(): its bytes go to whichever of its readers comes first.
// kExists: another process has done so. Reading it does not block from here on, since a reader that has done
// nothing of the kind may come first, too. A pipe of another user's, and what is no pipe, stays as it is.
Result<> take_pipe(Input& input);
void leave_pipe(const Input& input);
// Opens every file, and looks at the start of those that are no pipes, before the first tuple goes out, so
// that a typing error costs nothing.
Result<> check_readable(const std::vector<std::string>& files, const ContentRules& content);
// kAborted if `stop_fd` is readable.
Result<> check_stop(int stop_fd);

// The inputs of one send, which can be sent again: regular files are read again, and what comes through pipes
// is kept, up to `spool_bytes` of all of them together.
class SendInputs {
 public:
    // `bad`: which malformed lines are skipped.
    SendInputs(std::vector<std::string> files, InputRules rules, BadLines& bad, std::size_t spool_bytes);
    // The first of them, opened and perhaps begun to be read.
    void begin_with(Input first);
    // False for good once more has come through pipes than is kept.
    [[nodiscard]] bool can_repeat() const { return can_repeat_; }
    // Sends every line of every input from its beginning; tells the session when there can be no other time.
    // Errors in lines name file, line and column. `stop_fd` readable: kAborted.
    Result<> send(client::SendSession& session, int stop_fd);
    // Of all bytes of all inputs, as they lie on disk; nothing if one is no regular file.
    [[nodiscard]] std::optional<double> share_read() const;

 private:
    Result<> open(std::size_t index);
    Result<> send_input(client::SendSession& session, Input& input, int stop_fd);
    Result<> keep(client::SendSession& session, Input& input, std::string_view bytes);

    std::vector<std::string> files_;
    InputRules rules_;
    BadLines& bad_;
    std::size_t room_;
    bool can_repeat_;
    std::vector<std::optional<Input>> inputs_;  // by file; none: not opened yet
    std::size_t current_ = 0;                   // the file that is being sent
};

}  // namespace ask::cli
