/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Turning a packet into its ACK: the way back, the mark, cut to size.
 */
#pragma once

#include "bpf/engine/check.bpf.h"
#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/config.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/engine/parse.bpf.h"

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

/*
 * What is written here is soon read again, for checksum and check, in units of their own: what
 * is written in smaller ones would have to reach the cache first, which costs some 10 ns.
 */
static __always_inline void write_mark(struct ask_hdr *hdr)
{
	__be32 *word = (__be32 *)(void *)&hdr->port;

	*word = bpf_htonl((__u32)bpf_ntohs(hdr->port) << 16 | (__u16)ask_switch_id);
	hdr->mark_incarnation = bpf_htonl(ask_mark_incarnation);
}

/* The first word of an ACK's header: nothing follows it. */
static __always_inline void write_ack_front(struct ask_hdr *hdr, __u8 flags)
{
	*(__be32 *)(void *)hdr = bpf_htonl(ASK_WIRE_VERSION << 24 | ASK_ACK << 16 |
					   (__u32)flags << 8);
}

/* Version, header length and type of service; time to live and protocol. */
static __always_inline void write_ip_front(struct iphdr *ip)
{
	__be16 *half = (__be16 *)(void *)ip;

	half[0] = bpf_htons(0x4500);
	half[4] = bpf_htons(64 << 8 | IPPROTO_UDP);
}

/* Leaves by the port it came in on, as the ACK of this packet. */
static __always_inline int leave_ack(struct xdp_md *ctx, struct ask_frame *frame,
				     const struct ask_check_key *key, __u32 reason)
{
	const __u8 ecn = frame->ip->tos & ASK_IP_ECN_MASK;

	turn_round(frame);
	write_ip_front(frame->ip);
	write_lengths(frame->ip, frame->udp, sizeof(struct ask_hdr));
	write_ip_checksum(frame->ip);
	write_ack_front(frame->hdr, ecn == ASK_IP_ECN_CE ? ASK_F_ECE : 0);
	write_mark(frame->hdr);
	frame->hdr->check = close_check(key, sum_head(frame, key));
	if (bpf_xdp_adjust_tail(ctx,
				(int)((long)(frame->data + ASK_BODY_OFFSET) - (long)frame->end)))
		return leave_abort(ASK_CNT_abort_resize);
	count(reason);
	return XDP_TX;
}
