// SPDX-License-Identifier: Apache-2.0
#include "lib/xsk/xsk_socket.h"

#include <linux/if_xdp.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include <xdp/xsk.h>

#include "lib/abi/consts.h"
#include "lib/net/frame.h"
#include "lib/xsk/frame_pool.h"

namespace ask {
namespace {

using Clock = std::chrono::steady_clock;

// Frames beyond those that the rings hold: what one batch of the program may hold at once.
constexpr std::uint32_t kHeldFrames = 1024;
// What the kernel sends in one call in copy mode.
constexpr std::size_t kKernelBatch = 32;
constexpr int kSendBuffer = 8 << 20;

struct Unmap {
    std::size_t bytes = 0;
    void operator()(void* memory) const { ::munmap(memory, bytes); }
};
using Memory = std::unique_ptr<void, Unmap>;

struct DeleteUmem {
    void operator()(xsk_umem* umem) const { xsk_umem__delete(umem); }
};
struct DeleteSocket {
    void operator()(xsk_socket* socket) const { xsk_socket__delete(socket); }
};

// Rings must start as zeros: the library of libxdp 1.3 reads some fields before it writes them.
struct Rings {
    xsk_ring_prod fill{};
    xsk_ring_cons completion{};
    xsk_ring_cons rx{};
    xsk_ring_prod tx{};
};

Result<Memory> map_frames(std::size_t bytes) {
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
        return Error::from_errno(errno, "map " + std::to_string(bytes) + " bytes for frames");
    }
    return Memory(memory, Unmap{bytes});
}

Error umem_error(int error) {
    if (error == ENOBUFS || error == ENOMEM) {
        return Error(Errc::kLimit,
                     "register frame memory: over the limit of locked memory (raise LimitMEMLOCK or "
                     "RLIMIT_MEMLOCK, or grant CAP_IPC_LOCK)");
    }
    if (error == EAFNOSUPPORT || error == ENOPROTOOPT) {
        return Error(Errc::kUnsupported,
                     "register frame memory: this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)");
    }
    if (error == EPERM || error == EACCES) {
        return Error(Errc::kDenied, "open an AF_XDP socket: CAP_NET_RAW is missing");
    }
    return Error::from_errno(error, "register frame memory");
}

Error bind_error(int error, BindMode mode) {
    if (error == EOPNOTSUPP && mode == BindMode::kZeroCopy) {
        return Error(Errc::kUnsupported, "the driver cannot do zero-copy: use bind_mode auto or copy");
    }
    if (error == EBUSY) {
        return Error(Errc::kExists, "another process holds this queue with an AF_XDP socket");
    }
    if (error == EINVAL || error == ENODEV) {
        return Error(Errc::kUnknown, "no such queue or interface");
    }
    return Error::from_errno(error, "bind AF_XDP socket");
}

}  // namespace

std::uint32_t frame_bytes_for_mtu(std::uint32_t mtu) {
    constexpr std::uint32_t kShort = 2048;
    constexpr std::uint32_t kPage = 4096;
    static_assert(kMostFrameHeaderBytes + ASK_MAX_PAYLOAD + kXskHeadroom <= kPage);
    return mtu + kEthernetBytes + kXskHeadroom <= kShort ? kShort : kPage;
}

class XskSocket::Impl {
 public:
    Impl(const XskOptions& options, Memory memory)
        : options_(options),
          memory_(std::move(memory)),
          pool_(options.frame_bytes, options.rx_frames + options.tx_frames + kHeldFrames) {}

    static std::size_t memory_bytes(const XskOptions& options) {
        return std::size_t{options.frame_bytes} *
               (options.rx_frames + options.tx_frames + std::size_t{kHeldFrames});
    }

    // One try to bind; EBUSY comes back as kExists.
    Result<> bind();
    void refill();
    std::size_t receive(std::span<XskFrame> out);
    std::optional<XskFrame> take();
    bool send(const XskFrame& frame, std::size_t bytes);
    void recycle(const XskFrame& frame);
    std::size_t kick();
    [[nodiscard]] FrameAccount account() const;
    [[nodiscard]] XskCounters counters() const;
    [[nodiscard]] int fd() const { return xsk_socket__fd(socket_.get()); }
    [[nodiscard]] bool zero_copy() const { return zero_copy_; }
    [[nodiscard]] const XskOptions& options() const { return options_; }

