// SPDX-License-Identifier: Apache-2.0
//
// ask-bench-flood: an attacker on a host of a lab. Sends one kind of frames at a steady rate until it is told
// to end (SIGTERM), then prints how many; says on standard error when the first have left. All kinds have the
// length of a full packet.
//   udp      ordinary: to the discard port of the receiver
//   garbage  to ASK's port, random bytes
//   spoofed  DATA of another host's channel and task, from its address
//   joined   DATA of a channel and task of its own, which it has joined, with checks that do not fit
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "lib/base/unique_fd.h"
#include "lib/engine/packet.h"
#include "lib/net/frame.h"
#include "lib/tuples/types.h"

namespace {

using namespace ask;
using Clock = std::chrono::steady_clock;

constexpr Geometry kGeometry{.short_slots = 16, .groups = 8, .m = 2, .rows = 4};
constexpr std::uint16_t kDiscard = 9;
// Frames of one system call; short of a veth's ring.
constexpr unsigned kBatch = 32;

volatile std::sig_atomic_t stopped = 0;

struct Flags {
    std::string interface = "eth0";
    std::string gateway;  // MAC
    std::string from;
    std::string to;
    std::string kind = "udp";
    unsigned rate = 20000;
    std::uint16_t port = ASK_CHANNEL_PORT_BASE;
    std::uint64_t instance = 0;
    std::uint32_t incarnation = 0;
};

[[noreturn]] void give_up(const std::string& what) {
    std::fprintf(stderr, "ask-bench-flood: %s: %s\n", what.c_str(), std::strerror(errno));
    std::exit(1);  // NOLINT(concurrency-mt-unsafe): one thread
}

MacAddress parse_mac(const std::string& text) {
    MacAddress mac{};
    for (std::size_t i = 0; i < mac.size() && 3 * i + 2 <= text.size(); ++i) {
        mac.at(i) = static_cast<std::uint8_t>(std::stoul(text.substr(3 * i, 2), nullptr, 16));
    }
    return mac;
}

std::uint32_t parse_host(const std::string& text) {
    const auto address = parse_ipv4(text);
    if (!address) {
        errno = EINVAL;
        give_up(text);
    }
    return *address;
}

bool is_packet(const Flags& flags) {
    return flags.kind == "spoofed" || flags.kind == "joined";
}

UdpAddresses addresses_of(const Flags& flags) {
    return {.source_mac = {2, 0, 0, 0, 0, 0x66},
            .dest_mac = parse_mac(flags.gateway),
            .source = parse_host(flags.from),
            .dest = parse_host(flags.to),
            .source_port = flags.port,
            .dest_port = flags.kind == "udp" ? kDiscard : static_cast<std::uint16_t>(ASK_UDP_PORT)};
}

// A batch of frames that differ in their random bytes; of packets, in seq and check, too.
class Frames {
 public:
    explicit Frames(const Flags& flags) {
        const std::size_t payload = kGeometry.payload_bytes(kGeometry.rows);
        for (unsigned i = 0; i < kBatch; ++i) {
            std::vector<std::byte>& frame = frames_.at(i);
            frame.resize(kFrameHeaderBytes + payload);
            for (std::byte& byte : frame) {
                byte = static_cast<std::byte>(random_());
            }
            write_frame_header(frame, addresses_of(flags), payload);
            if (is_packet(flags)) {
                write_packet(std::span(frame).subspan(kFrameHeaderBytes), flags, i + 1);
            }
            parts_.at(i) = {.iov_base = frame.data(), .iov_len = frame.size()};
            messages_.at(i).msg_hdr.msg_iov = &parts_.at(i);
            messages_.at(i).msg_hdr.msg_iovlen = 1;
        }
    }

    unsigned send(int socket, unsigned count) {
        const int sent = ::sendmmsg(socket, messages_.data(), count, 0);
        if (sent < 0 && errno != ENOBUFS && errno != EAGAIN && errno != EINTR) {
            give_up("send");
        }
        return sent < 0 ? 0 : static_cast<unsigned>(sent);
    }

 private:
    // The bytes behind the bitmaps, and the check, stay random.
    void write_packet(std::span<std::byte> payload, const Flags& flags, std::uint64_t seq) {
        Header header;
        header.type = ASK_DATA;
        header.rows = kGeometry.rows;
        header.format = format_of(kGeometry, Op::kSum);
        header.instance = flags.instance;
        header.channel = {parse_host(flags.from), flags.port};
        header.incarnation = flags.incarnation;
        header.seq = seq;
        const std::array<std::uint32_t, 4> bitmaps{0xffffff, 0xffffff, 0xffffff, 0xffffff};
        write_header(payload, header, bitmaps);
        const std::uint64_t check = random_();
        std::memcpy(payload.data() + offsetof(ask_hdr, check), &check, sizeof(check));
    }

    std::mt19937_64 random_{1};
    std::array<std::vector<std::byte>, kBatch> frames_;
    std::array<iovec, kBatch> parts_{};
    std::array<mmsghdr, kBatch> messages_{};
};

UniqueFd open_socket(const Flags& flags) {
    UniqueFd socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_ifindex = static_cast<int>(::if_nametoindex(flags.interface.c_str()));
    if (!socket || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        give_up("socket on " + flags.interface);
    }
    return socket;
}

// What is behind its time is made up for, up to a batch.
std::uint64_t flood(const Flags& flags) {
    const UniqueFd socket = open_socket(flags);
    Frames frames(flags);
    std::uint64_t sent = 0;
    double owed = 0;
    auto last = Clock::now();
    while (stopped == 0) {
        const auto now = Clock::now();
        owed =
            std::min<double>(owed + std::chrono::duration<double>(now - last).count() * flags.rate, kBatch);
        last = now;
        if (owed < 1) {
            std::this_thread::sleep_for(std::chrono::microseconds(100));
            continue;
        }
        const unsigned done = frames.send(socket.get(), static_cast<unsigned>(owed));
        owed -= done;
        if (sent == 0 && done > 0) {
            std::fputs("under way\n", stderr);
        }
        sent += done;
    }
    return sent;
}

}  // namespace

int main(int argc, char** argv) {
    Flags flags;
    CLI::App app("Floods a switch with one kind of frames until SIGTERM", "ask-bench-flood");
    app.add_option("--interface", flags.interface, "To send on")->capture_default_str();
    app.add_option("--gateway", flags.gateway, "MAC address of the switch there")->required();
    app.add_option("--from", flags.from, "Source address")->required();
    app.add_option("--to", flags.to, "Destination address")->required();
    app.add_option("--kind", flags.kind, "Of frames")
        ->check(CLI::IsMember({"udp", "garbage", "spoofed", "joined"}))
        ->capture_default_str();
    app.add_option("--rate", flags.rate, "Frames a second")->capture_default_str();
    app.add_option("--port", flags.port, "Source port")->capture_default_str();
    app.add_option("--instance", flags.instance, "Of the task, of spoofed and joined");
    app.add_option("--incarnation", flags.incarnation, "Of the channel, of spoofed and joined");
    CLI11_PARSE(app, argc, argv);
    std::signal(SIGTERM, [](int) { stopped = 1; });
    const auto begun = Clock::now();
    const std::uint64_t sent = flood(flags);
    const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    std::printf("{\"kind\": \"%s\", \"frames\": %llu, \"seconds\": %.3f}\n", flags.kind.c_str(),
                static_cast<unsigned long long>(sent), seconds);
    return 0;
}
