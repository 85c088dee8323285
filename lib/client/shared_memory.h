// SPDX-License-Identifier: Apache-2.0
//
// What an application and its agent share: memory that neither can cut off under the other, and pipes to wake
// each other by. Internal to lib/client.
//
// Each side sleeps on a pipe, not on an eventfd: both ends of a pipe have file flags of their own, so an
// application cannot make the agent's end block.
#pragma once

#include <cstddef>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace ask {

[[nodiscard]] std::size_t page_bytes();

// Sealed: its size stays. `name` is for people who look at /proc.
Result<UniqueFd> make_shared_memory(const char* name, std::size_t bytes);
// The size of shared memory that somebody else has made. kInput: it may still shrink.
Result<std::size_t> shared_memory_bytes(const UniqueFd& memory);

struct WakePipe {
    UniqueFd read;
    UniqueFd write;
};
Result<WakePipe> make_wake_pipe();
// The application's end of the pipe that wakes the agent. Opened anew for reading too: writing to a pipe that
// nobody can read would kill the application (SIGPIPE) when the agent dies.
Result<UniqueFd> reopen_for_application(int pipe_fd);
// One byte is as good as many. A full pipe wakes the sleeper as well, and a closed one has none.
void wake_pipe(int fd);
void drain_pipe(int fd);

}  // namespace ask
