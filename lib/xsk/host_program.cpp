// SPDX-License-Identifier: Apache-2.0
#include "lib/xsk/host_program.h"

#include <arpa/inet.h>
#include <linux/capability.h>
#include <linux/if_link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "host.skel.h"
#include "lib/abi/map_types.h"
#include "lib/base/unique_fd.h"
#include "lib/net/host_book.h"
#include "lib/net/netlink.h"
#include "lib/xsk/xsk_socket.h"

namespace ask {
namespace {

using Clock = std::chrono::steady_clock;

struct DestroySkeleton {
    void operator()(host_bpf* skeleton) const { host_bpf::destroy(skeleton); }
};

struct NamedCapability {
    unsigned number;
    const char* name;
};
constexpr std::array<NamedCapability, 4> kNeeded = {{{CAP_BPF, "CAP_BPF"},
                                                     {CAP_NET_ADMIN, "CAP_NET_ADMIN"},
                                                     {CAP_NET_RAW, "CAP_NET_RAW"},
                                                     {CAP_PERFMON, "CAP_PERFMON"}}};

}  // namespace

Result<> check_host_capabilities() {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};
    if (::syscall(SYS_capget, &header, data.data()) != 0) {
        return Error::from_errno(errno, "read capabilities");
    }
    // CAP_SYS_ADMIN stands in for the two that were split from it.
    const auto has = [&](unsigned number) {
        return (data[number / 32].effective & (1U << (number % 32))) != 0;
    };
    std::string missing;
    for (const NamedCapability& needed : kNeeded) {
        const bool split = needed.number == CAP_BPF || needed.number == CAP_PERFMON;
        if (!has(needed.number) && !(split && has(CAP_SYS_ADMIN))) {
            missing += (missing.empty() ? "" : ", ") + std::string(needed.name);
        }
    }
    if (!missing.empty()) {
        return Error(Errc::kDenied, missing +
                                        " missing: run as root, or give the process these capabilities "
                                        "(AmbientCapabilities= in its unit)");
    }
    return {};
}

class HostProgram::Impl {
 public:
    explicit Impl(const Options& options) : options_(options) {}

    Result<> load() {
        skeleton_.reset(host_bpf::open());
        if (!skeleton_) {
            return Error::from_errno(errno, "open the steering program");
        }
        ASK_PASS(set_own_address());
        skeleton_->rodata->by_member = options_.bond ? 1 : 0;
        const std::uint32_t places = options_.queues * (options_.bond ? kMostMembers : 1);
        if (const int error = bpf_map__set_max_entries(skeleton_->maps.xsks, places); error != 0) {
            return Error::from_errno(-error, "size the map of sockets");
        }
        if (const int error = host_bpf::load(skeleton_.get()); error != 0) {
            return Error::from_errno(-error, "load the steering program");
        }
        return {};
    }

    Result<> set_own_address() {
        if (!is_ipv6_number(options_.own_address)) {
            skeleton_->rodata->own_address = htonl(options_.own_address);
            return {};
        }
        const auto address = ipv6_of(options_.own_address);
        if (!address) {
            return Error(Errc::kUnknown, format_host(options_.own_address) + ": nobody told of its address");
        }
        static_assert(sizeof(skeleton_->rodata->own_address6) == sizeof(*address));
        std::memcpy(&skeleton_->rodata->own_address6, address->data(), address->size());
        return {};
    }

    Result<> add_member(const std::string& name, std::uint32_t ifindex) {
        const auto known = members_.find(name);
        const auto nth =
            known == members_.end() ? static_cast<std::uint32_t>(members_.size()) : known->second.nth;
        if (nth >= kMostMembers) {
            return Error(Errc::kLimit, "bond " + options_.interface + " has had " + std::to_string(nth) +
                                           " members, and " + name + " is one too many: restart ask-agentd");
        }
        const std::uint32_t first = nth * options_.queues;
        if (known != members_.end() && known->second.ifindex != ifindex) {
            // One that was deleted and made again.
            bpf_map_delete_elem(members_fd(), &known->second.ifindex);
        }
        if (const int error = bpf_map_update_elem(members_fd(), &ifindex, &first, BPF_ANY); error != 0) {
            return Error::from_errno(-error, "tell the steering program of " + name);
        }
        members_.insert_or_assign(name, Member{.nth = nth, .ifindex = ifindex});
        return {};
    }

    // Of the socket in the map.
    [[nodiscard]] Result<std::uint32_t> place_of(const XskSocket& socket) const {
        if (!options_.bond) {
            return socket.queue();
        }
        const auto member = members_.find(socket.interface());
        if (member == members_.end() || socket.queue() >= options_.queues) {
            return Error(Errc::kLimit, socket.interface() + " queue " + std::to_string(socket.queue()) +
                                           ": bond " + options_.interface +
                                           " has no place for it: restart ask-agentd");
        }
        return member->second.nth * options_.queues + socket.queue();
    }

    Result<> attach_once() {
        LIBBPF_OPTS(bpf_link_create_opts, link_options,
                    .flags = options_.mode == XdpMode::kNative ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE);
        const int fd =
            bpf_link_create(program_fd(), static_cast<int>(options_.interface_index), BPF_XDP, &link_options);
        if (fd < 0) {
            return attach_error(-fd);
        }
        link_.reset(fd);
        return {};
    }

