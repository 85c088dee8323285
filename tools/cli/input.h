// SPDX-License-Identifier: Apache-2.0
//
// Reads files, or standard input, into a send.
#pragma once

#include <string>
#include <vector>

#include "lib/base/unique_fd.h"
#include "lib/client/send_session.h"
#include "lib/text/line_parser.h"

namespace ask::cli {

// An input, opened; standard input ("-") is only borrowed.
struct Input {
    std::string name;  // what errors call it
    UniqueFd owned;
    int fd = -1;
    std::string head;    // read from fd already, and not sent yet
    bool ended = false;  // fd has no more
    [[nodiscard]] bool regular() const;
};

Result<Input> open_input(const std::string& file);
// Opens every file before the first tuple goes out, so that a typing error costs nothing.
Result<> check_readable(const std::vector<std::string>& files);
// kAborted if `stop_fd` is readable.
Result<> check_stop(int stop_fd);

// Sends every line of the input. Errors in lines name file, line and column. `stop_fd` readable: kAborted.
Result<> send_input(client::SendSession& session, Input input, LineForm form, int stop_fd);

}  // namespace ask::cli
