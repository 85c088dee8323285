/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * DATA: aggregate what is new, restore what was left of what was seen (ASK section
 * 3.3, design section 5, steps 3 to 5).
 */
#pragma once

#include "bpf/engine/answer.bpf.h"
#include "bpf/engine/check.bpf.h"
#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/dedupe.bpf.h"
#include "bpf/engine/flow.bpf.h"
#include "bpf/engine/forward.bpf.h"
#include "bpf/engine/presence.bpf.h"
#include "bpf/tuples/carried.bpf.h"
#include "bpf/tuples/gather.bpf.h"
#include "bpf/tuples/replace.bpf.h"
#include "bpf/tuples/row.bpf.h"
#include "bpf/tuples/vector.bpf.h"

int ask_back(struct xdp_md *ctx);

/* Whether colliding tuples may take aggregators (bpf/tuples/replace.bpf.h). */
static __always_inline bool is_replacing(const struct ask_task *task)
{
	return task->policy == ASK_POLICY_REPLACE && task->copies;
}

/* The first aggregator of this CPU's set and the copy in use. The copy index is read once
 * a packet, whatever its rows (design section 5). */
static __always_inline __u32 open_copy(const struct ask_claim *claim, struct ask_phv *phv)
{
	const struct ask_task *task = claim->task;
	__u32 set = 0;

	if (ask_memory == ASK_MEMORY_PIPELINES)
		set = bpf_get_smp_processor_id();
	ask_touch(ASK_ARRAY_COPY, claim->flow->task, 0);
	phv->heats = set * ASK_AAS(phv) * task->aggregators;
	return (set * task->copies + ASK_READ_ONCE(task->copy)) * ASK_AAS(phv) * task->aggregators;
}

static __always_inline void forget_outcomes(struct ask_phv *phv)
{
	__u32 i;

#pragma clang loop unroll(full)
	for (i = 0; i < ASK_OUTCOMES; i++) {
		phv->became[i] = 0;
	}
}

/* Replaces what is cold in the aggregators of row `r` that had the tuples of `offered`. Most
 * tuples are hits, and most of those spare the look at the heat. */
static __always_inline void replace_row(struct xdp_md *ctx, __u32 task_index, __u32 base,
					__u32 offset, __u32 r, __u32 offered, __u64 seq,
					struct ask_phv *phv)
{
	phv->replaced[r] = 0;
	if (ASK_ROW_HEATS(seq, r))
		phv->weighed = offered & ~phv->became[ASK_CONTENTION];
	else
		phv->weighed = phv->became[ASK_TAKEN] | phv->became[ASK_COLLISION];
	if (!phv->weighed)
		return;
	ask_weigh_shorts(ctx, task_index, base, offset, r);
	ask_weigh_mediums(ctx, task_index, base, offset, r);
	phv->evicted += count_bits(ASK_READ_ONCE(phv->replaced[r]));
}

static __always_inline void count_left(struct ask_phv *phv, __u32 r)
{
	phv->kept += count_bits(ASK_READ_ONCE(phv->left[r]));
	phv->overflow += count_bits(ASK_READ_ONCE(phv->became[ASK_OVERFLOW]));
	phv->contention += count_bits(ASK_READ_ONCE(phv->became[ASK_CONTENTION]));
}

/* Offers all rows to the aggregators from `base` on; what is left stays in the packet's vector.
 * A global function, since there are two ways to it. */
__noinline int ask_aggregate_rows(struct xdp_md *ctx, const struct ask_task *task,
				  struct ask_phv *phv, __u64 seq, __u32 base)
{
	__u32 r, offset, task_index;

