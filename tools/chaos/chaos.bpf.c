/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fault injector in the middle of a link: sits on one port of the middle, counts what comes in, draws
 * each packet's fate and sends it on through the other port. What must wait goes to the daemon by the ring.
 *
 * A packet's fate depends on nothing but the rule's seed, the port, and the packet's number there.
 *
 * Links of a rate: what passes the draw goes up to the stack, from there straight to the other port, and
 * through that one's queue, a qdisc of the same rate. `admit` in front of it counts what is in the queue,
 * drops what would be too much, and marks what waits long.
 */
#include "tools/chaos/chaos.h"

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "lib/abi/consts.h"
#include "lib/abi/wire.h"

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 2); /* set before loading: two a link */
    __type(key, __u32);
    __type(value, struct ChaosRule);
} rules SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 2);
    __type(key, __u32);
    __type(value, struct ChaosDone);
} done SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 2);
    __type(key, __u32);
    __type(value, struct ChaosCarried);
} carried SEC(".maps");

/* Those that have been counted. The oldest is forgotten when there are too many. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1 << 16);
    __type(key, struct ChaosFin);
    __type(value, __u8);
} fins SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 2);
    __type(key, __u32);
    __type(value, struct ChaosHeld);
} held SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 16 << 20);
} frames SEC(".maps");

/* When a port's queue will be empty: CLOCK_MONOTONIC, nanoseconds. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 2);
    __type(key, __u32);
    __type(value, __u64);
} queues SEC(".maps");

const volatile __u32 port = 0;          /* of this instance */
const volatile __u32 other_ifindex = 0; /* where its packets go on */

/* Links of a rate. All nanoseconds; 0: no rate. */
const volatile __u64 rate_time = 0;  /* of CHAOS_RATE_BYTES */
const volatile __u64 longest = 0;    /* queue, before it is full */
const volatile __u64 long_queue = 0; /* from where on packets are marked */

/* Where UDP's header starts: no options in front of it, no extension headers. */
#define UDP_OFFSET (sizeof(struct ethhdr) + sizeof(struct iphdr))
#define UDP_OFFSET6 (sizeof(struct ethhdr) + sizeof(struct ipv6hdr))

/* Which draw: each fault has random bits of its own, so that one rate never shifts another's victims. */
enum { DRAW_LOSS, DRAW_DUPLICATE, DRAW_CORRUPT, DRAW_REORDER, DRAW_BIT, DRAW_LATE, DRAW_BEHIND, DRAW_DELAY };

