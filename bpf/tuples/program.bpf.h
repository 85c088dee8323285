/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The program that takes a packet of tuples over once the dispatcher (bpf/switch.bpf.c) has proved
 * it and knows whether it is new. A program of its own for three reasons: there can be one for
 * each size of region, in which look-ups are inlined; the verifier's budget is for each
 * program; and so is the stack.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/engine/flow.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "bpf/tuples/data.bpf.h"
#include "bpf/tuples/vector.bpf.h"

SEC("xdp.frags")
int ask_tuples(struct xdp_md *ctx)
{
	struct ask_phv *phv = find_phv();
	struct ask_claim claim = {};
	struct ask_frame frame = {};

	if (!phv || !find_headers(ctx, &frame) || !frame.hdr)
		return leave_abort(ASK_CNT_abort_state);
	claim_flow(phv->flow, &claim);
	if (!claim.flow || !claim.task)
		return leave_abort(ASK_CNT_abort_state);
	if (phv->is_new)
		return handle_new(ctx, &frame, &claim, phv);
	return handle_seen(ctx, &frame, &claim, phv);
}
