/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What polls.bpf.c counts, shared with its reader.
 */
#pragma once

#include <linux/types.h>

/* Network namespaces by their numbers: /proc/PID/ns/net. */
struct PollKey {
    __u32 runner; /* of the task that the softirq ran in */
    __u32 polled; /* of the device */
};

struct PollTime {
    __u64 nanoseconds;
    __u64 packets;
    __u64 unplaced; /* polls outside a softirq, by a thread of their own or a busy socket: not timed */
};
