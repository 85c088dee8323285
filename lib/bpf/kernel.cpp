// SPDX-License-Identifier: Apache-2.0
#include "lib/bpf/kernel.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <fstream>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "lib/base/unique_fd.h"
#include "lib/bpf/map.h"

namespace ask::bpf {
namespace {

// linux/capability.h of an older libc than the kernel's may lack the newer ones.
constexpr int kCapPerfmon = 38;
constexpr int kCapBpf = 39;

Result<std::uint64_t> effective_capabilities() {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    std::array<__user_cap_data_struct, 2> data{};
    if (::syscall(SYS_capget, &header, data.data()) != 0) {
        return Error::from_errno(errno, "capget");
    }
    return data[0].effective | (std::uint64_t{data[1].effective} << 32U);
}

bool has(std::uint64_t set, int capability) {
    return ((set >> static_cast<unsigned>(capability)) & 1U) != 0;
}

UniqueFd try_map(bpf_map_type type, const bpf_map_create_opts* options, std::uint32_t value_size) {
    return UniqueFd(bpf_map_create(type, "ask_probe", sizeof(std::uint32_t), value_size, 1, options));
}

std::string probe_array_of_maps() {
    LIBBPF_OPTS(bpf_map_create_opts, inner_options, .map_flags = BPF_F_INNER_MAP | BPF_F_MMAPABLE);
    const UniqueFd inner = try_map(BPF_MAP_TYPE_ARRAY, &inner_options, 8);
    if (!inner) {
        return "arrays as inner maps of any size (BPF_F_INNER_MAP, Linux 5.10)";
    }
    LIBBPF_OPTS(bpf_map_create_opts, outer_options, .inner_map_fd = static_cast<__u32>(inner.get()));
    return try_map(BPF_MAP_TYPE_ARRAY_OF_MAPS, &outer_options, 4) ? "" : "arrays of maps (Linux 4.12)";
}

std::string probe_mmapable() {
    LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
    const UniqueFd array = try_map(BPF_MAP_TYPE_ARRAY, &options, 8);
    return array && ArrayView<std::uint64_t>::map(array.get(), 1).ok()
               ? ""
               : "memory-mapped arrays (BPF_F_MMAPABLE, Linux 5.5)";
}

std::string probe_devmap() {
    return try_map(BPF_MAP_TYPE_DEVMAP_HASH, nullptr, 4) ? "" : "redirection by devmap_hash (Linux 5.4)";
}

// XDP links (Linux 5.9) cannot be tried without an interface; a kernel with BPF_F_INNER_MAP arrays (5.10) has
// them.
std::string probe_xdp_program() {
    return libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_XDP, nullptr) == 1 ? "" : "XDP programs";
}

}  // namespace

const std::initializer_list<Capability> kXdpCapabilities = {
    {kCapBpf, "CAP_BPF"}, {CAP_NET_ADMIN, "CAP_NET_ADMIN"}, {kCapPerfmon, "CAP_PERFMON"}};

Result<> check_capabilities(std::initializer_list<Capability> wanted) {
    const auto set = effective_capabilities();
    ASK_TRY(set, "capabilities");
    std::string missing;
    for (const Capability& capability : wanted) {
        const bool implied =
            (capability.number == kCapBpf || capability.number == kCapPerfmon) && has(*set, CAP_SYS_ADMIN);
        if (!has(*set, capability.number) && !implied) {
            missing += (missing.empty() ? "" : ", ") + std::string(capability.name);
        }
    }
    if (!missing.empty()) {
        return Error(Errc::kDenied, "missing " + missing +
                                        ": run as root, or give the service these capabilities "
                                        "(AmbientCapabilities= in its unit)");
    }
    return {};
}

Result<> check_switch_features() {
    std::string missing;
    for (const std::string& lack :
         {probe_array_of_maps(), probe_mmapable(), probe_devmap(), probe_xdp_program()}) {
        if (!lack.empty()) {
            missing += (missing.empty() ? "" : "; ") + lack;
        }
    }
    if (!missing.empty()) {
        return Error(Errc::kUnsupported,
                     "this kernel lacks " + missing + ": Linux 6.1 or later has everything");
    }
    return {};
}

bool is_preempt_rt() {
    std::ifstream realtime("/sys/kernel/realtime");
    if (int value = 0; realtime >> value) {
        return value != 0;
    }
    utsname name{};
    return ::uname(&name) == 0 && std::string_view(name.version).find("PREEMPT_RT") != std::string_view::npos;
}

Result<std::string> boot_id() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    if (!(file >> id)) {
        return Error(Errc::kUnsupported, "cannot read /proc/sys/kernel/random/boot_id: mount /proc");
    }
    return id;
}

Result<unsigned> possible_cpus() {
    const int cpus = libbpf_num_possible_cpus();
    if (cpus <= 0) {
        return Error::from_errno(-cpus, "count possible CPUs");
    }
    return static_cast<unsigned>(cpus);
}

}  // namespace ask::bpf
