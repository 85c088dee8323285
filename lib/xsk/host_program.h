// SPDX-License-Identifier: Apache-2.0
//
// The steering program (bpf/host.bpf.c) on an interface: loaded, given the sockets of all queues, attached by
// a link that lives as long as this object. Nothing is pinned: when the process ends, so does the steering.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace ask {

class XskSocket;

enum class XdpMode : std::uint8_t {
    kNative,   // in the driver
    kGeneric,  // in the stack: any driver, slower
};

// Which of the capabilities that a host needs this process lacks: CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW,
// CAP_PERFMON. kDenied names them.
Result<> check_host_capabilities();

class HostProgram {
 public:
    struct Options {
        std::string interface;
        std::uint32_t interface_index = 0;
        std::uint32_t own_address = 0;    // number of this host: packets for others are passed on
        std::uint32_t queues = 1;         // of a bond: that a member may have
        bool bond = false;                // natively: its packets come in by its members
        XdpMode mode = XdpMode::kNative;  // never falls back
        // After a crash the former program may stay for a moment.
        std::chrono::milliseconds busy_deadline{1000};
    };

    // Loads the program. kDenied, kUnsupported.
    static Result<HostProgram> load(const Options& options);
    HostProgram(HostProgram&&) noexcept;
    HostProgram& operator=(HostProgram&&) noexcept;
    ~HostProgram();

    // A bond's may have so many, whose queues come one after the other.
    static constexpr std::uint32_t kMostMembers = 16;
    // Of a bond, ahead of its sockets. kLimit: too many have been its members so far. Repeating it changes
    // nothing.
    Result<> add_member(const std::string& name, std::uint32_t ifindex);
    // Steers the packets of the socket's queue into it.
    Result<> add_socket(const XskSocket& socket);
    // Starts steering. kExists names the program that is attached already.
    Result<> attach();

    [[nodiscard]] int program_fd() const;
    [[nodiscard]] int sockets_map_fd() const;
    // Sums over all CPUs, by enum ask_host_counter.
    [[nodiscard]] Result<std::vector<std::uint64_t>> counters() const;

 private:
    class Impl;
    explicit HostProgram(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace ask
