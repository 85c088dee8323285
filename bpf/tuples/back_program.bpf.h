/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The program that goes on with a new packet of which the aggregators left something: what the back level
 * takes is taken out, the rest is settled and leaves as ever. A program of its own, so that packets of
 * which nothing is left do not pay for it, and it has a budget of its own; one for regions of all sizes,
 * since it looks at none.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/engine/flow.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "bpf/tuples/back.bpf.h"
#include "bpf/tuples/back_held.bpf.h"
#include "bpf/tuples/data.bpf.h"
#include "bpf/tuples/vector.bpf.h"

/* Of those that have been left, in all rows. */
static __always_inline __u32 count_in_rows(const struct ask_phv *phv, bool evicted)
{
	__u32 sum = 0, r;

#pragma clang loop unroll(disable)
	for (r = 0; r < ASK_MAX_ROWS; r++) {
		if (r >= ASK_ROWS(phv))
			break;
		sum += count_bits(ASK_READ_ONCE(phv->left[r]) & (evicted ? phv->replaced[r] : ~0u));
	}
	return sum;
}

/* What became of the tuples of a packet that has been here; what is left has its reasons from here. An
 * evicted tuple that was taken has not travelled on. */
static __always_inline void add_back_tuples(struct ask_flow_stats *stats, const struct ask_phv *phv,
					    const struct ask_back_vector *vector, __u32 left,
					    __u32 evicted_left)
{
	stats->tuples_aggregated += phv->offered - left + evicted_left;
	stats->tuples_back += phv->kept - left;
	stats->tuples_evicted += evicted_left;
	stats->tuples_back_contention += vector->contention;
	stats->tuples_back_full += left - evicted_left - vector->contention;
}

SEC("xdp.frags")
int ask_back(struct xdp_md *ctx)
{
	struct ask_back_vector *vector = find_back_vector();
	struct ask_phv *phv = find_phv();
	struct ask_pkt_state *state;
	struct ask_flow_stats *stats;
	struct ask_claim claim = {};
	struct ask_frame frame = {};

	if (!vector || !phv || !find_headers(ctx, &frame) || !frame.hdr)
		return leave_abort(ASK_CNT_abort_state);
	claim_flow(phv->flow, &claim);
	if (!claim.flow || !claim.task)
		return leave_abort(ASK_CNT_abort_state);
	state = find_state(&claim);
	if (!state)
		return leave_abort(ASK_CNT_abort_state);
	add_all_held(ctx, claim.task, phv);
	offer_each(ctx, vector, phv, is_replacing(claim.task));
	if (!settle(ctx, state, &frame, &claim, phv))
		return leave_abort(ASK_CNT_abort_state);
	present_rows(phv);
	stats = count_packet(claim.flow_index, true, !ASK_PRESENT(phv));
	if (stats)
		add_back_tuples(stats, phv, vector, count_in_rows(phv, false),
				is_replacing(claim.task) ? count_in_rows(phv, true) : 0);
	return leave_data(ctx, &frame, &claim, phv, true, ASK_CNT_fwd_new);
}
