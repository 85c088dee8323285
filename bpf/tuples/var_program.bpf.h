/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The program that takes VAR packets over from the dispatcher, new or seen: what the back level takes is cleared
 * in the bitmaps, and the rest goes on with the body as it came, so that of its check only head and bitmaps
 * are new. Records are not moved up as rows are: a packet of which something is left is rare, and the receiver
 * finds each where its sender put it.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/engine/flow.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "bpf/tuples/data.bpf.h"
#include "bpf/tuples/maps.bpf.h"
#include "bpf/tuples/var.bpf.h"
#include "bpf/tuples/var_format.bpf.h"
#include "bpf/tuples/vector.bpf.h"

/* Records in the packet. */
static __always_inline __u32 count_records(const struct ask_phv *phv)
{
	__u32 sum = 0, r;

#pragma clang loop unroll(full)
	for (r = 0; r < ASK_VAR_MAX_ROWS; r++)
		sum += r < ASK_ROWS(phv) ? count_bits(ASK_READ_ONCE(phv->left[r])) : 0;
	return sum;
}

/* Leaves with what the vector says is left. A global function: its stack is not the program's, which has none to
 * spare while it offers records. */
__noinline int ask_forward_var(struct xdp_md *ctx, __u32 reason)
{
	struct ask_phv *phv = find_phv();
	struct ask_claim claim = {};
	struct ask_frame frame = {};
	__u64 rest;

	if (!phv || !find_headers(ctx, &frame) || !frame.hdr)
		return leave_abort(ASK_CNT_abort_state);
	claim_flow(phv->flow, &claim);
	if (!claim.flow)
		return leave_abort(ASK_CNT_abort_state);
	phv->present = 0; /* rows whose sums ask_write_bitmaps() has to add */
	rest = ask_write_bitmaps(ctx, &claim.flow->key, phv) + phv->body;
	write_mark(frame.hdr);
	frame.udp->check = 0;
	frame.hdr->check = close_check(&claim.flow->key, sum_head(&frame, &claim.flow->key) + rest);
	return leave_forward(ctx, &frame, reason);
}

/* What became of the records of a new packet. What is left has its reasons from here; the aggregators, which it
 * never was offered to, say nothing. */
static __always_inline void add_records(struct ask_flow_stats *stats, __u32 offered, __u32 left,
					__u32 contention, bool memory)
{
	stats->tuples_aggregated += offered - left;
	stats->tuples_back += offered - left;
	if (!memory) {
		stats->tuples_no_region += left;
		return;
	}
	stats->tuples_back_contention += contention;
	stats->tuples_back_full += left - contention;
}

/* What a packet leaves by if something is left of it: a counter. ASK_CNT_abort_state, as the next: it cannot. */
static __always_inline __u32 take_new_var(struct xdp_md *ctx, const struct ask_frame *frame,
					  const struct ask_claim *claim, struct ask_phv *phv)
{
	const struct ask_var_hdr *var = find_var(ctx, phv->rows);
	const bool has_back = ASK_READ_ONCE(claim->task->back);
	const bool has_memory = has_back || claim->task->copies;
	struct ask_back_vector *vector = find_back_vector();
	struct ask_pkt_state *state = find_state(claim);
	struct ask_flow_stats *stats;
	const struct ask_back *back;
	__u32 offered, left;

	phv->task = claim->flow->task;
	back = bpf_map_lookup_elem(&backs, &claim->flow->task);
	if (!var || !vector || !state || !back)
		return ASK_CNT_abort_state;
	offered = count_records(phv);
	vector->contention = 0;
	if (has_back)
		offer_var(ctx, back, phv, var);
	record_state(state, frame, phv, false);
	left = count_records(phv);
	stats = count_packet(claim->flow_index, true, !left);
	if (stats)
		add_records(stats, offered, left, vector->contention, has_memory);
	return has_memory ? ASK_CNT_fwd_new : ASK_CNT_fwd_no_region;
}

/* A packet seen before leaves as it did then. */
static __always_inline __u32 take_seen_var(const struct ask_frame *frame,
					   const struct ask_claim *claim, struct ask_phv *phv)
{
	struct ask_pkt_state *state = find_state(claim);

	if (!state)
		return ASK_CNT_abort_state;
	if (!restore_state(state, frame, phv, false))
		return ASK_CNT_drop_in_flight;
	count_packet(claim->flow_index, false, !count_records(phv));
	return ASK_CNT_fwd_seen;
}

SEC("xdp.frags")
int ask_var(struct xdp_md *ctx)
{
	struct ask_phv *phv = find_phv();
	struct ask_claim claim = {};
	struct ask_frame frame = {};
	__u32 reason;

	if (!phv || !find_headers(ctx, &frame) || !frame.hdr)
		return leave_abort(ASK_CNT_abort_state);
	claim_flow(phv->flow, &claim);
	if (!claim.flow || !claim.task)
		return leave_abort(ASK_CNT_abort_state);
	reason = phv->is_new ? take_new_var(ctx, &frame, &claim, phv)
			     : take_seen_var(&frame, &claim, phv);
	if (reason == ASK_CNT_abort_state)
		return leave_abort(reason);
	if (reason == ASK_CNT_drop_in_flight)
		return leave_drop(reason);
	if (count_records(phv))
		return ask_forward_var(ctx, reason);
	return leave_ack(ctx, &frame, &claim.flow->key,
			 phv->is_new ? ASK_CNT_ack_new : ASK_CNT_ack_seen);
}
