// SPDX-License-Identifier: Apache-2.0
#include "lib/bpf/barrier.h"

#include <cstdint>

#include <bpf/bpf.h>

namespace ask::bpf {

Result<RcuBarrier> RcuBarrier::create() {
    UniqueFd inner(bpf_map_create(BPF_MAP_TYPE_ARRAY, "ask_barrier_in", sizeof(std::uint32_t),
                                  sizeof(std::uint64_t), 1, nullptr));
    if (!inner) {
        return Error::from_errno(errno, "create the barrier's inner map");
    }
    LIBBPF_OPTS(bpf_map_create_opts, options, .inner_map_fd = static_cast<__u32>(inner.get()));
    UniqueFd outer(bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "ask_barrier", sizeof(std::uint32_t),
                                  sizeof(std::uint32_t), 1, &options));
    if (!outer) {
        return Error::from_errno(errno, "create the barrier's map of maps");
    }
    return RcuBarrier(std::move(outer), std::move(inner));
}

Result<> RcuBarrier::wait() const {
    const std::uint32_t key = 0;
    const int value = inner_.get();
    if (bpf_map_update_elem(outer_.get(), &key, &value, BPF_ANY) != 0) {
        return Error::from_errno(errno, "wait for an RCU grace period");
    }
    return {};
}

}  // namespace ask::bpf
