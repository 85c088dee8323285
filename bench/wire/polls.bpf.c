// SPDX-License-Identifier: Apache-2.0
//
// How long devices are polled, by whose device it is and in whose time it runs. The kernel charges a softirq
// to the task that it happens to interrupt: on a veth, where packets are received within the sender's own
// system call, a host would pay for the switch.
#include "bench/wire/polls.h"

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#define NET_RX_SOFTIRQ 3
#define MAX_PAIRS 4096 /* of namespaces; labs of others on this machine are counted too */

/* As much of the kernel's types as is read here; offsets are put in when the program is loaded. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct ns_common {
    unsigned int inum;
};
struct net {
    struct ns_common ns;
};
typedef struct {
    struct net* net;
} possible_net_t;
struct net_device {
    possible_net_t nd_net;
};
struct napi_struct {
    struct net_device* dev;
};
struct nsproxy {
    struct net* net_ns;
};
struct task_struct {
    struct nsproxy* nsproxy;
};
#pragma clang attribute pop

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
    __uint(max_entries, MAX_PAIRS);
    __type(key, struct PollKey);
    __type(value, struct PollTime);
} polls SEC(".maps");

#define OUTSIDE 1ull /* of a softirq that receives; 0: not known yet */

/* When this CPU began to poll, or ended the poll before. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} since SEC(".maps");

__u64 polls_lost = 0; /* no room for their pair */

static __always_inline __u64* find_since(void) {
    __u32 zero = 0;

    return bpf_map_lookup_elem(&since, &zero);
}

static __always_inline __u32 runner(void) {
    const struct task_struct* task = bpf_get_current_task_btf();
    const struct nsproxy* namespaces = task->nsproxy;

    /* None in a task that is ending. */
    return namespaces ? namespaces->net_ns->ns.inum : 0;
}

static __always_inline struct PollTime* find_time(const struct PollKey* key) {
    const struct PollTime none = {};
    struct PollTime* time = bpf_map_lookup_elem(&polls, key);

    if (time)
        return time;
    bpf_map_update_elem(&polls, key, &none, BPF_NOEXIST);
    return bpf_map_lookup_elem(&polls, key);
}

SEC("tp_btf/softirq_entry")
int softirq_begins(__u64* ctx) {
    __u64* began = find_since();

    if (began && ctx[0] == NET_RX_SOFTIRQ)
        *began = bpf_ktime_get_ns();
    return 0;
}

SEC("tp_btf/softirq_exit")
int softirq_ends(__u64* ctx) {
    __u64* began = find_since();

    if (began && ctx[0] == NET_RX_SOFTIRQ)
        *began = OUTSIDE;
    return 0;
}

static __always_inline void add_poll(struct PollTime* time, __u64 nanoseconds, __u64 packets) {
    time->nanoseconds += nanoseconds;
    time->packets += packets;
}

SEC("tp_btf/napi_poll")
int device_polled(__u64* ctx) {
    const struct napi_struct* napi = (const struct napi_struct*)ctx[0];
    const struct net_device* device = napi->dev;
    __u64* began = find_since();
    struct PollKey key = {};
    struct PollTime* time;
    __u64 now;

    /* A poll that was under way when this began is nobody's. */
    if (!began || !*began || !device)
        return 0;
    key.runner = runner();
    key.polled = device->nd_net.net->ns.inum;
    time = find_time(&key);
    now = bpf_ktime_get_ns();
    if (!time)
        __sync_fetch_and_add(&polls_lost, 1);
    else if (*began == OUTSIDE)
        time->unplaced++;
    else
        add_poll(time, now - *began, (__u32)ctx[1]);
    if (*began != OUTSIDE)
        *began = now;
    return 0;
}

char _license[] SEC("license") = "GPL";
