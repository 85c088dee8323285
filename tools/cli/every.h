// SPDX-License-Identifier: Apache-2.0
//
// ask-recv --every: a stream's windows into a directory, or as lines to standard output.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lib/client/receive_session.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"
#include "tools/cli/stop_signals.h"
#include "tools/cli/write_table.h"

namespace ask::cli {

struct EveryOptions {
    client::ReceiveOptions window{};  // what each is opened with; task: the stream's name
    std::chrono::seconds every{60};
    std::uint32_t senders = 0;  // 0: any
    std::string directory{};    // empty: standard output
    ResultFormat format = ResultFormat::kTsv;
    ResultWriter::Style style{};
    TableOrder order{};
    std::optional<std::size_t> keep{};  // tables
    bool skip_empty = false;
    std::optional<std::uint64_t> finish_after{};  // windows
    std::function<Result<>()> before_step{};      // as StreamDir::Options has it; for tests
};

// Until the stream has ended; the exit code.
int receive_every(const EveryOptions& options, const StopSignals& stop, ProgressLine& progress);

}  // namespace ask::cli