/* SplitMix64's finalizer. */
static __always_inline __u64 mix(__u64 z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static __always_inline __u32 draw(__u64 fate, __u32 which) {
    return (__u32)(mix(fate + (which + 1) * 0x9e3779b97f4a7c15ull) >> 32);
}

/* A time of the span: 32 random bits are a fraction of its width. Widths are below 2^42 ns, so in two steps.
 */
static __always_inline __u64 draw_span(__u64 fate, __u32 which, const struct ChaosSpan* span) {
    const __u64 bits = draw(fate, which);

    return span->from + (span->width >> 16) * bits / 65536 + (span->width & 0xffff) * bits / CHAOS_ALWAYS;
}

static __always_inline int has_ask_port(const struct udphdr* udp) {
    return udp->dest == bpf_htons(ASK_UDP_PORT) || udp->source == bpf_htons(ASK_UDP_PORT);
}

/* Where the ask_hdr of a packet of ASK's starts, 0 of others. */
static __always_inline __u32 ask_offset(const struct xdp_md* ctx) {
    const void* data = (const void*)(long)ctx->data;
    const void* end = (const void*)(long)ctx->data_end;
    const struct ethhdr* eth = data;
    const struct iphdr* ip = data + sizeof(*eth);
    const struct ipv6hdr* ip6 = data + sizeof(*eth);
    const struct udphdr* udp = data + UDP_OFFSET;

    if ((const void*)(udp + 1) > end)
        return 0;
    if (eth->h_proto == bpf_htons(ETH_P_IP) && ip->ihl == 5 && ip->protocol == IPPROTO_UDP &&
        has_ask_port(udp))
        return UDP_OFFSET + sizeof(*udp);
    udp = data + UDP_OFFSET6;
    if ((const void*)(udp + 1) > end || eth->h_proto != bpf_htons(ETH_P_IPV6))
        return 0;
    return ip6->nexthdr == IPPROTO_UDP && has_ask_port(udp) ? UDP_OFFSET6 + sizeof(*udp) : 0;
}

/* What ASK's part of the packet says it is, 0 what is none. */
static __always_inline __u32 type_of(struct xdp_md* ctx, struct ask_hdr* hdr) {
    const __u32 offset = ask_offset(ctx);

    if (!offset || bpf_xdp_load_bytes(ctx, offset, hdr, sizeof(*hdr)) || hdr->version != ASK_WIRE_VERSION ||
        hdr->type >= CHAOS_TYPES)
        return 0;
    return hdr->type;
}

static __always_inline void count_carried(struct xdp_md* ctx) {
    const __u32 index = port;
    struct ChaosCarried* count = bpf_map_lookup_elem(&carried, &index);
    const __u8 seen = 1;
    struct ChaosFin fin = {.port = port};
    struct ask_hdr hdr = {0};
    __u32 type;

    if (!count)
        return;
    type = type_of(ctx, &hdr);
    count->types[type].packets++;
    count->types[type].bytes += bpf_xdp_get_buff_len(ctx);
    if (type != ASK_FIN)
        return;
    fin.task = hdr.task;
    fin.seq = hdr.seq;
    fin.host = hdr.host;
    fin.incarnation = hdr.incarnation;
    fin.udp_port = hdr.port;
    if (!bpf_map_update_elem(&fins, &fin, &seen, BPF_NOEXIST))
        count->first_fins++;
}

/* A record's size must be known to the verifier: `room` is a constant. */
static __always_inline long hold_in(struct xdp_md* ctx, __u64 due, __u32 bytes, const __u32 room) {
    struct ChaosFrame* frame;
    __u32 size = bytes;

    if (bytes == 0 || bytes > CHAOS_FRAME_BYTES || bytes > room)
        return -1;
    /* Changes nothing, but Linux 6.1 sees in it that the length is from 1 to `room`, a power of two. */
    asm volatile("" : "+r"(size));
    size = ((size - 1) & (room - 1)) + 1;
    frame = bpf_ringbuf_reserve(&frames, sizeof(*frame) + room, 0);
    if (!frame)
        return -1;
    frame->due = due;
    frame->port = port;
    frame->bytes = bytes;
    if (bpf_xdp_load_bytes(ctx, 0, frame + 1, size)) {
        bpf_ringbuf_discard(frame, 0);
        return -1;
    }
    bpf_ringbuf_submit(frame, 0);
    return 0;
}

/* Gives the daemon a copy of the frame, to be sent on after `wait`. */
static __always_inline long hold(struct xdp_md* ctx, __u64 wait) {
    const __u64 due = bpf_ktime_get_ns() + wait;
    const __u32 bytes = (__u32)bpf_xdp_get_buff_len(ctx);

    return bytes <= CHAOS_SMALL_BYTES ? hold_in(ctx, due, bytes, CHAOS_SMALL_BYTES)
                                      : hold_in(ctx, due, bytes, CHAOS_LARGE_BYTES);
}

/* Any bit of the frame, headers included. */
static __always_inline long flip_bit(struct xdp_md* ctx, __u64 fate) {
    const __u32 bit = (__u32)((__u64)draw(fate, DRAW_BIT) * (bpf_xdp_get_buff_len(ctx) * 8) / CHAOS_ALWAYS);
    __u8 byte = 0;

    if (bpf_xdp_load_bytes(ctx, bit / 8, &byte, 1))
        return -1;
    byte = (__u8)(byte ^ (1u << (bit % 8)));
    return bpf_xdp_store_bytes(ctx, bit / 8, &byte, 1);
}

static __always_inline void duplicate(struct xdp_md* ctx, const struct ChaosRule* rule,
                                      struct ChaosDone* count, __u64 fate) {
    if (hold(ctx, draw_span(fate, DRAW_LATE, &rule->late)))
        count->hold_full++;
    else
        count->duplicated++;
}

/* By the way that the link's rate asks for. */
static __always_inline int pass(void) {
    return rate_time ? XDP_PASS : (int)bpf_redirect(other_ifindex, 0);
}

/* Sends the packet on, now or later. */
static __always_inline int send_on(struct xdp_md* ctx, const struct ChaosRule* rule, struct ChaosDone* count,
                                   __u64 fate) {
    const int every = rule->delay.from + rule->delay.width != 0;
    const int behind = draw(fate, DRAW_REORDER) < rule->reorder;
    __u64 wait = 0;

    if (!every && !behind)
        return pass();
    if (every)
        wait += draw_span(fate, DRAW_DELAY, &rule->delay);
    if (behind)
        wait += draw_span(fate, DRAW_BEHIND, &rule->behind);
    if (hold(ctx, wait)) {
        count->hold_full++;
        return XDP_DROP;
    }
    if (every)
        count->delayed++;
    if (behind)
        count->reordered++;
    return XDP_DROP;
}

SEC("xdp")
int chaos(struct xdp_md* ctx) {
    const __u32 index = port;
    struct ChaosRule* rule = bpf_map_lookup_elem(&rules, &index);
    struct ChaosDone* count = bpf_map_lookup_elem(&done, &index);
    __u64 fate;

    if (!rule || !count)
        return XDP_ABORTED;
    count_carried(ctx);
    if (!rule->all_traffic && !ask_offset(ctx)) {
        count->spared++;
        return pass();
    }
    count->packets++;
    fate = __sync_fetch_and_add(&rule->packets, 1);
    fate = mix(rule->seed + mix(fate * CHAOS_ALWAYS + index + 1));
    if (draw(fate, DRAW_LOSS) < rule->loss) {
        count->lost++;
        return XDP_DROP;
    }
    /* Before the damage: the copy is whole. */
    if (draw(fate, DRAW_DUPLICATE) < rule->duplicate)
        duplicate(ctx, rule, count, fate);
    if (draw(fate, DRAW_CORRUPT) < rule->corrupt && !flip_bit(ctx, fate))
        count->corrupted++;
    return send_on(ctx, rule, count, fate);
}

/* In front of the stack: it has no business with the packet. */
SEC("tc")
int across(struct __sk_buff* skb) {
    (void)skb;
    return (int)bpf_redirect(other_ifindex, 0);
}

/* Other CPUs may be at the same queue. Who loses to them four times goes on uncounted: the qdisc knows its
 * rate. */
#define ADMIT_TRIES 4

SEC("tc")
int admit(struct __sk_buff* skb) {
    const __u32 index = port;
    struct ChaosDone* count = bpf_map_lookup_elem(&done, &index);
    __u64* empty_at = bpf_map_lookup_elem(&queues, &index);
    const __u64 takes = skb->len * rate_time / CHAOS_RATE_BYTES;
    const __u64 now = bpf_ktime_get_ns();
    __u64 waits = 0;

    if (!count || !empty_at)
        return TC_ACT_SHOT;
    for (int i = 0; i < ADMIT_TRIES; i++) {
        const __u64 before = *(volatile __u64*)empty_at;

        waits = before > now ? before - now : 0;
        if (waits + takes > longest) {
            count->queue_full++;
            return TC_ACT_SHOT;
        }
        if (__sync_val_compare_and_swap(empty_at, before, now + waits + takes) == before)
            break;
    }
    if (waits > long_queue && bpf_skb_ecn_set_ce(skb) == 1)
        count->marked++;
    return TC_ACT_OK;
}

char _license[] SEC("license") = "Apache-2.0";