	if (!task || !phv)
		return -1;
	task_index = phv->task;
	offset = row_offset(phv, 0);
#pragma clang loop unroll(disable)
	for (r = 0; r < ASK_MAX_ROWS; r++) {
		const __u32 offered = ASK_READ_ONCE(phv->left[r]);

		if (r >= ASK_ROWS(phv))
			break;
		forget_outcomes(phv);
		ask_aggregate_shorts(ctx, task, phv, base, r);
		if (task->groups)
			ask_aggregate_mediums(ctx, task_index, base, offset, r);
		if (is_replacing(task))
			replace_row(ctx, task_index, base, offset, r, offered, seq, phv);
		phv->offered += count_bits(offered);
		if (ASK_READ_ONCE(phv->left[r]))
			count_left(phv, r);
		offset += ASK_AAS(phv) * ASK_SLOT_BYTES;
	}
	return 0;
}

/* Offers all rows to the task's region. false: the CPU has no presence word. */
static __always_inline bool aggregate_packet(struct xdp_md *ctx, const struct ask_claim *claim,
					     __u64 seq, struct ask_phv *phv)
{
	const struct ask_task *task = claim->task;
	struct ask_presence *here;
	int offered;

	if (task->copies < 2)
		return ask_aggregate_rows(ctx, task, phv, seq, open_copy(claim, phv)) == 0;
	here = enter_copy();
	if (!here)
		return false;
	offered = ask_aggregate_rows(ctx, task, phv, seq, open_copy(claim, phv));
	leave_copy(here);
	return offered == 0;
}

/* No region: every tuple stays. */
static __always_inline void keep_rows(struct ask_phv *phv)
{
	__u32 r;

#pragma clang loop unroll(disable)
	for (r = 0; r < ASK_MAX_ROWS; r++) {
		if (r >= ASK_ROWS(phv))
			break;
		phv->kept += count_bits(phv->left[r]);
	}
	phv->offered = phv->kept;
}

static __always_inline struct ask_pkt_state *find_state(const struct ask_claim *claim)
{
	__u32 channel = claim->flow->channel;

	return bpf_map_lookup_elem(&pkt_state, &channel);
}

/* Records what is left: one 64-bit store a row, before any ACK or forward. */
static __always_inline void record_state(struct ask_pkt_state *state, const struct ask_frame *frame,
					 const struct ask_phv *phv, bool replaces)
{
	const __u64 seq = bpf_be64_to_cpu(frame->hdr->seq);
	__u64 *places = state->row[seq % ASK_WINDOW];
	__u32 r;

#pragma clang loop unroll(disable)
	for (r = 0; r < ASK_MAX_ROWS; r++) {
		if (r >= ASK_ROWS(phv))
			break;
		ask_touch(ASK_ARRAY_PKT_STATE, r, seq % ASK_WINDOW);
		/* An exchange where evicted tuples were kept: seen after them on every machine. */
		if (replaces && phv->replaced[r])
			ask_xchg64(&places[r], seq << 32 | phv->left[r]);
		else
			ASK_WRITE_ONCE(places[r], seq << 32 | phv->left[r]);
	}
}

/* Reads back what was left. false: a row is another packet's yet, so the first copy of
 * this one is still on its way through. */
static __always_inline bool restore_state(struct ask_pkt_state *state,
					  const struct ask_frame *frame, struct ask_phv *phv,
					  bool replaces)
{
	const __u64 seq = bpf_be64_to_cpu(frame->hdr->seq);
	__u64 *places = state->row[seq % ASK_WINDOW];
	__u32 r;

#pragma clang loop unroll(disable)
	for (r = 0; r < ASK_MAX_ROWS; r++) {
		__u64 word;

		if (r >= ASK_ROWS(phv))
			break;
		ask_touch(ASK_ARRAY_PKT_STATE, r, seq % ASK_WINDOW);
		word = replaces ? ask_fetch_or64(&places[r], 0) : ASK_READ_ONCE(places[r]);
		if (word >> 32 != (seq & 0xffffffff))
			return false;
		/* Of another packet that had the seq, what this one has not is not. */
		phv->left[r] &= (__u32)word;
	}
	return true;
}

