// SPDX-License-Identifier: Apache-2.0
//
// Reads files, or standard input, into a send.
#pragma once

#include <string>
#include <vector>

#include "lib/client/send_session.h"
#include "lib/text/line_parser.h"

namespace ask::cli {

// Opens every file before the first tuple goes out, so that a typing error costs nothing.
Result<> check_readable(const std::vector<std::string>& files);

// Sends every line of `file` ("-": standard input). Errors in lines name file, line and column. `stop_fd`
// readable: kAborted.
Result<> send_file(client::SendSession& session, const std::string& file, LineForm form, int stop_fd);

}  // namespace ask::cli
