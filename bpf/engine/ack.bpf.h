/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * ACKs that others gave, receivers or switches, on their way to a sender. What goes on by redirect
 * has passed none of this host's own filters (rp_filter, netfilter), so an ACK that does has proved
 * itself as DATA has. By which port it comes in says nothing: none is registered for receivers.
 */
#pragma once

#include "bpf/engine/check.bpf.h"
#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/engine/flow.bpf.h"
#include "bpf/engine/forward.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "lib/abi/values.h"

static __always_inline bool is_ack(const struct ask_frame *frame)
{
	return frame->udp->source == bpf_htons(ASK_UDP_PORT) &&
	       frame->hdr->version == ASK_WIRE_VERSION &&
	       (frame->hdr->type == ASK_ACK || frame->hdr->type == ASK_NEED ||
		frame->hdr->type == ASK_HELD);
}

/* What of the check is behind the header, of which so many bytes are: 0 words, or those of NEED and HELD. */
static __always_inline __u64 sum_ack_extension(const struct ask_frame *frame,
					       const struct ask_check_key *key, __u32 bytes)
{
	const __u32 *word = (const void *)((const char *)frame->data + ASK_BODY_OFFSET);
	__u64 sum = 0;
	__u32 i;

	if (!bytes || (const void *)(word + ASK_VALUES_EXTENSION) > frame->end)
		return 0;
#pragma clang loop unroll(full)
	for (i = 0; i < ASK_VALUES_EXTENSION; i++)
		sum += key->head[ASK_CHECK_EXTENSION_WORD + i] * word[i];
	return sum;
}

/* Whether an ACK goes from its flow's receiver to its flow's channel and is sealed: the counter of
 * what is wrong, or 0. */
static __always_inline __u32 check_ack(const struct ask_frame *frame, const struct ask_claim *claim)
{
	const struct ask_channel *channel = claim->channel;
	const struct ask_check_key *key = &claim->flow->key;
	const bool of_values = frame->hdr->type != ASK_ACK;
	const __u32 bytes = of_values ? (__u32)sizeof(struct ask_values_ext) : 0;

	if (frame->ip->daddr != channel->host || frame->udp->dest != channel->port)
		return ASK_CNT_bad_address;
	if (frame->ip->saddr != claim->task->receiver)
		return ASK_CNT_bad_receiver;
	if (frame->hdr->incarnation != channel->incarnation)
		return ASK_CNT_bad_incarnation;
	if (of_values != (claim->task->service == ASK_SERVICE_VALUES))
		return ASK_CNT_bad_type;
	if (payload_bytes(frame) != sizeof(struct ask_hdr) + bytes)
		return ASK_CNT_bad_length;
	if (frame->hdr->check !=
	    close_check(key, sum_head(frame, key) + sum_ack_extension(frame, key, bytes)))
		return ASK_CNT_bad_check;
	return 0;
}

/* An ACK of no flow that is registered here is the stack's. A global function: within the dispatcher
 * it would cost each DATA packet. */
__noinline int ask_take_ack(struct xdp_md *ctx)
{
	struct ask_frame frame = {};
	struct ask_claim claim = {};
	__u32 reason;

	if (!find_headers(ctx, &frame) || !frame.hdr)
		return leave_abort(ASK_CNT_abort_state);
	find_flow(frame.hdr, &claim);
	if (!claim.flow)
		return leave_pass(ASK_CNT_pass_ack);
	if (!claim.channel || !claim.task || claim.task->instance != claim.flow->task_instance)
		return leave_abort(ASK_CNT_abort_state);
	if (has_fragments(ctx, &frame))
		return leave_drop(ASK_CNT_bad_fragments);
	reason = check_ack(&frame, &claim);
	if (reason)
		return leave_drop(reason);
	return leave_forward(ctx, &frame, ASK_CNT_transit_ack);
}
