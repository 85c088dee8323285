// SPDX-License-Identifier: Apache-2.0
//
// What `askctl doctor` has found out about a machine, before anything is made of it: whatever gathers fills
// these in, and the checks look at nothing else.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "proto/agent.pb.h"
#include "proto/switch.pb.h"
#include "tools/cli/doctor/layout.h"

namespace ask::cli::doctor {

// An interface, by the kernel's own account.
struct LinkFacts {
    enum class Xdp : std::uint8_t { kNone, kNative, kGeneric, kHardware };

    std::string name;
    bool present = false;
    bool up = false;
    std::uint32_t mtu = 0;
    std::uint32_t rx_queues = 0;
    Xdp xdp = Xdp::kNone;
    std::string driver;              // by ethtool; empty: it does not say
    std::uint32_t receive_ring = 0;  // of a queue, in packets; 0: the driver does not say
    std::uint32_t receive_ring_most = 0;
    std::vector<std::string> offloads;  // that are on, in the words of `ethtool -K`: of tx, tso, txvlan, lro
    CardLayout card;
};

struct CertificateFacts {
    bool plain_text = false;  // there is none, as configured
    std::string file;
    std::optional<Error> trouble;  // why files and certificate will not do
    std::time_t begins = 0;        // 0: not known
    std::time_t ends = 0;
};

// A daemon of this machine.
struct DaemonFacts {
    std::string name;              // ask-agentd
    std::string socket;            // that askctl asks it at
    std::string listen;            // HOST:PORT
    std::optional<Error> trouble;  // why it does not answer; nothing: it does
    std::string version;           // if it answers
    bool port_taken = false;       // it does not answer, and another process listens where it would
    std::optional<Error> group;    // what is wrong with its socket_group
    // Of its process if it answers, else of this one.
    std::vector<std::string> lacks;  // capabilities
    Cpus cpus;                       // that it may run on
    bool memory_limited = false;     // RLIMIT_MEMLOCK holds, and is less than it takes
    std::uint64_t memory_limit = 0;
};

struct HostFacts {
    std::string config;  // its file
    LinkFacts link;
    std::vector<LinkFacts> more_links;
    bool has_address = false;  // the interface has an address of a host, or the one that is configured
    std::string address;       // as configured; empty: the interface's first
    std::string xdp_mode;      // as configured
    unsigned workers = 1;
    std::uint32_t busy_poll_us = 0;
    DaemonFacts daemon;
    CertificateFacts certificate;
    std::optional<v1::AgentStatus> status;
    // Its switch.
    std::string switch_address;           // empty: none is configured
    std::optional<Error> switch_trouble;  // why it cannot be spoken to
    std::string switch_version;
};

struct SwitchFacts {
    std::string config;
    std::vector<LinkFacts> ports;
    std::string xdp_mode;
    std::string dedupe;
    std::string bpffs;
    bool bpffs_mounted = false;
    bool forwards = false;         // net.ipv4.ip_forward
    bool has_ipv6 = false;         // a port has an IPv6 address that others could be routed to
    bool has_ipv4 = true;          // or one of IPv4
    bool forwards6 = false;        // net.ipv6.conf.all.forwarding
    bool waits_for_ports = false;  // by a pattern
    DaemonFacts daemon;
    CertificateFacts certificate;
    std::optional<v1::SwitchStatus> status;
};

// The way to another host.
struct PathFacts {
    std::string to;                // as it was named
    std::string address;           // empty: it does not resolve
    std::string leaves_by;         // interface that the route leads through; empty: there is no route
    bool local = false;            // it is this host
    bool answers = false;          // to a small ICMP echo
    std::uint32_t mtu = 0;         // of that interface
    std::uint32_t largest = 0;     // IP packet that came there and back without being fragmented
    std::optional<Error> control;  // why its agent cannot be spoken to
};

struct Facts {
    std::vector<Error> config_troubles;  // why a daemon's file cannot be read: it is left out of all else
    std::string kernel;                  // release
    bool btf = false;
    bool jit = false;
    std::optional<Error> bpf;  // what the switch program needs and the kernel lacks
    std::time_t now = 0;
    std::vector<Cpus> nodes;  // of memory, the CPUs of each
    bool clock_kept = false;  // by NTP or PTP, as the kernel knows
    std::optional<HostFacts> host;
    std::optional<SwitchFacts> box;  // the machine is a switch
    std::vector<PathFacts> paths;
};

}  // namespace ask::cli::doctor
