// SPDX-License-Identifier: Apache-2.0
//
// Logging of the daemons: spdlog to standard error. Under systemd it goes to the journal with fields:
// PRIORITY, HOST, and what lib/base/log_fields.h says of the thread: TASK, GROUP, CODE.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace ask {

// What `log_level` may be, for ConfigTable::choice().
const std::vector<std::string>& log_levels();

inline constexpr const char* kJournalSocket = "/run/systemd/journal/socket";

struct LogSetup {
    std::string program;
    std::string_view level;
    std::string host{};  // as this host is called; empty: not said
    std::string journal = kJournalSocket;
};

// Sets up the default logger, and sends the messages of libbpf, libxdp, protobuf and gRPC to it at debug
// level. Call once, before any thread starts.
Result<> set_up_log(const LogSetup& setup);
inline Result<> set_up_log(const std::string& program, std::string_view level) {
    return set_up_log(LogSetup{.program = program, .level = level});
}

// Another level from now on; one of log_levels(). From any thread.
Result<> set_log_level(std::string_view level);

// While one lives, libbpf's messages of every level are kept (the first MiB of them): the verifier's log is
// what explains a refused program. One at a time.
class LibbpfCapture {
 public:
    LibbpfCapture();
    ~LibbpfCapture();
    LibbpfCapture(const LibbpfCapture&) = delete;
    LibbpfCapture& operator=(const LibbpfCapture&) = delete;

    [[nodiscard]] std::string text() const;
};

}  // namespace ask
