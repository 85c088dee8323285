/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Sending a packet on its way, as the router that this host is: to another port by
 * redirect, or up to the stack where there is no route, neighbour or port for it. What came in by a
 * port of a bridge goes up to the bridge, which alone knows about its stations, spanning tree and
 * filters; so does what the route leads to one.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/engine/parse.bpf.h"

#define ASK_AF_INET 2

static __always_inline bool find_next_hop(struct xdp_md *ctx, const struct ask_frame *frame,
					  struct bpf_fib_lookup *fib)
{
	__builtin_memset(fib, 0, sizeof(*fib));
	fib->family = ASK_AF_INET;
	fib->tos = frame->ip->tos;
	fib->l4_protocol = frame->ip->protocol;
	fib->tot_len = bpf_ntohs(frame->ip->tot_len);
	fib->ipv4_src = frame->ip->saddr;
	fib->ipv4_dst = frame->ip->daddr;
	fib->ifindex = ctx->ingress_ifindex;
	return bpf_fib_lookup(ctx, fib, sizeof(*fib), 0) == BPF_FIB_LKUP_RET_SUCCESS;
}

static __always_inline bool is_bridged(__u32 ifindex)
{
	const __u32 zero = 0;
	const __u32 *any = bpf_map_lookup_elem(&any_bridges, &zero);

	return any && *any && bpf_map_lookup_elem(&bridges, &ifindex);
}

/* Leaves by the port that the route says, counted as `reason`. */
static __always_inline int leave_forward(struct xdp_md *ctx, const struct ask_frame *frame,
					 __u32 reason)
{
	struct bpf_fib_lookup fib;
	__u32 ifindex;

	if (is_bridged(ctx->ingress_ifindex))
		return leave_pass(ASK_CNT_up_bridge);
	if (frame->ip->ttl <= 1 || !find_next_hop(ctx, frame, &fib))
		return leave_pass(ASK_CNT_up_no_route);
	ifindex = fib.ifindex;
	if (!bpf_map_lookup_elem(&ports, &ifindex))
		return leave_pass(is_bridged(ifindex) ? ASK_CNT_up_bridge : ASK_CNT_up_no_route);
	__builtin_memcpy(frame->eth->h_dest, fib.dmac, ETH_ALEN);
	__builtin_memcpy(frame->eth->h_source, fib.smac, ETH_ALEN);
	frame->ip->ttl--;
	write_ip_checksum(frame->ip);
	count(reason);
	return (int)bpf_redirect_map(&ports, ifindex, XDP_DROP);
}
