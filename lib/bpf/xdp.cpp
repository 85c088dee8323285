// SPDX-License-Identifier: Apache-2.0
#include "lib/bpf/xdp.h"

#include <linux/if_link.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

namespace ask::bpf {

std::string_view to_string(XdpMode mode) {
    return mode == XdpMode::kNative ? "native" : "generic";
}

Result<std::uint32_t> attached_xdp(std::uint32_t ifindex, const std::string& name) {
    LIBBPF_OPTS(bpf_xdp_query_opts, options);
    if (const int error = bpf_xdp_query(static_cast<int>(ifindex), 0, &options); error != 0) {
        return Error::from_errno(-error, "query XDP on " + name);
    }
    for (const std::uint32_t id :
         {options.prog_id, options.drv_prog_id, options.skb_prog_id, options.hw_prog_id}) {
        if (id != 0) {
            return id;
        }
    }
    return 0U;
}

Result<UniqueFd> attach_xdp(int program, std::uint32_t ifindex, const std::string& name, XdpMode mode) {
    LIBBPF_OPTS(bpf_link_create_opts, options,
                .flags = mode == XdpMode::kNative ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE);
    UniqueFd link(bpf_link_create(program, static_cast<int>(ifindex), BPF_XDP, &options));
    if (link) {
        return link;
    }
    const int error = errno;
    // Asked only where one is refused: libbpf lists all interfaces for it, of which there may be thousands.
    if (error == EBUSY || error == EEXIST) {
        const auto other = attached_xdp(ifindex, name);
        ASK_TRY(other, "attach");
        if (*other != 0) {
            return Error(Errc::kExists, "interface " + name + " already has XDP program " +
                                            std::to_string(*other) + ": remove it (ip link set dev " + name +
                                            " xdp off, or its own tool), or leave the interface out");
        }
    }
    if (error == EOPNOTSUPP && mode == XdpMode::kNative) {
        return Error(
            Errc::kUnsupported,
            "interface " + name +
                " cannot do native XDP (its driver has none, or its device keeps offloads that stand "
                "in the way, as virtio-net does without ctrl_guest_offloads): use an interface that can, "
                "or set xdp_mode to generic");
    }
    if (error == ENOSPC) {
        return Error(Errc::kUnsupported, "interface " + name +
                                             " refuses native XDP: it has fewer receive queues than its "
                                             "peer sends on");
    }
    // Which of the two a driver says that knows of no fragments is its own choice.
    if ((error == ERANGE || error == EINVAL) && mode == XdpMode::kNative) {
        return Error(
            Errc::kUnsupported,
            "interface " + name +
                " refuses native XDP: its MTU, or its peer's, is too large for its driver: ip link set dev " +
                name + " mtu 3506 suits most, 1500 all; or set xdp_mode to generic");
    }
    return Error::from_errno(error, "attach XDP to " + name + " (" + std::string(to_string(mode)) + ")");
}

}  // namespace ask::bpf
