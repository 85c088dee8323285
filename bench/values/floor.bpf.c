// SPDX-License-Identifier: Apache-2.0
//
// What the switch cannot do without for a VALUE that is folded into its slot: look-ups, the check over all of
// it, the slot's owner, the fold and the new set; nothing is decided. In the same maps as the switch program.
#include "bpf/engine/check.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/engine/flow.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "bpf/values/fold.bpf.h"
#include "bpf/values/slot.bpf.h"

SEC("xdp.frags")
int floor_fold(struct xdp_md* ctx) {
    struct ask_packet* packet = find_packet();
    struct ask_frame frame = {};
    struct ask_claim claim = {};
    struct ask_value_slot* slot;
    struct ask_chunk chunk = {};
    const __be64* bits;
    __u32 blocks;
    __u64 sum;

    if (!packet || !parse_udp(ctx, &frame) || !frame.hdr ||
        frame.data + ASK_BODY_OFFSET + sizeof(struct ask_values_ext) > frame.end)
        return XDP_ABORTED;
    bits = frame.data + ASK_BODY_OFFSET;
    find_flow(frame.hdr, &claim);
    if (!claim.flow || !claim.task || !claim.channel)
        return XDP_ABORTED;
    lay_out_values(packet);
    blocks = ask_values_blocks(frame.hdr);
    sum = sum_head(&frame, &claim.flow->key) +
          ask_sum_body(ctx, &claim.flow->key, packet, blocks * ASK_VALUES_BLOCK_WORDS);
    if (close_check(&claim.flow->key, sum) != frame.hdr->check)
        return XDP_ABORTED;
    chunk.group = find_group(claim.flow->task);
    if (!chunk.group)
        return XDP_ABORTED;
    chunk.seq = bpf_be64_to_cpu(frame.hdr->seq);
    chunk.stream = ask_values_stream(frame.hdr);
    slot = find_slot(&chunk);
    if (!slot || ask_cas64(&slot->own, ASK_SLOT_FREE, ASK_SLOT_PROGRAM) != ASK_SLOT_FREE)
        return XDP_ABORTED;
    slot->bits |= bpf_be64_to_cpu(*bits);
    ask_fold(ctx, slot, frame.hdr->op, blocks);
    release_slot(slot);
    count(ASK_CNT_value_folded);
    return XDP_DROP;
}

/* What feeding costs. */
SEC("xdp.frags")
int absorber(struct xdp_md* ctx) {
    (void)ctx;
    return XDP_DROP;
}

char _license[] SEC("license") = "GPL";