 private:
    void count(XskCounter counter, std::uint64_t n = 1) { counters_[static_cast<std::size_t>(counter)] += n; }
    void give(std::uint64_t address) {
        if (!pool_.give(address)) {
            count(XskCounter::k_xsk_frames_lost);
        }
    }
    std::size_t reap();
    [[nodiscard]] std::size_t unsent() const {
        return *rings_.tx.producer - __atomic_load_n(rings_.tx.consumer, __ATOMIC_ACQUIRE);
    }
    bool kick_once();
    Result<> tune();
    Result<> poll_busily();

    XskOptions options_;
    // Order matters: the socket goes first, then the UMEM, then the memory under it.
    Memory memory_;
    FramePool pool_;
    Rings rings_;
    std::unique_ptr<xsk_umem, DeleteUmem> umem_;
    std::unique_ptr<xsk_socket, DeleteSocket> socket_;
    std::size_t receiving_ = 0;
    std::size_t sending_ = 0;
    std::size_t held_ = 0;
    bool zero_copy_ = false;
    XskCounters counters_{};
};

Result<> XskSocket::Impl::bind() {
    rings_ = Rings{};
    const xsk_umem_config umem_config{.fill_size = options_.rx_frames,
                                      .comp_size = options_.tx_frames,
                                      .frame_size = options_.frame_bytes,
                                      .frame_headroom = 0,
                                      .flags = 0};
    xsk_umem* umem = nullptr;
    int error = xsk_umem__create(&umem, memory_.get(), memory_bytes(options_), &rings_.fill,
                                 &rings_.completion, &umem_config);
    if (error != 0) {
        return umem_error(-error);
    }
    umem_.reset(umem);
    xsk_socket_config config{};
    config.rx_size = options_.rx_frames;
    config.tx_size = options_.tx_frames;
    config.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
    config.bind_flags = XDP_USE_NEED_WAKEUP;
    if (options_.bind != BindMode::kAuto) {
        config.bind_flags |= static_cast<__u16>(options_.bind == BindMode::kCopy ? XDP_COPY : XDP_ZEROCOPY);
    }
    xsk_socket* socket = nullptr;
    error = xsk_socket__create(&socket, options_.interface.c_str(), options_.queue, umem, &rings_.rx,
                               &rings_.tx, &config);
    if (error != 0) {
        umem_.reset();
        return bind_error(-error, options_.bind);
    }
    socket_.reset(socket);
    ASK_PASS(tune());
    refill();
    return {};
}

// Each call for packets or to send works on up to a batch of the queue's packets.
Result<> XskSocket::Impl::poll_busily() {
    constexpr int kPreferred = 1;
    constexpr int kBudget = 64;
    const int microseconds = static_cast<int>(options_.busy_poll_us);
    const auto set = [this](int option, const int& value) {
        return ::setsockopt(fd(), SOL_SOCKET, option, &value, sizeof(value)) == 0;
    };
    if (!set(SO_PREFER_BUSY_POLL, kPreferred) || !set(SO_BUSY_POLL, microseconds) ||
        !set(SO_BUSY_POLL_BUDGET, kBudget)) {
        return Error::from_errno(errno,
                                 "busy polling, which busy_poll_us asks for: it takes CAP_NET_ADMIN and a "
                                 "kernel with CONFIG_NET_RX_BUSY_POLL");
    }
    return {};
}

Result<> XskSocket::Impl::tune() {
    // In copy mode every frame on its way is an skb charged to the socket. Without the right to go past the
    // system's limit the kernel sends in smaller portions, which kick() copes with.
    if (::setsockopt(fd(), SOL_SOCKET, SO_SNDBUFFORCE, &kSendBuffer, sizeof(kSendBuffer)) != 0) {
        ::setsockopt(fd(), SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof(kSendBuffer));
    }
    xdp_options obtained{};
    socklen_t size = sizeof(obtained);
    if (::getsockopt(fd(), SOL_XDP, XDP_OPTIONS, &obtained, &size) == 0) {
        zero_copy_ = (obtained.flags & XDP_OPTIONS_ZEROCOPY) != 0;
    }
    return options_.busy_poll_us == 0 ? Result<>() : poll_busily();
}

