/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The echo service (tests/bpf/echo/echo.h), with all that bpf/engine/service.bpf.h asks of one. In the header
 * its bytes are: extension words (1), words a line, 0, 0, 0.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/fan_out.bpf.h"
#include "bpf/engine/flow.bpf.h"
#include "bpf/engine/packet.bpf.h"
#include "tests/bpf/echo/echo.h"

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, ECHO_TASKS);
    __type(key, __u32);
    __type(value, struct echo_task);
} echo_tasks SEC(".maps");

static __always_inline __u32 echo_check_header(const struct ask_hdr* hdr, const struct ask_task* task) {
    if (hdr->type != ECHO_TYPE && hdr->type != ASK_FIN)
        return ASK_CNT_bad_type;
    if (hdr->short_slots != task->short_slots || hdr->groups || hdr->m || hdr->op)
        return ASK_CNT_bad_geometry;
    return 0;
}

static __always_inline __u32 echo_lay_out(struct xdp_md* ctx, const struct ask_hdr* hdr,
                                          const struct ask_task* task, __u32 bytes,
                                          struct ask_packet* packet) {
    const bool fits = hdr->type == ASK_FIN ? !hdr->rows && bytes == sizeof(struct ask_fin) : hdr->rows == 1;

    (void)ctx;
    packet->extensions = hdr->rows;
    packet->line_words = task->short_slots;
    return fits ? 0 : ASK_CNT_bad_length;
}

static __always_inline bool echo_dedupes(void) {
    return true;
}

static __always_inline bool echo_passes(const struct ask_hdr* hdr) {
    (void)hdr;
    return false;
}

static __always_inline int echo_pass(struct xdp_md* ctx, const struct ask_hdr* hdr) {
    (void)ctx;
    (void)hdr;
    return leave_abort(ASK_CNT_abort_state);
}

static __always_inline __u32 echo_check_body(const struct ask_hdr* hdr, const struct ask_task* task,
                                             const struct ask_packet* packet) {
    (void)hdr;
    (void)task;
    return packet->extensions && packet->extension[0] != ECHO_WORD ? ASK_CNT_bad_geometry : 0;
}

SEC("xdp.frags")
int ask_echo(struct xdp_md* ctx) {
    struct ask_packet* packet = find_packet();
    struct ask_claim claim = {};
    struct ask_frame frame = {};
    struct echo_task* echo;
    __u32 task;

    if (!packet || !find_headers(ctx, &frame) || !frame.hdr)
        return leave_abort(ASK_CNT_abort_state);
    claim_flow(packet->flow, &claim);
    if (!claim.flow)
        return leave_abort(ASK_CNT_abort_state);
    task = claim.flow->task;
    echo = bpf_map_lookup_elem(&echo_tasks, &task);
    if (!echo || !echo->wanted)
        return leave_abort(ASK_CNT_abort_state);
    __sync_fetch_and_add(&echo->entered, 1);
    if (!packet->is_new)
        return leave_absorbed(ECHO_CNT_absorbed_seen);
    if ((__sync_fetch_and_add(&echo->came, 1) + 1) % echo->wanted)
        return leave_absorbed(ECHO_CNT_absorbed);
    return leave_fan_out(&frame, echo->fan, 0, ECHO_CNT_fanned_out);
}
