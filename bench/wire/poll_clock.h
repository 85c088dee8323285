// SPDX-License-Identifier: Apache-2.0
//
// Who spends which CPU time: daemons' own clocks, and how long network devices were polled, for whom and in
// whose time (polls.bpf.c).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.h"

struct wire_polls_bpf;  // NOLINT(readability-identifier-naming): bpftool names it

namespace ask::bench {

// A network namespace with one daemon in it.
struct Node {
    std::string name;
    pid_t daemon = 0;
    std::uint32_t net = 0;  // its namespace's number
};
// From "h1=1234".
Result<Node> find_node(const std::string& text);
// CPU time that the daemon has had, with what the kernel charged to it.
Result<std::uint64_t> daemon_nanoseconds(const Node& node);

// In nanoseconds, of polling.
struct NodePolls {
    std::uint64_t of_devices = 0;  // of this node's devices, in whoever's time
    std::uint64_t in_tasks = 0;    // whoever's devices, in the time of this node's tasks
    std::uint64_t packets = 0;     // that its devices received
};

class PollClock {
 public:
    // Counts from here on.
    static Result<PollClock> start();
    PollClock(PollClock&&) noexcept;
    PollClock& operator=(PollClock&&) noexcept;
    ~PollClock();

    // In the order of `nodes`. kLimit, kUnsupported: some polls were not counted.
    [[nodiscard]] Result<std::vector<NodePolls>> read(const std::vector<Node>& nodes) const;

 private:
    struct Destroy {
        void operator()(wire_polls_bpf* skeleton) const;
    };
    PollClock();

    std::unique_ptr<wire_polls_bpf, Destroy> skeleton_;
};

}  // namespace ask::bench
