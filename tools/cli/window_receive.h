// SPDX-License-Identifier: Apache-2.0
//
// A run of a stream's window on a thread of its own: two windows have a run at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/event_fd.h"
#include "lib/base/runtime.h"
#include "lib/client/receive_session.h"

namespace ask::cli {

// What came of a run.
struct WindowResult {
    std::uint64_t number = 0;
    // None: it has failed. The stream says when it begins again.
    std::optional<client::ReceiveSession> session{};
    std::optional<client::ReceiveResult> result{};
    std::string error{};
    // Of a failed one: what was lost, as ReceiveOptions::on_lost has it.
    std::vector<std::string> lost_relays{};
    std::vector<std::string> lost_switches{};
};

// From the runs' threads to the one that commits.
class WindowResults {
 public:
    void add(WindowResult result);
    [[nodiscard]] std::vector<WindowResult> take();
    // Readable while there are some that have not been taken.
    [[nodiscard]] int fd() const { return event_.fd(); }

 private:
    EventFd event_;
    Mutex mutex_;
    std::vector<WindowResult> results_;
};

class WindowReceive {
 public:
    WindowReceive(client::ReceiveOptions options, WindowResults& results);
    WindowReceive(const WindowReceive&) = delete;
    WindowReceive& operator=(const WindowReceive&) = delete;
    // Ends it if it is still under way.
    ~WindowReceive();
    [[nodiscard]] std::uint64_t number() const { return options_.window; }

 private:
    void run(WindowResults& results);

    client::ReceiveOptions options_;
    EventFd cancel_;
    Thread thread_;
};

}  // namespace ask::cli
