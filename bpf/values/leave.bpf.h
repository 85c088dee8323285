/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Ways out of the values' service: as it came, as a partial, as the RESULT, as HELD.
 */
#pragma once

#include "bpf/engine/answer.bpf.h"
#include "bpf/engine/check.bpf.h"
#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/engine/fan_out.bpf.h"
#include "bpf/engine/forward.bpf.h"
#include "bpf/engine/packet.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "bpf/values/format.bpf.h"
#include "bpf/values/maps.bpf.h"
#include "lib/abi/values.h"

/* The frame of such a packet: all fronts within it. */
struct ask_values_frame {
	struct ask_frame frame;
	struct ask_values_ext *ext;
};

static __always_inline bool find_values(struct xdp_md *ctx, struct ask_values_frame *values)
{
	if (!find_headers(ctx, &values->frame) || !values->frame.hdr)
		return false;
	values->ext = (void *)((char *)values->frame.data + ASK_BODY_OFFSET);
	return (void *)(values->ext + 1) <= values->frame.end;
}

static __always_inline __u32 count_members(__u64 bits)
{
	bits -= bits >> 1 & 0x5555555555555555ull;
	bits = (bits & 0x3333333333333333ull) + (bits >> 2 & 0x3333333333333333ull);
	bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0full;
	return (__u32)(bits * 0x0101010101010101ull >> 56);
}

static __always_inline void write_set(struct ask_values_ext *ext, __u64 bits)
{
	ext->bits = bpf_cpu_to_be64(bits);
	ext->count = bpf_htonl(count_members(bits));
}

/* Seals what front and ports have become; `body` is the payload's part of the sum. */
static __always_inline void seal_front(const struct ask_values_frame *values,
				       const struct ask_check_key *key, __u64 body)
{
	const __u32 *word = (const void *)values->ext;
	__u64 sum = sum_head(&values->frame, key) + body;
	__u32 i;

#pragma clang loop unroll(full)
	for (i = 0; i < ASK_VALUES_EXTENSION; i++)
		sum += key->head[ASK_CHECK_EXTENSION_WORD + i] * word[i];
	values->frame.udp->check = 0;
	values->frame.hdr->check = close_check(key, sum);
}

/* The payload's part of the sum, once it is another than came. */
static __always_inline void sum_again(struct xdp_md *ctx, const struct ask_check_key *key,
				      struct ask_packet *packet, __u32 blocks)
{
	(void)ask_sum_body(ctx, key, packet, blocks * ASK_VALUES_BLOCK_WORDS);
}

/* Forwards the packet as it stands. A global function, as the next: registers and stack of its own. */
__noinline int ask_forward_values(struct xdp_md *ctx, __u32 reason)
{
	struct ask_frame frame = {};

	if (!find_headers(ctx, &frame))
		return leave_abort(ASK_CNT_abort_state);
	return leave_forward(ctx, &frame, reason);
}

/* Tells collector and members that the packet found its slot taken, and forwards it. */
static __always_inline int leave_collided(struct xdp_md *ctx, const struct ask_values_frame *values,
					  const struct ask_check_key *key,
					  const struct ask_packet *packet, __u32 reason)
{
	values->frame.hdr->flags |= ASK_F_COLLIDED;
	seal_front(values, key, packet->body);
	return ask_forward_values(ctx, reason);
}

/* What a chunk has become. */
struct ask_sum {
	__u64 bits;
	__u8 flags;
};

/* Leaves for the collector as the fold of all members below. */
static __always_inline int leave_partial(struct xdp_md *ctx, const struct ask_values_frame *values,
					 const struct ask_check_key *key,
					 const struct ask_packet *packet, const struct ask_sum *sum,
					 __u32 reason)
{
	struct ask_hdr *hdr = values->frame.hdr;

	hdr->m = ASK_LEVEL_PARTIAL;
	hdr->flags = (hdr->flags & ASK_F_RESEND) | sum->flags;
	write_set(values->ext, sum->bits);
	seal_front(values, key, packet->body);
	return ask_forward_values(ctx, reason);
}

/* Turns the packet into the RESULT, in the collector's name. */
static __always_inline void write_result(const struct ask_values_frame *values,
					 const struct ask_group *group, const struct ask_sum *sum,
					 __u8 flags)
{
	const struct ask_frame *frame = &values->frame;
	struct ask_hdr *hdr = frame->hdr;

	hdr->type = ASK_RESULT;
	hdr->flags = sum->flags | flags;
	hdr->m = ASK_LEVEL_RESULT;
	hdr->host = 0;
	hdr->port = 0;
	hdr->incarnation = 0;
	write_set(values->ext, sum->bits);
	write_ip_front(frame->ip);
	frame->ip->saddr = group->collector;
	frame->udp->source = bpf_htons((__u16)(ASK_RESULT_PORT + ask_values_stream(hdr)));
	frame->udp->dest = bpf_htons(ASK_UDP_PORT);
}

static __always_inline int leave_result(const struct ask_values_frame *values,
					const struct ask_group *group,
					const struct ask_check_key *key,
					const struct ask_packet *packet, const struct ask_sum *sum)
{
	write_result(values, group, sum, ASK_F_GROUP);
	seal_front(values, key, packet->body);
	return leave_fan_out(&values->frame, group->fan, 0, ASK_CNT_value_result);
}

/* Leaves by the port it came in on, as the RESULT for this member alone. */
static __always_inline int leave_answered(const struct ask_values_frame *values,
					  const struct ask_group *group,
					  const struct ask_check_key *key,
					  const struct ask_packet *packet,
					  const struct ask_sum *sum)
{
	turn_round(&values->frame);
	write_result(values, group, sum, 0);
	seal_front(values, key, packet->body);
	write_ip_checksum(values->frame.ip);
	count(ASK_CNT_value_answered);
	return XDP_TX;
}

/* Leaves by the port it came in on, cut to what says whose values are missing. */
static __always_inline int leave_held(struct xdp_md *ctx, const struct ask_values_frame *values,
				      const struct ask_check_key *key, __u64 missing)
{
	const struct ask_frame *frame = &values->frame;
	const bool congested = (frame->ip->tos & ASK_IP_ECN_MASK) == ASK_IP_ECN_CE;
	struct ask_hdr *hdr = frame->hdr;

	turn_round(frame);
	hdr->type = ASK_HELD;
	hdr->flags = congested ? ASK_F_ECE : 0;
	hdr->short_slots = 0;
	hdr->m = ASK_LEVEL_MEMBER;
	write_set(values->ext, missing);
	write_ip_front(frame->ip);
	write_lengths(frame->ip, frame->udp, ASK_VALUES_FRONT);
	write_ip_checksum(frame->ip);
	seal_front(values, key, 0);
	if (bpf_xdp_adjust_tail(ctx, (int)((long)(frame->data + ASK_VALUES_BODY_OFFSET) -
					   (long)frame->end)))
		return leave_abort(ASK_CNT_abort_resize);
	count(ASK_CNT_value_held);
	return XDP_TX;
}
