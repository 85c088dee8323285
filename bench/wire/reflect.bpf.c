// SPDX-License-Identifier: Apache-2.0
//
// In the switch's place: every DATA packet goes straight back as its own ACK. It does the least that the
// sender believes: the flow's key is looked up, addresses and ports change places, the header is sealed anew
// and the rows are cut off. Nothing is verified, deduped or aggregated. Whatever else comes is the switch
// program's; and a FIN's count is written down as aggregated, or the receiver would miss it.
#include "bpf/engine/answer.bpf.h"
#include "bpf/engine/check.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/engine/flow.bpf.h"

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} switch_program SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1); /* the switch's */
    __type(key, __u32);
    __type(value, struct ask_flow_stats);
} flow_stats SEC(".maps");

/* Always with the first CPU: a FIN that comes twice says the same. */
static __always_inline void pretend(const struct ask_frame* frame, __u32 flow) {
    const struct ask_fin* fin = (const void*)(frame->data + ASK_BODY_OFFSET);
    struct ask_flow_stats* stats = bpf_map_lookup_percpu_elem(&flow_stats, &flow, 0);

    if (stats && (const void*)(fin + 1) <= (const void*)frame->end)
        stats->tuples_aggregated = bpf_be64_to_cpu(fin->items);
}

/* Cut to size by the same kernel function as the switch's ACK. Without a mark, as if the receiver had sent
 * it: that saves writing one. */
static __always_inline int reflect(struct xdp_md* ctx, struct ask_frame* frame,
                                   const struct ask_check_key* key) {
    turn_round(frame);
    write_lengths(frame->ip, frame->udp, sizeof(struct ask_hdr));
    write_ip_checksum(frame->ip);
    frame->hdr->type = ASK_ACK;
    frame->hdr->rows = 0;
    frame->hdr->check = close_check(key, sum_head(frame, key));
    if (bpf_xdp_adjust_tail(ctx, (int)((long)(frame->data + ASK_BODY_OFFSET) - (long)frame->end)))
        return leave_abort(ASK_CNT_abort_resize);
    count(ASK_CNT_ack_new);
    return XDP_TX;
}

SEC("xdp.frags")
int wire_reflect(struct xdp_md* ctx) {
    struct ask_frame frame = {};
    struct ask_claim claim = {};

    if (parse_udp(ctx, &frame) && frame.hdr && frame.udp->dest == bpf_htons(ASK_UDP_PORT) &&
        (frame.hdr->type == ASK_DATA || frame.hdr->type == ASK_FIN)) {
        find_flow(frame.hdr, &claim);
        if (claim.flow && frame.hdr->type == ASK_DATA)
            return reflect(ctx, &frame, &claim.flow->key);
        if (claim.flow)
            pretend(&frame, claim.flow_index);
    }
    bpf_tail_call(ctx, &switch_program, 0);
    return leave_abort(ASK_CNT_abort_state);
}

char _license[] SEC("license") = "Dual BSD/GPL";
