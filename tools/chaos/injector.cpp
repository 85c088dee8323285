// SPDX-License-Identifier: Apache-2.0
#include "tools/chaos/injector.h"

#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <functional>
#include <utility>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "chaos.skel.h"
#include "lib/bpf/object.h"
#include "lib/bpf/xdp.h"
#include "tools/chaos/pins.h"

namespace ask::chaos {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
// Signals are looked for at least as often.
constexpr std::uint64_t kLongestWait = kSecond;
// Frames that are sent before the ring is looked at again.
constexpr int kBatch = 64;
// A queue is long when this part of it is full.
constexpr unsigned kLongQueue = 4;

std::uint64_t now_ns() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * kSecond + static_cast<std::uint64_t>(time.tv_nsec);
}

std::string interface_of(std::uint32_t port, bool out) {
    const bool towards_host = (port % kDirections == CHAOS_UP) != out;
    return (towards_host ? "h" : "s") + std::to_string(port / kDirections + 1);
}

Result<std::uint32_t> index_of(const std::string& interface) {
    const unsigned index = ::if_nametoindex(interface.c_str());
    if (index == 0) {
        return Error::from_errno(errno, "interface " + interface);
    }
    return index;
}

// How many nanoseconds so many bytes take.
std::uint64_t time_of(std::uint64_t bytes, std::uint64_t bits_a_second) {
    return static_cast<std::uint64_t>(static_cast<double>(bytes) * 8 * static_cast<double>(kSecond) /
                                      static_cast<double>(bits_a_second));
}

// A program in front of the stack (ingress) or behind it (egress). It stays with the interface; another
// daemon's is replaced.
Result<> attach_tc(int program, std::uint32_t ifindex, bpf_tc_attach_point where, const std::string& name) {
    LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = static_cast<int>(ifindex), .attach_point = where);
    if (const int made = bpf_tc_hook_create(&hook); made != 0 && made != -EEXIST) {
        return Error::from_errno(-made, "make a hook for packets of " + name);
    }
    LIBBPF_OPTS(bpf_tc_opts, options, .prog_fd = program, .flags = BPF_TC_F_REPLACE, .handle = 1,
                .priority = 1);
    const int attached = bpf_tc_attach(&hook, &options);
    return attached == 0 ? Result<>() : Error::from_errno(-attached, "attach to " + name);
}

void add(unsigned long long& word, unsigned long long what) {
    std::atomic_ref(word).fetch_add(what, std::memory_order_relaxed);
}

}  // namespace

// An instance of the program a port, all with the first one's maps.
class Injector::Programs {
 public:
    Result<> attach_all(const InjectorOptions& options) {
        for (std::uint32_t port = 0; port < kDirections * options.links; ++port) {
            ASK_TRY(add_port(port, options), "link " + std::to_string(port / kDirections + 1));
        }
        return {};
    }
    Result<> pin(const std::filesystem::path& dir) {
        const std::array<const bpf_map*, 4> shown = {first()->maps.rules, first()->maps.done,
                                                     first()->maps.held, first()->maps.carried};
        for (const bpf_map* map : shown) {
            // A daemon that was killed has left its own.
            ASK_PASS(bpf::unpin(dir / bpf_map__name(map)));
            ASK_PASS(bpf::pin(bpf_map__fd(map), dir / bpf_map__name(map)));
        }
        return {};
    }
    Result<> open_ring(ring_buffer_sample_fn on_frame, void* injector) {
        ring_.reset(ring_buffer__new(bpf_map__fd(first()->maps.frames), on_frame, injector, nullptr));
        return ring_ ? Result<>() : Error::from_errno(errno, "open the ring of held frames");
    }
    [[nodiscard]] int held_fd() { return bpf_map__fd(first()->maps.held); }
    [[nodiscard]] ring_buffer* ring() const { return ring_.get(); }
    [[nodiscard]] std::uint32_t out(std::uint32_t port) const { return out_[port]; }

 private:
    struct FreeRing {
        void operator()(ring_buffer* ring) const { ring_buffer__free(ring); }
    };

    bpf::Skeleton<chaos_bpf>& first() { return skeletons_.front(); }

    // Those with an entry a port first.
    static constexpr std::size_t kMapsOfPorts = 5;
    static std::array<bpf_map*, 7> maps_of(bpf::Skeleton<chaos_bpf>& skeleton) {
        auto& maps = skeleton->maps;
        return {maps.rules, maps.done, maps.held, maps.carried, maps.queues, maps.frames, maps.fins};
    }

    Result<> share_maps(bpf::Skeleton<chaos_bpf>& skeleton, unsigned links) {
        const auto own = maps_of(skeleton);
        if (skeletons_.empty()) {
            for (std::size_t at = 0; at < kMapsOfPorts; ++at) {
                bpf_map__set_max_entries(own[at], kDirections * links);
            }
            return {};
        }
        const auto shared = maps_of(first());
        for (std::size_t at = 0; at < own.size(); ++at) {
            if (bpf_map__reuse_fd(own[at], bpf_map__fd(shared[at])) != 0) {
                return Error::from_errno(errno, std::string("share map ") + bpf_map__name(own[at]));
            }
        }
        return {};
    }

    // What a link of a rate needs beside the program for all.
    static Result<> slow_down(bpf::Skeleton<chaos_bpf>& skeleton, std::uint32_t port) {
        const std::string in = interface_of(port, false);
        const std::string out = interface_of(port, true);
        const auto in_index = index_of(in);
        ASK_PASS(in_index);
        ASK_PASS(attach_tc(bpf_program__fd(skeleton->progs.across), *in_index, BPF_TC_INGRESS, in));
        return attach_tc(bpf_program__fd(skeleton->progs.admit), skeleton->rodata->other_ifindex,
                         BPF_TC_EGRESS, out);
    }

