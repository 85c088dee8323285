// SPDX-License-Identifier: Apache-2.0
//
// ask-send --follow: lines of an input that does not end, into a stream.
#pragma once

#include <string>

#include "lib/client/stream_send.h"
#include "tools/cli/input.h"
#include "tools/cli/progress.h"
#include "tools/cli/stop_signals.h"

namespace ask::cli {

struct FollowRun {
    client::StreamSendOptions stream{};
    std::string file{};   // a pipe, or a file that grows; -: standard input
    std::string state{};  // of a file: where its member and what it has read are kept; empty: nowhere
    InputRules rules{};
};

// Until a pipe or the stream has ended, or a signal came: then it leaves, and waits for what it has given to
// be committed, or says that it was left out. Another signal ends that, too.
Result<client::StreamSent> follow_input(FollowRun run, const StopSignals& stop, BadLines& bad,
                                        ProgressLine& progress);

}  // namespace ask::cli