// Lends the kernel frames until it has rx_frames. Neither ring can overflow: both have that many places.
void XskSocket::Impl::refill() {
    const std::size_t wanted = std::min<std::size_t>(options_.rx_frames - receiving_, pool_.available());
    const auto n = std::min<std::uint32_t>(static_cast<std::uint32_t>(wanted),
                                           xsk_prod_nb_free(&rings_.fill, static_cast<__u32>(wanted)));
    std::uint32_t index = 0;
    if (n == 0 || xsk_ring_prod__reserve(&rings_.fill, n, &index) != n) {
        return;
    }
    for (std::uint32_t i = 0; i < n; ++i) {
        *xsk_ring_prod__fill_addr(&rings_.fill, index + i) = *pool_.take();
    }
    xsk_ring_prod__submit(&rings_.fill, n);
    receiving_ += n;
}

constexpr std::size_t kPrefetchLine = 64;

std::size_t XskSocket::Impl::receive(std::span<XskFrame> out) {
    std::uint32_t index = 0;
    const std::uint32_t n = xsk_ring_cons__peek(&rings_.rx, static_cast<__u32>(out.size()), &index);
    if (n == 0) {
        if (options_.busy_poll_us != 0 || xsk_ring_prod__needs_wakeup(&rings_.fill) != 0) {
            ::recvfrom(fd(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
        }
        return 0;
    }
    for (std::uint32_t i = 0; i < n; ++i) {
        const xdp_desc* const descriptor = xsk_ring_cons__rx_desc(&rings_.rx, index + i);
        out[i].address = descriptor->addr;
        out[i].bytes = {static_cast<std::byte*>(memory_.get()) + descriptor->addr, descriptor->len};
        // Headers, which another CPU may have written: by the time that the first frame is parsed the others'
        // are here.
        __builtin_prefetch(out[i].bytes.data());
        __builtin_prefetch(out[i].bytes.data() + kPrefetchLine);
    }
    xsk_ring_cons__release(&rings_.rx, n);
    receiving_ -= n;
    held_ += n;
    count(XskCounter::k_xsk_received, n);
    refill();
    return n;
}

std::optional<XskFrame> XskSocket::Impl::take() {
    if (sending_ + 1 > options_.tx_frames && reap() == 0) {
        return std::nullopt;
    }
    const auto address = pool_.take();
    if (!address) {
        return std::nullopt;
    }
    ++held_;
    return XskFrame{*address, {static_cast<std::byte*>(memory_.get()) + *address, options_.frame_bytes}};
}

bool XskSocket::Impl::send(const XskFrame& frame, std::size_t bytes) {
    std::uint32_t index = 0;
    if (sending_ >= options_.tx_frames) {
        reap();
    }
    --held_;
    if (sending_ >= options_.tx_frames || xsk_ring_prod__reserve(&rings_.tx, 1, &index) != 1) {
        give(frame.address);
        count(XskCounter::k_xsk_send_ring_full);
        return false;
    }
    xdp_desc* const descriptor = xsk_ring_prod__tx_desc(&rings_.tx, index);
    descriptor->addr = frame.address;
    descriptor->len = static_cast<__u32>(bytes);
    descriptor->options = 0;
    xsk_ring_prod__submit(&rings_.tx, 1);
    ++sending_;
    count(XskCounter::k_xsk_sent);
    return true;
}

void XskSocket::Impl::recycle(const XskFrame& frame) {
    --held_;
    give(frame.address);
}

// Takes back what the kernel has done with. Completions may come in any order.
std::size_t XskSocket::Impl::reap() {
    std::uint32_t index = 0;
    const std::uint32_t n = xsk_ring_cons__peek(&rings_.completion, options_.tx_frames, &index);
    for (std::uint32_t i = 0; i < n; ++i) {
        give(*xsk_ring_cons__comp_addr(&rings_.completion, index + i));
    }
    if (n > 0) {
        xsk_ring_cons__release(&rings_.completion, n);
        sending_ -= n;
    }
    return n;
}

// One system call; true if another one may get further.
bool XskSocket::Impl::kick_once() {
    count(XskCounter::k_xsk_kicks);
    const std::size_t before = unsent();
    const ssize_t result = ::sendto(fd(), nullptr, 0, MSG_DONTWAIT, nullptr, 0);
    const int error = result < 0 ? errno : 0;
    const bool progress = unsent() != before;
    switch (error) {
        case 0:
            return progress;
        case EAGAIN:
            // Also what a full batch returns: only without progress is it back pressure.
            if (!progress) {
                count(XskCounter::k_xsk_send_again);
            }
            return progress;
        case EBUSY:
            // Dropped by the device, yet completed: the protocol sends it again.
            count(XskCounter::k_xsk_send_dropped);
            return progress;
        case ENOBUFS:
        case ENOMEM:
            count(XskCounter::k_xsk_send_no_memory);
            return false;
        default:
            count(XskCounter::k_xsk_send_down);
            return false;
    }
}

std::size_t XskSocket::Impl::kick() {
    // The kernel stops, without saying so, when the completion ring is full: empty it before every call.
    reap();
    std::size_t tries = unsent() / kKernelBatch + 2;
    while (unsent() > 0 && tries-- > 0) {
        if (zero_copy_ && xsk_ring_prod__needs_wakeup(&rings_.tx) == 0) {
            break;
        }
        if (!kick_once()) {
            break;
        }
        reap();
    }
    reap();
    return unsent();
}

FrameAccount XskSocket::Impl::account() const {
    return {pool_.available(), receiving_, sending_, held_, pool_.total()};
}

XskCounters XskSocket::Impl::counters() const {
    XskCounters all = counters_;
    xdp_statistics kernel{};
    socklen_t size = sizeof(kernel);
    if (::getsockopt(fd(), SOL_XDP, XDP_STATISTICS, &kernel, &size) == 0) {
        all[static_cast<std::size_t>(XskCounter::k_xsk_rx_dropped)] = kernel.rx_dropped;
        all[static_cast<std::size_t>(XskCounter::k_xsk_rx_ring_full)] = kernel.rx_ring_full;
        all[static_cast<std::size_t>(XskCounter::k_xsk_rx_fill_empty)] = kernel.rx_fill_ring_empty_descs;
        all[static_cast<std::size_t>(XskCounter::k_xsk_invalid_descriptors)] =
            kernel.rx_invalid_descs + kernel.tx_invalid_descs;
    }
    return all;
}

XskSocket::XskSocket(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
XskSocket::XskSocket(XskSocket&&) noexcept = default;
XskSocket& XskSocket::operator=(XskSocket&&) noexcept = default;
XskSocket::~XskSocket() = default;

Result<XskSocket> XskSocket::open(const XskOptions& options) {
    const std::string what = options.interface + " queue " + std::to_string(options.queue);
    auto memory = map_frames(Impl::memory_bytes(options));
    if (!memory) {
        return std::move(memory).error().with_context(what);
    }
    auto impl = std::make_unique<Impl>(options, std::move(*memory));
    const auto deadline = Clock::now() + options.busy_deadline;
    constexpr std::chrono::milliseconds kRetry{5};
    for (;;) {
        auto bound = impl->bind();
        if (bound.ok()) {
            return XskSocket(std::move(impl));
        }
        if (bound.error().code() != Errc::kExists || Clock::now() >= deadline) {
            return std::move(bound).error().with_context(what);
        }
        // The kernel says nothing when a queue becomes free: ask again.
        std::this_thread::sleep_for(kRetry);
    }
}

int XskSocket::fd() const {
    return impl_->fd();
}
std::uint32_t XskSocket::queue() const {
    return impl_->options().queue;
}
const std::string& XskSocket::interface() const {
    return impl_->options().interface;
}
bool XskSocket::may_send() const {
    return impl_->options().may_send;
}
MacAddress XskSocket::mac() const {
    return impl_->options().mac;
}
bool XskSocket::zero_copy() const {
    return impl_->zero_copy();
}
std::size_t XskSocket::receive(std::span<XskFrame> out) {
    return impl_->receive(out);
}
std::optional<XskFrame> XskSocket::take() {
    return impl_->take();
}
bool XskSocket::send(const XskFrame& frame, std::size_t bytes) {
    return impl_->send(frame, bytes);
}
void XskSocket::recycle(const XskFrame& frame) {
    impl_->recycle(frame);
}
std::size_t XskSocket::kick() {
    return impl_->kick();
}
FrameAccount XskSocket::account() const {
    return impl_->account();
}
XskCounters XskSocket::counters() const {
    return impl_->counters();
}

}  // namespace ask
