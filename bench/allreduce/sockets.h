// SPDX-License-Identifier: Apache-2.0
//
// TCP connections of tools/bench allreduce: none waits but in poll(), and every wait has its end.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace ask::bench {

// What is read at a time: stays in a core's cache until it is added.
inline constexpr std::size_t kSome = std::size_t{256} << 10U;

// At this address; empty: at all.
Result<UniqueFd> listen_on(const std::string& host, std::uint16_t port, unsigned backlog);
// The host may not listen yet.
Result<UniqueFd> connect_to(const std::string& host, std::uint16_t port, unsigned deadline_seconds);
// A connection, and the rank that its other end says it has.
struct Arrival {
    UniqueFd fd;
    unsigned rank = 0;
};
Result<Arrival> accept_from(int listener, unsigned deadline_seconds);
// Says which rank this end has.
Result<> introduce(int fd, unsigned rank);

// Bytes that went; 0 if none can now.
Result<std::size_t> write_some(int fd, std::span<const std::byte> bytes);
// Bytes that came; 0 if there are none now. kUnavailable: the other end has closed.
Result<std::size_t> read_some(int fd, std::span<std::byte> bytes);
Result<> wait_for(std::span<pollfd> fds, unsigned deadline_seconds);

}  // namespace ask::bench
