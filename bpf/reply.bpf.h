/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Turning a packet into its ACK: the way back, the mark, cut to size.
 */
#pragma once

#include "bpf/check.bpf.h"
#include "bpf/compat.bpf.h"
#include "bpf/config.bpf.h"
#include "bpf/counters.bpf.h"
#include "bpf/parse.bpf.h"

static __always_inline void turn_round(const struct ask_frame *frame)
{
	__u8 mac[ETH_ALEN];
	const __be32 address = frame->ip->saddr;
	const __be16 port = frame->udp->source;

	__builtin_memcpy(mac, frame->eth->h_source, ETH_ALEN);
	__builtin_memcpy(frame->eth->h_source, frame->eth->h_dest, ETH_ALEN);
	__builtin_memcpy(frame->eth->h_dest, mac, ETH_ALEN);
	frame->ip->saddr = frame->ip->daddr;
	frame->ip->daddr = address;
	frame->udp->source = frame->udp->dest;
	frame->udp->dest = port;
}

static __always_inline void write_mark(struct ask_hdr *hdr)
{
	hdr->mark_switch = bpf_htons((__u16)ask_switch_id);
	hdr->mark_incarnation = bpf_htonl(ask_mark_incarnation);
}

/* Leaves by the port it came in on, as the ACK of this packet. */
static __always_inline int leave_ack(struct xdp_md *ctx, struct ask_frame *frame,
				     const struct ask_check_key *key, __u32 reason)
{
	const __u8 ecn = frame->ip->tos & ASK_IP_ECN_MASK;

	turn_round(frame);
	frame->ip->ttl = 64;
	frame->ip->tos = 0;
	write_lengths(frame->ip, frame->udp, sizeof(struct ask_hdr));
	write_ip_checksum(frame->ip);
	frame->hdr->type = ASK_ACK;
	frame->hdr->rows = 0;
	frame->hdr->flags = ecn == ASK_IP_ECN_CE ? ASK_F_ECE : 0;
	write_mark(frame->hdr);
	frame->hdr->check = close_check(key, sum_head(frame, key));
	if (bpf_xdp_adjust_tail(ctx,
				(int)((long)(frame->data + ASK_BITMAP_OFFSET) - (long)frame->end)))
		return leave_abort(ASK_CNT_abort_resize);
	count(reason);
	return XDP_TX;
}