    [[nodiscard]] int program_fd() const { return bpf_program__fd(skeleton_->progs.ask_host); }
    [[nodiscard]] int sockets_fd() const { return bpf_map__fd(skeleton_->maps.xsks); }
    [[nodiscard]] int members_fd() const { return bpf_map__fd(skeleton_->maps.members); }
    [[nodiscard]] int counters_fd() const { return bpf_map__fd(skeleton_->maps.host_counters); }
    [[nodiscard]] const Options& options() const { return options_; }

 private:
    struct Member {
        std::uint32_t nth = 0;  // in the order that they came
        std::uint32_t ifindex = 0;
    };

    [[nodiscard]] Error attach_error(int error) const {
        if (error == EOPNOTSUPP && options_.bond) {
            return Error(
                Errc::kUnsupported,
                "one of the bond's members has no native XDP, or a program of its own (ip link set dev "
                "MEMBER xdp off): remove it, or use xdp_mode = \"generic\" (slower)");
        }
        if (error == EOPNOTSUPP && options_.mode == XdpMode::kNative) {
            return Error(
                Errc::kUnsupported,
                "its driver has no native XDP, or its device keeps offloads that stand in the way, as "
                "virtio-net does without ctrl_guest_offloads: use xdp_mode = \"generic\" (slower)");
        }
        if (error == EBUSY || error == EEXIST) {
            return Error(Errc::kExists, "another XDP program is attached" + attached_id() +
                                            ": detach it first (ip link set dev " + options_.interface +
                                            " xdp off)");
        }
        if (error == ERANGE || error == EINVAL) {
            return Error(
                Errc::kUnsupported,
                "the driver refuses an XDP program at this MTU: lower the MTU of both ends (to 3506, or "
                "what its documentation says), or set xdp_mode to generic");
        }
        if (error == ENOSPC) {
            return Error(
                Errc::kUnsupported,
                "fewer receive queues are in use than the other end of this veth has transmit queues: "
                "make them as many (ethtool -L)");
        }
        return Error::from_errno(error, "attach the steering program");
    }
    [[nodiscard]] std::string attached_id() const {
        auto netlink = Netlink::open();
        if (!netlink) {
            return "";
        }
        const auto info = netlink->interface(options_.interface);
        return info.ok() && info->xdp_program != 0 ? " (id " + std::to_string(info->xdp_program) + ")" : "";
    }

    Options options_;
    std::unique_ptr<host_bpf, DestroySkeleton> skeleton_;
    UniqueFd link_;
    std::map<std::string, Member> members_;  // of a bond
};

HostProgram::HostProgram(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HostProgram::HostProgram(HostProgram&&) noexcept = default;
HostProgram& HostProgram::operator=(HostProgram&&) noexcept = default;
HostProgram::~HostProgram() = default;

Result<HostProgram> HostProgram::load(const Options& options) {
    auto impl = std::make_unique<Impl>(options);
    ASK_TRY(impl->load(), options.interface);
    return HostProgram(std::move(impl));
}

Result<> HostProgram::add_socket(const XskSocket& socket) {
    const auto place = impl_->place_of(socket);
    ASK_PASS(place);
    const int fd = socket.fd();
    if (const int error = bpf_map_update_elem(impl_->sockets_fd(), &*place, &fd, BPF_ANY); error != 0) {
        return Error::from_errno(-error, socket.interface() + " queue " + std::to_string(socket.queue()) +
                                             ": give the socket to the steering program");
    }
    return {};
}

Result<> HostProgram::add_member(const std::string& name, std::uint32_t ifindex) {
    return impl_->add_member(name, ifindex);
}

Result<> HostProgram::attach() {
    const auto deadline = Clock::now() + impl_->options().busy_deadline;
    constexpr std::chrono::milliseconds kRetry{20};
    for (;;) {
        auto attached = impl_->attach_once();
        if (attached.ok()) {
            return {};
        }
        if (attached.error().code() != Errc::kExists || Clock::now() >= deadline) {
            return std::move(attached).error().with_context(impl_->options().interface);
        }
        // A predecessor's link goes away with its last descriptor, of which nothing tells: ask again.
        std::this_thread::sleep_for(kRetry);
    }
}

int HostProgram::program_fd() const {
    return impl_->program_fd();
}
int HostProgram::sockets_map_fd() const {
    return impl_->sockets_fd();
}

Result<std::vector<std::uint64_t>> HostProgram::counters() const {
    const int cpus = libbpf_num_possible_cpus();
    if (cpus < 1) {
        return Error::from_errno(-cpus, "count possible CPUs");
    }
    std::vector<std::uint64_t> per_cpu(static_cast<std::size_t>(cpus));
    std::vector<std::uint64_t> sums(ASK_HOST_CNT_COUNT);
    for (std::uint32_t counter = 0; counter < ASK_HOST_CNT_COUNT; ++counter) {
        if (const int error = bpf_map_lookup_elem(impl_->counters_fd(), &counter, per_cpu.data());
            error != 0) {
            return Error::from_errno(-error, "read the steering program's counters");
        }
        for (const std::uint64_t value : per_cpu) {
            sums[counter] += value;
        }
    }
    return sums;
}

}  // namespace ask