    Result<> add_port(std::uint32_t port, const InjectorOptions& options) {
        const std::string in = interface_of(port, false);
        const auto in_index = index_of(in);
        ASK_PASS(in_index);
        const auto out_index = index_of(interface_of(port, true));
        ASK_PASS(out_index);
        auto skeleton = bpf::Skeleton<chaos_bpf>::open("chaos");
        ASK_PASS(skeleton);
        (*skeleton)->rodata->port = port;
        (*skeleton)->rodata->other_ifindex = *out_index;
        if (options.rate != 0) {
            (*skeleton)->rodata->rate_time = time_of(CHAOS_RATE_BYTES, options.rate);
            (*skeleton)->rodata->longest = time_of(options.queue, options.rate);
            (*skeleton)->rodata->long_queue = time_of(options.queue / kLongQueue, options.rate);
        }
        ASK_PASS(share_maps(*skeleton, options.links));
        if (chaos_bpf::load(skeleton->operator->()) != 0) {
            return Error::from_errno(errno, "load the fault injector's program");
        }
        auto link =
            bpf::attach_xdp(bpf_program__fd((*skeleton)->progs.chaos), *in_index, in, bpf::XdpMode::kNative);
        ASK_PASS(link);
        if (options.rate != 0) {
            ASK_PASS(slow_down(*skeleton, port));
        }
        links_.push_back(std::move(*link));
        out_.push_back(*out_index);
        skeletons_.push_back(std::move(*skeleton));
        return {};
    }

    std::vector<bpf::Skeleton<chaos_bpf>> skeletons_;
    std::vector<UniqueFd> links_;
    std::vector<std::uint32_t> out_;  // interface that the port's packets leave by
    std::unique_ptr<ring_buffer, FreeRing> ring_;
};

Injector::Injector(const InjectorOptions& options)
    : options_(options), programs_(std::make_unique<Programs>()) {}

Injector::~Injector() {
    // Nobody is there to complain to; the lab unmounts the bpffs anyway.
    for (const char* name : {"rules", "done", "held", "carried"}) {
        static_cast<void>(bpf::unpin(options_.pin_dir / name));
    }
}

Result<std::unique_ptr<Injector>> Injector::create(const InjectorOptions& options) {
    std::unique_ptr<Injector> injector(new Injector(options));
    ASK_PASS(injector->set_up());
    return injector;
}

Result<> Injector::set_up() {
    ASK_PASS(bpf::check_bpffs(options_.pin_dir));
    socket_.reset(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    if (!socket_) {
        return Error::from_errno(errno, "open a packet socket");
    }
    ASK_PASS(programs_->attach_all(options_));
    auto held =
        bpf::ArrayView<ChaosHeld>::map(programs_->held_fd(), std::size_t{kDirections} * options_.links);
    ASK_PASS(held);
    held_ = std::move(*held);
    ASK_PASS(programs_->open_ring(&Injector::on_frame, this));
    return programs_->pin(options_.pin_dir);
}

int Injector::on_frame(void* self, void* data, std::size_t) {
    static_cast<Injector*>(self)->keep(*static_cast<const ChaosFrame*>(data));
    return 0;
}

void Injector::keep(const ChaosFrame& frame) {
    if (waiting_.size() >= options_.most_frames) {
        add(held_.span()[frame.port].refused, 1);
        return;
    }
    const auto* const bytes = reinterpret_cast<const std::byte*>(&frame + 1);
    waiting_.push({frame.due, kept_++, frame.port, {bytes, bytes + frame.bytes}});
    add(held_.span()[frame.port].waiting, 1);
}

void Injector::release(std::uint64_t now) {
    for (int sent = 0; sent < kBatch && !waiting_.empty() && waiting_.top().due <= now; ++sent) {
        const Late& frame = waiting_.top();
        ChaosHeld& count = held_.span()[frame.port];
        add(send(frame) ? count.released : count.failed, 1);
        std::atomic_ref(count.waiting).fetch_sub(1, std::memory_order_relaxed);
        waiting_.pop();
    }
}

bool Injector::send(const Late& frame) const {
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_ifindex = static_cast<int>(programs_->out(frame.port));
    const ssize_t sent = ::sendto(socket_.get(), frame.bytes.data(), frame.bytes.size(), 0,
                                  reinterpret_cast<const sockaddr*>(&to), sizeof(to));
    return sent == static_cast<ssize_t>(frame.bytes.size());
}

Result<> Injector::wait(const SignalEvents& signals) const {
    std::uint64_t longest = kLongestWait;
    if (!waiting_.empty()) {
        const std::uint64_t now = now_ns();
        longest = waiting_.top().due <= now ? 0 : std::min(longest, waiting_.top().due - now);
    }
    const timespec timeout{static_cast<time_t>(longest / kSecond), static_cast<long>(longest % kSecond)};
    std::array<pollfd, 2> fds = {
        {{signals.fd(), POLLIN, 0}, {ring_buffer__epoll_fd(programs_->ring()), POLLIN, 0}}};
    if (::ppoll(fds.data(), fds.size(), &timeout, nullptr) < 0 && errno != EINTR) {
        return Error::from_errno(errno, "wait for frames");
    }
    return {};
}

Result<> Injector::run(SignalEvents& signals) {
    for (;;) {
        ASK_PASS(wait(signals));
        const auto signal = signals.wait(std::chrono::milliseconds(0));
        ASK_PASS(signal);
        if (*signal) {
            return {};
        }
        if (const int got = ring_buffer__consume(programs_->ring()); got < 0) {
            return Error::from_errno(-got, "read the ring of held frames");
        }
        release(now_ns());
    }
}

}  // namespace ask::chaos
