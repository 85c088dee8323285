// SPDX-License-Identifier: Apache-2.0
//
// An AF_XDP socket on one queue of an interface, with a UMEM, a frame pool and rings of its own.
//
// Life of a frame: free -> (fill ring -> kernel -> receive ring) -> held by the program -> free, or
// free -> held -> (transmit ring -> kernel -> completion ring) -> free. A received frame may be sent as it
// stands, so that an answer needs no copy. account() says how many are where; the sum never changes.
//
// One thread owns a socket: both ends of its rings in user space are single-producer, single-consumer.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "lib/base/result.h"
#include "lib/net/address.h"

namespace ask {

enum class BindMode : std::uint8_t {
    kAuto,      // zero-copy where the driver can, else copy
    kCopy,      // never falls back
    kZeroCopy,  // never falls back
};

struct XskOptions {
    std::string interface = {};
    std::uint32_t queue = 0;
    // A power of two, 2048 or 4096: see frame_bytes_for_mtu().
    std::uint32_t frame_bytes = 2048;
    std::uint32_t rx_frames = 2048;  // frames lent to the kernel for receiving; a power of two
    std::uint32_t tx_frames = 1024;  // most frames on their way out; a power of two
    BindMode bind = BindMode::kAuto;
    bool may_send = true;  // false: the driver only receives on this queue
    // The interface's, by which sockets of several are told apart; of a bond's member, the bond's.
    MacAddress mac{};
    // Microseconds; not 0: receive() has the driver look for packets when there are none, and calls for them
    // in the driver's own way are put off for as long as it is asked so often (SO_PREFER_BUSY_POLL, and the
    // interface's napi_defer_hard_irqs and gro_flush_timeout). Never falls back.
    std::uint32_t busy_poll_us = 0;
    // A queue stays busy for some milliseconds after its former socket was closed, even by a crash.
    std::chrono::milliseconds busy_deadline{1000};
};

// Bytes of a frame that a received packet cannot use: the kernel starts it this far in.
inline constexpr std::uint32_t kXskHeadroom = 256;

// Smallest frame that holds a packet of this MTU (bytes) with its Ethernet header. Where none does, since a
// packet must fit one page, it is the one that holds our longest: what is longer is not for a socket.
std::uint32_t frame_bytes_for_mtu(std::uint32_t mtu);

// What happened in the socket's rings, beyond what the kernel counts. (name, class, text)
#define ASK_XSK_COUNTERS(X)                                                         \
    X(xsk_received, traffic, "frames taken from receive rings")                     \
    X(xsk_sent, traffic, "frames put into transmit rings")                          \
    X(xsk_kicks, traffic, "system calls that made the kernel send")                 \
    X(xsk_send_again, traffic, "the kernel put sending off: tried again later")     \
    X(xsk_send_no_memory, traffic, "the kernel had no buffer: tried again later")   \
    X(xsk_send_dropped, drop, "the device dropped a frame that was being sent")     \
    X(xsk_send_down, drop, "the device was down or gone while sending")             \
    X(xsk_send_ring_full, drop, "no frame or no place in the transmit ring")        \
    X(xsk_rx_dropped, drop, "kernel: frame too long for the UMEM, or other drop")   \
    X(xsk_rx_ring_full, drop, "kernel: receive ring full")                          \
    X(xsk_rx_fill_empty, drop, "kernel: fill ring empty")                           \
    X(xsk_invalid_descriptors, never, "kernel: descriptors that it did not accept") \
    X(xsk_frames_lost, never, "frames that came back twice or too often")

enum class XskCounter : std::uint8_t {
#define ASK_X(name, class_, text) k_##name,
    ASK_XSK_COUNTERS(ASK_X)
#undef ASK_X
        kCount
};
using XskCounters = std::array<std::uint64_t, static_cast<std::size_t>(XskCounter::kCount)>;

// A frame that the program holds: received, or taken to be filled.
struct XskFrame {
    std::uint64_t address = 0;   // within the UMEM
    std::span<std::byte> bytes;  // received: the packet; taken: all the room there is
};

// Where a socket's frames are.
struct FrameAccount {
    std::size_t free = 0;
    std::size_t receiving = 0;  // in fill and receive rings
    std::size_t sending = 0;    // in transmit and completion rings
    std::size_t held = 0;       // by the program
    std::size_t total = 0;
};

class XskSocket {
 public:
    // Errors name interface and queue. kUnsupported: no AF_XDP, or a forced mode that the driver cannot do.
    // kDenied: CAP_NET_RAW missing. kLimit: locked memory. kExists: another process has the queue.
    static Result<XskSocket> open(const XskOptions& options);
    XskSocket(XskSocket&&) noexcept;
    XskSocket& operator=(XskSocket&&) noexcept;
    // Close the XSKMAP entry first (closing the socket does, at the latest).
    ~XskSocket();

    [[nodiscard]] int fd() const;
    [[nodiscard]] std::uint32_t queue() const;
    [[nodiscard]] bool zero_copy() const;
    [[nodiscard]] const std::string& interface() const;
    [[nodiscard]] bool may_send() const;
    [[nodiscard]] MacAddress mac() const;

    // Takes up to out.size() received frames, which the caller then holds, and gives the kernel new ones.
    std::size_t receive(std::span<XskFrame> out);
    // Takes an empty frame to send, if there is one and a place in the transmit ring.
    std::optional<XskFrame> take();
    // Queues the first `bytes` bytes of a held frame for sending; the frame is no longer held either way.
    // false: no place; counted and dropped.
    bool send(const XskFrame& frame, std::size_t bytes);
    // Gives a held frame back unused.
    void recycle(const XskFrame& frame);
    // Makes the kernel send what is queued: a bounded number of system calls. Returns how many frames the
    // kernel has not taken yet; call again soon if any.
    std::size_t kick();

    [[nodiscard]] FrameAccount account() const;
    // Own counters and the kernel's (XDP_STATISTICS).
    [[nodiscard]] XskCounters counters() const;

 private:
    class Impl;
    explicit XskSocket(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace ask
