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
    std::string file{};  // a pipe; -: standard input
    InputRules rules{};
};

// Until the input or the stream has ended, or a signal came: then it leaves, and waits for what it has given to
// be committed. Another signal ends that, too. kSwitchLost: windows were committed without it.
Result<client::StreamSent> follow_input(FollowRun run, StopSignals& stop, BadLines& bad, ProgressLine& progress);

}  // namespace ask::cli
