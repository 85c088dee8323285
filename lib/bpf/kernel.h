// SPDX-License-Identifier: Apache-2.0
//
// What this process may do and what this kernel can do, asked before anything is changed, so that an error
// names the lack instead of a refused system call.
#pragma once

#include <initializer_list>
#include <string>

#include "lib/base/result.h"

namespace ask::bpf {

// A capability by its number in linux/capability.h and its name.
struct Capability {
    int number = 0;
    const char* name = nullptr;
};

// Loading and attaching XDP programs and reading packets by pointer arithmetic: CAP_BPF, CAP_NET_ADMIN,
// CAP_PERFMON.
extern const std::initializer_list<Capability> kXdpCapabilities;

// Names every missing one (kDenied). CAP_SYS_ADMIN stands for CAP_BPF and CAP_PERFMON.
Result<> check_capabilities(std::initializer_list<Capability> wanted);

// Map types and flags that the switch needs: array of maps with inner maps of any size, memory-mapped arrays,
// a devmap by hash. kUnsupported names all that this kernel lacks.
Result<> check_switch_features();

// Whether the kernel preempts softirqs (PREEMPT_RT), so that two programs may interleave on one CPU.
bool is_preempt_rt();

// Identifies this boot of the kernel: /proc/sys/kernel/random/boot_id.
Result<std::string> boot_id();

}  // namespace ask::bpf