/* Rows up to the last with something left; 0: nothing is left. */
static __always_inline __u32 present_rows(struct ask_phv *phv)
{
	__u32 r;

	phv->present = 0;
#pragma clang loop unroll(disable)
	for (r = 0; r < ASK_MAX_ROWS; r++) {
		if (r >= ASK_ROWS(phv))
			break;
		if (phv->left[r])
			phv->present = r + 1;
	}
	return ASK_PRESENT(phv);
}

/* Writes what is left back into the packet; returns the part of the sum that bitmaps and
 * the rows still present have. */
__noinline __u64 ask_write_bitmaps(struct xdp_md *ctx, const struct ask_check_key *key,
				   const struct ask_phv *phv)
{
	__u32 *bitmap = (__u32 *)((char *)(long)ctx->data + ASK_BODY_OFFSET);
	const void *end = (const void *)(long)ctx->data_end;
	__u64 sum = 0;
	__u32 r;

	if (!key || !phv)
		return 0;
#pragma clang loop unroll(disable)
	for (r = 0; r < ASK_MAX_ROWS; r++) {
		if (r >= ASK_ROWS(phv) || (const void *)(bitmap + r + 1) > end)
			break;
		bitmap[r] = bpf_htonl(phv->left[r]);
		sum += key->head[ASK_CHECK_EXTENSION_WORD + r] * bitmap[r];
		if (r < ASK_PRESENT(phv))
			sum += phv->sums[r];
	}
	return sum;
}

/* Leaves with what is left, in as few rows as can be, marked. */
static __always_inline int leave_rest(struct xdp_md *ctx, struct ask_frame *frame,
				      const struct ask_claim *claim, const struct ask_phv *phv,
				      __u32 reason)
{
	const struct ask_check_key *key = &claim->flow->key;
	const __u32 payload = sizeof(struct ask_hdr) + ASK_ROWS(phv) * (__u32)sizeof(__be32) +
			      ASK_PRESENT(phv) * ASK_AAS(phv) * ASK_SLOT_BYTES;
	const __u64 rest = ask_write_bitmaps(ctx, key, phv);
	const int cut = (int)(ASK_HDR_OFFSET + payload) -
			(int)((long)frame->end - (long)frame->data);

	write_mark(frame->hdr);
	write_lengths(frame->ip, frame->udp, payload);
	frame->hdr->check = close_check(key, sum_head(frame, key) + rest);
	write_ip_checksum(frame->ip);
	if (cut < 0) {
		if (bpf_xdp_adjust_tail(ctx, cut))
			return leave_abort(ASK_CNT_abort_resize);
		if (!find_headers(ctx, frame))
			return leave_abort(ASK_CNT_abort_resize);
	}
	return leave_forward(ctx, frame, reason);
}

/* What became of the tuples of a packet. Own ones that are left have a reason each; evicted ones that
 * travel on are counted beside them. */
static __always_inline void add_tuples(struct ask_flow_stats *stats, const struct ask_phv *phv,
				       bool region)
{
	if (!region) {
		stats->tuples_no_region += phv->kept;
		return;
	}
	stats->tuples_aggregated += phv->offered - phv->kept + phv->evicted;
	if (!phv->kept)
		return;
	stats->tuples_evicted += phv->evicted;
	stats->tuples_collision += phv->kept - phv->evicted - phv->overflow - phv->contention;
	stats->tuples_overflow += phv->overflow;
	stats->tuples_contention += phv->contention;
}

/* Returns the flow's, for what its service adds. */
static __always_inline struct ask_flow_stats *count_packet(__u32 flow_index, bool is_new,
							   bool acked)
{
	struct ask_flow_stats *stats = bpf_map_lookup_elem(&flow_stats, &flow_index);

	if (!stats)
		return NULL;
	if (is_new)
		stats->packets_new++;
	else
		stats->packets_seen++;
	if (acked)
		stats->packets_acked++;
	else
		stats->packets_forwarded++;
	return stats;
}

