/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * RESULTs that others gave, the collector or a switch above, on their way to members. Their flow is the group's,
 * which no channel has, so nothing of them is proved yet.
 */
#pragma once

#include "bpf/engine/check.bpf.h"
#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/engine/dedupe.bpf.h"
#include "bpf/engine/flow.bpf.h"
#include "bpf/engine/packet.bpf.h"
#include "bpf/values/leave.bpf.h"
#include "bpf/values/slot.bpf.h"

/* What is wrong with its header, up to what the check is asked for: a counter, or 0. */
static __always_inline __u32 check_result_header(const struct ask_frame *frame,
						 const struct ask_group *group)
{
	const struct ask_hdr *hdr = frame->hdr;

	if (hdr->version != ASK_WIRE_VERSION)
		return ASK_CNT_bad_version;
	if (!is_values_header(hdr, ASK_F_FOLDED | ASK_F_GROUP, ASK_LEVEL_RESULT) ||
	    ask_values_level(hdr) != ASK_LEVEL_RESULT)
		return ASK_CNT_bad_values;
	if (hdr->incarnation)
		return ASK_CNT_bad_incarnation;
	if (frame->udp->source != bpf_htons((__u16)(ASK_RESULT_PORT + ask_values_stream(hdr))))
		return ASK_CNT_bad_address;
	if (frame->ip->saddr != group->collector)
		return ASK_CNT_bad_receiver;
	return check_header(hdr);
}

/* Whether length and check fit, and the set is the group: a counter, or 0. */
static __always_inline __u32 check_result_body(struct xdp_md *ctx,
					       const struct ask_values_frame *values,
					       const struct ask_check_key *key,
					       struct ask_packet *packet,
					       const struct ask_group *group)
{
	const __u32 payload = payload_bytes(&values->frame);

	if (!payload || !fits_blocks(values->frame.hdr, payload - (__u32)sizeof(struct ask_hdr)))
		return ASK_CNT_bad_length;
	lay_out_values(packet);
	if (!is_sealed(ctx, &values->frame, key, packet, payload - (__u32)sizeof(struct ask_hdr)))
		return ASK_CNT_bad_check;
	if (values->ext->bits != bpf_cpu_to_be64(group->all) ||
	    values->ext->count != bpf_htonl(count_members(group->all)))
		return ASK_CNT_bad_set;
	return 0;
}

/* All members have come as far as a result. */
static __always_inline void follow_result(struct ask_group *group, const struct ask_chunk *chunk)
{
	__u32 stream = chunk->stream;

	/* The compiler knows that it is in range, and the verifier of 6.1 forgets it. */
	ask_opaque(stream);
	(void)raise_max_seq(&group->highest[stream % ASK_VALUES_STREAMS], chunk->seq);
}

/* The slot of a chunk that has its result. One that cannot be had is left: its group moves on without it. */
static __always_inline void free_slot(const struct ask_chunk *chunk)
{
	struct ask_value_slot *slot = chunk->group->pool_slots ? find_slot(chunk) : NULL;

	if (!slot || !own_slot(slot))
		return;
	if (is_chunks(slot, chunk))
		slot->phase = ASK_SLOT_EMPTY;
	release_slot(slot);
}

static __always_inline int take_result(struct xdp_md *ctx, const struct ask_values_frame *values,
				       const struct ask_flow *flow, struct ask_group *group,
				       struct ask_packet *packet)
{
	const struct ask_hdr *hdr = values->frame.hdr;
	const __u32 port = port_of_origin(ctx, find_port_kinds());
	const struct ask_chunk chunk = {.group = group,
					.task = flow->task,
					.seq = bpf_be64_to_cpu(hdr->seq),
					.stream = ask_values_stream(hdr)};
	__u32 reason = check_result_header(&values->frame, group);

	if (!reason)
		reason = check_result_body(ctx, values, &flow->key, packet, group);
	if (reason)
		return leave_drop(reason);
	if (hdr->flags & ASK_F_GROUP && !comes_in_by(&group->above, port))
		return leave_drop(ASK_CNT_bad_port);
	follow_result(group, &chunk);
	if (!(hdr->flags & ASK_F_GROUP))
		return ask_forward_values(ctx, ASK_CNT_result_one);
	free_slot(&chunk);
	if (!group->has_fan)
		return leave_drop(ASK_CNT_result_no_fan);
	/* No VLAN is in a fan, and who is behind the port that carries one is another. */
	return leave_fan_out(&values->frame, group->fan,
			     port == ctx->ingress_ifindex ? BPF_F_EXCLUDE_INGRESS : 0,
			     ASK_CNT_result_group);
}
