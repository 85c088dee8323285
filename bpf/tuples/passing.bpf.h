/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * LONG and FIN: deduped, so that the switch's window keeps up with the channel, then
 * forwarded unchanged, new or seen (the receiver dedupes on its own). Nothing of them is
 * aggregated here, so they carry no mark and never touch PktState.
 */
#pragma once

#include "bpf/engine/check.bpf.h"
#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/dedupe.bpf.h"
#include "bpf/engine/flow.bpf.h"
#include "bpf/engine/forward.bpf.h"

static __always_inline int handle_passing(struct xdp_md *ctx, const struct ask_frame *frame,
					  const struct ask_claim *claim, bool is_new)
{
	if (frame->hdr->type == ASK_FIN)
		return leave_forward(ctx, frame, is_new ? ASK_CNT_fin_new : ASK_CNT_fin_seen);
	if (is_new) {
		__u32 at = claim->flow_index;
		struct ask_flow_stats *stats = bpf_map_lookup_elem(&flow_stats, &at);

		if (stats)
			stats->long_packets++;
	}
	return leave_forward(ctx, frame, is_new ? ASK_CNT_long_new : ASK_CNT_long_seen);
}
