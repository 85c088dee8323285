// SPDX-License-Identifier: Apache-2.0
//
// One task, "words", with one channel of the host behind port p1: what tests of a task's life need first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/netns/switchd/daemon.h"

namespace ask::test {

inline constexpr ChannelId kChannel{kHost1, 49152};
inline constexpr std::uint32_t kIncarnation = 77;
inline constexpr std::uint64_t kInstance = 0x0123456789abcdef;
inline constexpr CheckSecret kSecret{0x1111222233334444, 0x5555666677778888};
using Entries = std::vector<Daemon::Entry>;

// The call succeeded, or its message.
void must(const grpc::Status& status);
// Registers the channel, opens the task, joins it.
v1::OpenTaskReply open_and_join(Daemon& daemon, const v1::OpenTaskRequest& request);
// The copy of an epoch, by key.
Entries fetched(Daemon& daemon, std::uint64_t epoch = 0);
Entries sorted(Entries entries);
// One packet of one tuple, into p1; the switch program's verdict.
std::uint32_t send_one(std::uint64_t seq, const std::string& key, std::int32_t value);

}  // namespace ask::test
