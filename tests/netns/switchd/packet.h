// SPDX-License-Identifier: Apache-2.0
//
// DATA packets through the pinned switch program, by BPF_PROG_TEST_RUN as if they came in on a port.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/unique_fd.h"
#include "lib/tuples/types.h"

namespace ask::test {

// One DATA packet of one row with one tuple in slot 0. `key` has 1 to 4 bytes.
struct OneTuple {
    std::uint64_t instance = 0;
    ChannelId channel;
    std::uint32_t incarnation = 0;
    CheckSecret secret{};
    std::uint64_t seq = 1;
    std::string key;
    std::int32_t value = 0;
};

// The pinned program, fed as if from a port. Several may feed at once.
class SwitchFeed {
 public:
    explicit SwitchFeed(const std::string& port);
    // The program's verdict: XDP_TX for an ACK, XDP_REDIRECT, XDP_DROP, ... Negative: an errno.
    int send(const OneTuple& tuple) const;

 private:
    UniqueFd program_;
    std::uint32_t ifindex_;
};

// The verdict on one packet; the test fails if it cannot be fed.
std::uint32_t send_through_switch(const OneTuple& tuple, const std::string& port);

}  // namespace ask::test
