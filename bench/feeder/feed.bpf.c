/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds another XDP program from a map: each repetition of one BPF_PROG_TEST_RUN takes what the packet before
 * left behind, lays the next frame in the buffer, and tail-calls the program under test. One more repetition
 * than frames.
 */
#include "bench/feeder/feed.h"

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_helpers.h>

#include "lib/abi/wire.h"

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, FEED_SLOTS);
    __type(key, __u32);
    __type(value, struct FeedSlot);
} slots SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} target SEC(".maps");

__u32 feed_frames = 0; /* in the slots */
__u32 feed_next = 0;   /* slot to feed next */
__u32 feed_errors = 0;

static __always_inline int is_ack(const struct xdp_md* ctx) {
    const void* data = (const void*)(long)ctx->data;
    const struct ask_hdr* hdr = data + sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct udphdr);

    return (const void*)(hdr + 1) <= (const void*)(long)ctx->data_end && hdr->type == ASK_ACK;
}

static __always_inline long save(struct xdp_md* ctx, __u32 index) {
    struct FeedSlot* slot = bpf_map_lookup_elem(&slots, &index);
    const __u32 bytes = (__u32)bpf_xdp_get_buff_len(ctx);

    if (!slot)
        return -1;
    if (is_ack(ctx)) {
        slot->bytes = 0;
        return 0;
    }
    slot->bytes = bytes;
    if (bytes == 0 || bytes > FEED_FRAME_BYTES)
        return -1;
    return bpf_xdp_load_bytes(ctx, 0, slot->frame, bytes);
}

static __always_inline long load(struct xdp_md* ctx, __u32 index) {
    struct FeedSlot* slot = bpf_map_lookup_elem(&slots, &index);
    __u32 bytes;

    if (!slot)
        return -1;
    bytes = slot->bytes;
    if (bytes == 0 || bytes > FEED_FRAME_BYTES)
        return -1;
    if (bpf_xdp_adjust_tail(ctx, (int)bytes - (int)bpf_xdp_get_buff_len(ctx)))
        return -1;
    return bpf_xdp_store_bytes(ctx, 0, slot->frame, bytes);
}

SEC("xdp.frags")
int feed(struct xdp_md* ctx) {
    const __u32 index = feed_next++;

    if (index > 0 && save(ctx, index - 1))
        ++feed_errors;
    if (index >= feed_frames)
        return XDP_PASS;
    if (load(ctx, index))
        ++feed_errors;
    else
        bpf_tail_call(ctx, &target, 0);
    ++feed_errors;
    return XDP_ABORTED;
}

char _license[] SEC("license") = "Apache-2.0";