/* Leaves with what the vector says is left; `reason` is why it is sent on, if it is. */
static __always_inline int leave_data(struct xdp_md *ctx, struct ask_frame *frame,
				      const struct ask_claim *claim, struct ask_phv *phv,
				      bool is_new, __u32 reason)
{
	if (!ASK_PRESENT(phv))
		return leave_ack(ctx, frame, &claim->flow->key,
				 is_new ? ASK_CNT_ack_new : ASK_CNT_ack_seen);
	if (ASK_PRESENT(phv) > 1) {
		if (ask_gather_rows(ctx, claim->flow_index) < 0)
			return leave_abort(ASK_CNT_abort_state);
		present_rows(phv);
	}
	return leave_rest(ctx, frame, claim, phv, reason);
}

/* Says of a new packet what is left of it, for all time. */
static __always_inline bool settle(struct xdp_md *ctx, struct ask_pkt_state *state,
				   const struct ask_frame *frame, const struct ask_claim *claim,
				   struct ask_phv *phv)
{
	const bool replaces = is_replacing(claim->task);

	/* Before record_state() says that all is done. */
	if (replaces && ask_keep_rows(ctx, claim->flow_index, bpf_be64_to_cpu(frame->hdr->seq)) < 0)
		return false;
	record_state(state, frame, phv, replaces);
	return true;
}

/* A new packet, of which the rows' parts of the check are in the vector. What the aggregators leave goes
 * on to the back level, if the task has one (ask_back). */
static __always_inline int handle_new(struct xdp_md *ctx, struct ask_frame *frame,
				      const struct ask_claim *claim, struct ask_phv *phv)
{
	struct ask_pkt_state *state = find_state(claim);
	const bool region = claim->task->copies;
	struct ask_flow_stats *stats;

	if (!state)
		return leave_abort(ASK_CNT_abort_state);
	phv->offered = phv->kept = phv->evicted = phv->overflow = phv->contention = 0;
	phv->task = claim->flow->task;
	if (!region)
		keep_rows(phv);
	else if (!aggregate_packet(ctx, claim, bpf_be64_to_cpu(frame->hdr->seq), phv))
		return leave_abort(ASK_CNT_abort_state);
	if (ASK_READ_ONCE(claim->task->back) && phv->kept) {
		ask_tail_call(ctx, &back_programs, ASK_BACK_PROGRAM, ask_back);
		/* There is no such program. To some kernels (6.12's fixes) the packet has changed. */
		if (!find_headers(ctx, frame) || !frame->hdr)
			return leave_abort(ASK_CNT_abort_state);
	}
	if (!settle(ctx, state, frame, claim, phv))
		return leave_abort(ASK_CNT_abort_state);
	present_rows(phv);
	stats = count_packet(claim->flow_index, true, !ASK_PRESENT(phv));
	if (stats)
		add_tuples(stats, phv, region);
	return leave_data(ctx, frame, claim, phv, true,
			  region ? ASK_CNT_fwd_new : ASK_CNT_fwd_no_region);
}

/* A packet seen before leaves as it did then. */
static __always_inline int handle_seen(struct xdp_md *ctx, struct ask_frame *frame,
				       const struct ask_claim *claim, struct ask_phv *phv)
{
	struct ask_pkt_state *state = find_state(claim);
	const bool replaces = is_replacing(claim->task);

	if (!state)
		return leave_abort(ASK_CNT_abort_state);
	if (!restore_state(state, frame, phv, replaces))
		return leave_drop(ASK_CNT_drop_in_flight);
	if (present_rows(phv) && replaces &&
	    ask_put_back_rows(ctx, claim->flow_index, bpf_be64_to_cpu(frame->hdr->seq)) < 0)
		return leave_drop(ASK_CNT_drop_in_flight);
	count_packet(claim->flow_index, false, !ASK_PRESENT(phv));
	return leave_data(ctx, frame, claim, phv, false, ASK_CNT_fwd_seen);
}
