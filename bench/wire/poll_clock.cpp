// SPDX-License-Identifier: Apache-2.0
#include "bench/wire/poll_clock.h"

#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <ctime>
#include <utility>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bench/wire/polls.h"
#include "lib/bpf/map.h"

// After the types of the variables in it.
#include "wire_polls.skel.h"

namespace ask::bench {

Result<Node> find_node(const std::string& text) {
    const std::size_t equals = text.find('=');
    Node node;
    node.name = text.substr(0, equals);
    const std::string number = equals == std::string::npos ? "" : text.substr(equals + 1);
    const char* const end = number.data() + number.size();
    if (const auto [at, error] = std::from_chars(number.data(), end, node.daemon);
        error != std::errc{} || at != end || node.daemon <= 0) {
        return Error(Errc::kUsage, "node '" + text + "': expected NAME=PID");
    }
    struct stat status{};
    if (::stat(("/proc/" + number + "/ns/net").c_str(), &status) != 0) {
        return Error::from_errno(errno, "network namespace of " + node.name + " (process " + number + ")");
    }
    node.net = static_cast<std::uint32_t>(status.st_ino);
    return node;
}

Result<std::uint64_t> daemon_nanoseconds(const Node& node) {
    clockid_t clock{};
    timespec time{};
    if (const int error = ::clock_getcpuclockid(node.daemon, &clock); error != 0) {
        return Error::from_errno(error, "CPU clock of the daemon on " + node.name);
    }
    if (::clock_gettime(clock, &time) != 0) {
        return Error::from_errno(errno, "CPU clock of the daemon on " + node.name);
    }
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

void PollClock::Destroy::operator()(wire_polls_bpf* skeleton) const {
    wire_polls_bpf__destroy(skeleton);
}

PollClock::PollClock() = default;
PollClock::PollClock(PollClock&&) noexcept = default;
PollClock& PollClock::operator=(PollClock&&) noexcept = default;
PollClock::~PollClock() = default;

Result<PollClock> PollClock::start() {
    PollClock clock;
    clock.skeleton_.reset(wire_polls_bpf__open());
    if (!clock.skeleton_) {
        return Error::from_errno(errno, "open the programs that time polls");
    }
    if (wire_polls_bpf__load(clock.skeleton_.get()) != 0) {
        return Error::from_errno(errno, "load the programs that time polls (root, and a kernel with BTF)");
    }
    if (wire_polls_bpf__attach(clock.skeleton_.get()) != 0) {
        return Error::from_errno(errno, "attach to the kernel's tracepoints napi_poll and softirq");
    }
    return clock;
}

namespace {

// Of the CPUs' parts.
PollTime sum_of(const std::vector<PollTime>& parts) {
    PollTime sum{};
    for (const PollTime& part : parts) {
        sum.nanoseconds += part.nanoseconds;
        sum.packets += part.packets;
        sum.unplaced += part.unplaced;
    }
    return sum;
}

Result<> add_to(const Node& node, const PollKey& key, const PollTime& time, NodePolls& sums) {
    const bool of_device = key.polled == node.net;
    const bool in_task = key.runner == node.net;
    if (time.unplaced > 0 && (of_device || in_task)) {
        return Error(Errc::kUnsupported, node.name + ": " + std::to_string(time.unplaced) +
                                             " polls were outside softirqs, where they cannot be timed: " +
                                             "switch threaded NAPI and busy polling off");
    }
    sums.of_devices += of_device ? time.nanoseconds : 0;
    sums.packets += of_device ? time.packets : 0;
    sums.in_tasks += in_task ? time.nanoseconds : 0;
    return {};
}

}  // namespace

Result<std::vector<NodePolls>> PollClock::read(const std::vector<Node>& nodes) const {
    if (skeleton_->bss->polls_lost > 0) {
        return Error(Errc::kLimit, std::to_string(skeleton_->bss->polls_lost) +
                                       " polls were not counted: too many network namespaces; try again with "
                                       "fewer labs beside this one");
    }
    const auto cpus = bpf::possible_cpus();
    ASK_PASS(cpus);
    std::vector<NodePolls> sums(nodes.size());
    std::vector<PollTime> parts(*cpus);
    const int map = bpf_map__fd(skeleton_->maps.polls);
    PollKey key{};
    const void* from = nullptr;
    // Nothing is ever deleted, so that every pair is met once.
    while (bpf_map_get_next_key(map, from, &key) == 0) {
        from = &key;
        if (bpf_map_lookup_elem(map, &key, parts.data()) != 0) {
            return Error::from_errno(errno, "look up in map polls");
        }
        const PollTime time = sum_of(parts);
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            ASK_PASS(add_to(nodes[i], key, time, sums[i]));
        }
    }
    return sums;
}

}  // namespace ask::bench
