/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The switch: check, dedupe, aggregate, acknowledge or forward (ASK section 3,
 * design sections 4 and 5). This file is the dispatcher by packet type; each mode has
 * a file of its own.
 */
#include "bpf/engine/check.bpf.h"
#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/tuples/program.bpf.h"
#include "bpf/engine/dedupe.bpf.h"
#include "bpf/engine/flow.bpf.h"
#include "bpf/engine/forward.bpf.h"
#include "bpf/engine/maps.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "bpf/tuples/passing.bpf.h"

/* What takes DATA that has been proved, by ask_task.program: here the one for regions of any
 * size, and those for one size from the loader. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, ASK_DATA_PROGRAMS);
	__uint(key_size, sizeof(__u32));
	__array(values, int(struct xdp_md *));
} data_programs SEC(".maps") = {
	.values = {[0] = ask_tuples},
};

/* Goes on in data program number `program`. A call for each, since the kernel makes a jump of one
 * whose number is a constant; any other is indirect, and costs 18 ns where those are guarded
 * against speculation. */
static __always_inline int enter_data_program(struct xdp_md *ctx, __u32 program)
{
	__u32 i;

#pragma clang loop unroll(full)
	for (i = 0; i < ASK_DATA_PROGRAMS; i++) {
		if (program == i)
			ask_tail_call(ctx, &data_programs, i, ask_tuples);
	}
	return leave_abort(ASK_CNT_abort_state);
}

/* A packet whose flow is registered here: prove it, then handle it by its type. */
static __always_inline int handle_own(struct xdp_md *ctx, struct ask_frame *frame,
				      const struct ask_claim *claim)
{
	const struct ask_check_key *key = &claim->flow->key;
	struct ask_hdr *hdr = frame->hdr;
	const __u32 payload = payload_bytes(frame);
	struct ask_phv *phv = find_phv();
	int verdict;
	__u64 sum;

	if (!phv)
		return leave_abort(ASK_CNT_abort_state);
	if (!payload || !length_fits(hdr, claim->task, payload))
		return leave_drop(ASK_CNT_bad_length);
	phv->rows = hdr->rows;
	phv->aas = claim->task->short_slots + (__u32)claim->task->groups * claim->task->m;
	sum = sum_head(frame, key) + ask_read_bitmaps(ctx, key, phv);
	if (hdr->type == ASK_DATA)
		sum += sum_rows(ctx, key, phv);
	else if (hdr->type == ASK_LONG)
		sum += sum_long(ctx, key, (payload - (__u32)sizeof(*hdr)) / ASK_SLOT_BYTES);
	if (hdr->check != close_check(key, sum))
		return leave_drop(ASK_CNT_bad_check);
	if (hdr->type == ASK_DATA && !bitmaps_fit(phv, claim->task))
		return leave_drop(ASK_CNT_bad_geometry);

	verdict = ask_dedupe_packet(claim->flow->channel, bpf_be64_to_cpu(hdr->seq));
	if (verdict < 0)
		return leave_abort(ASK_CNT_abort_state);
	if (verdict == ASK_STALE)
		return leave_drop(ASK_CNT_drop_stale);
	if (hdr->type == ASK_DATA) {
		phv->flow = claim->flow_index;
		phv->is_new = verdict == ASK_NEW;
		return enter_data_program(ctx, claim->task->program);
	}
	return handle_passing(ctx, frame, claim, verdict == ASK_NEW);
}

SEC("xdp")
int ask_switch(struct xdp_md *ctx)
{
	struct ask_claim claim = {};
	struct ask_frame frame = {};
	__u32 reason;

	if (!parse_udp(ctx, &frame) || !frame.hdr)
		return leave_pass(ASK_CNT_pass_foreign);
	if (frame.udp->dest != bpf_htons(ASK_UDP_PORT)) {
		if (frame.udp->source == bpf_htons(ASK_UDP_PORT) &&
		    frame.hdr->version == ASK_WIRE_VERSION && frame.hdr->type == ASK_ACK)
			return leave_forward(ctx, &frame, ASK_CNT_transit_ack);
		return leave_pass(ASK_CNT_pass_foreign);
	}

	find_flow(frame.hdr, &claim);
	if (claim.transit)
		return leave_forward(ctx, &frame, ASK_CNT_transit_data);
	if (!claim.channel)
		return leave_abort(ASK_CNT_abort_state);
	reason = check_channel(ctx, &frame, claim.channel);
	if (reason)
		return leave_drop(reason);
	if (!claim.flow)
		return leave_drop(ASK_CNT_bad_task);
	if (!claim.task || claim.task->instance != claim.flow->task_instance)
		return leave_abort(ASK_CNT_abort_state);
	reason = check_header(frame.hdr, claim.task);
	if (reason)
		return leave_drop(reason);
	return handle_own(ctx, &frame, &claim);
}

char _license[] SEC("license") = "Dual BSD/GPL";
