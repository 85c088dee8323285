/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * LONG: forwarded unchanged, new or seen (the receiver dedupes on its own). Nothing of it is
 * aggregated here, so it carries no mark and never touches PktState. And where VAR goes its own way.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/engine/forward.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "bpf/tuples/maps.bpf.h"
#include "bpf/tuples/vector.bpf.h"

int ask_var(struct xdp_md *ctx);

static __always_inline bool tuples_passes(const struct ask_hdr *hdr)
{
	return hdr->type != ASK_DATA;
}

/* Of the packet in the vector. A global function, with registers and stack of its own. */
__noinline int ask_forward_long(struct xdp_md *ctx)
{
	struct ask_phv *phv = find_phv();
	struct ask_frame frame = {};
	__u32 flow;

	if (!phv || !find_headers(ctx, &frame))
		return leave_abort(ASK_CNT_abort_state);
	flow = phv->flow;
	if (phv->is_new) {
		struct ask_flow_stats *stats = bpf_map_lookup_elem(&flow_stats, &flow);

		if (stats)
			stats->long_packets++;
	}
	return leave_forward(ctx, &frame, phv->is_new ? ASK_CNT_long_new : ASK_CNT_long_seen);
}

static __always_inline int tuples_pass(struct xdp_md *ctx, const struct ask_hdr *hdr)
{
	if (hdr->type == ASK_LONG)
		return ask_forward_long(ctx);
	ask_tail_call(ctx, &back_programs, ASK_VAR_PROGRAM, ask_var);
	return leave_abort(ASK_CNT_abort_state);
}
