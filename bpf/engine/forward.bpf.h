/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Sending a packet on its way, as the router that this host is: to another port by
 * redirect, or up to the stack where there is no route, neighbour or port for it. What came in by a
 * port of a bridge goes up to the bridge, which alone knows about its stations, spanning tree and
 * filters; so does what the route leads to one. What the route leads to a VLAN leaves with its tag, by the port
 * that carries it.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "bpf/engine/tag.bpf.h"
#include "lib/abi/hosts.h"

#define ASK_AF_INET 2

static __always_inline bool find_next_hop(struct xdp_md *ctx, const struct ask_frame *frame,
					  __u32 port, struct bpf_fib_lookup *fib)
{
	__builtin_memset(fib, 0, sizeof(*fib));
	fib->family = ASK_AF_INET;
	fib->tos = frame->ip->tos;
	fib->l4_protocol = frame->ip->protocol;
	fib->tot_len = bpf_ntohs(frame->ip->tot_len);
	fib->ipv4_src = frame->ip->saddr;
	fib->ipv4_dst = frame->ip->daddr;
	fib->ifindex = port;
	return bpf_fib_lookup(ctx, fib, sizeof(*fib), 0) == BPF_FIB_LKUP_RET_SUCCESS;
}

static __always_inline bool is_bridged(__u32 kinds, __u32 ifindex)
{
	return kinds & ASK_PORTS_ON_BRIDGES && bpf_map_lookup_elem(&bridges, &ifindex);
}

/* Leaves with the VLAN's tag, of the lowest priority as the stack would have it. */
static __always_inline int leave_tagged(struct xdp_md *ctx, const struct ask_vlan *vlan,
					const struct bpf_fib_lookup *fib, __u32 reason)
{
	const __u32 carrier = vlan->ifindex;
	struct ask_tagged_frame frame;

	if (!bpf_map_lookup_elem(&ports, &carrier) || !put_tag_in(ctx, bpf_htons(vlan->id)))
		return leave_pass(ASK_CNT_up_no_route);
	if (!find_tagged_headers(ctx, &frame))
		return leave_abort(ASK_CNT_abort_resize);
	__builtin_memcpy(frame.eth->dest, fib->dmac, ETH_ALEN);
	__builtin_memcpy(frame.eth->source, fib->smac, ETH_ALEN);
	if (frame.eth->type == bpf_htons(ETH_P_IPV6)) {
		((struct ask_six_header *)(void *)frame.ip)->hops--;
	} else {
		frame.ip->ttl--;
		write_ip_checksum(frame.ip);
	}
	count(reason);
	return (int)bpf_redirect_map(&ports, carrier, XDP_DROP);
}

/* Leaves by an interface that is none that packets can be redirected to. Apart from those that do, hardly any of
 * which go on like this. */
static __noinline int leave_otherwise(struct xdp_md *ctx, const struct bpf_fib_lookup *fib,
				      __u32 kinds, __u32 reason)
{
	const __u32 ifindex = fib->ifindex;
	const struct ask_vlan *vlan;

	if (is_bridged(kinds, ifindex))
		return leave_pass(ASK_CNT_up_bridge);
	vlan = kinds & ASK_PORTS_ON_VLANS ? bpf_map_lookup_elem(&vlan_out, &ifindex) : NULL;
	return vlan ? leave_tagged(ctx, vlan, fib, reason) : leave_pass(ASK_CNT_up_no_route);
}

static __always_inline bool is_host_number(__be32 address)
{
	return (address & bpf_htonl(ASK_HOST_NUMBERS)) == bpf_htonl(ASK_HOST_NUMBERS);
}

/* A packet that came with IPv6 is sent on once it has its own form again (six.bpf.h). To a number alone leads no
 * route. */
static __noinline int leave_to_form(__u32 reason)
{
	const __u32 zero = 0;
	struct ask_six *six = bpf_map_lookup_elem(&six_at_hand, &zero);

	if (!six || !six->at_hand)
		return leave_pass(ASK_CNT_up_no_route);
	six->forward = reason;
	return XDP_PASS;
}

/* Leaves by the port that the route says, counted as `reason`. */
static __always_inline int leave_forward(struct xdp_md *ctx, const struct ask_frame *frame,
					 __u32 reason)
{
	const __u32 kinds = find_port_kinds();
	const __u32 port = port_of_origin(ctx, kinds);
	struct bpf_fib_lookup fib;
	__u32 ifindex;

	if (is_host_number(frame->ip->daddr))
		return leave_to_form(reason);
	if (is_bridged(kinds, port))
		return leave_pass(ASK_CNT_up_bridge);
	if (frame->ip->ttl <= 1 || !find_next_hop(ctx, frame, port, &fib))
		return leave_pass(ASK_CNT_up_no_route);
	ifindex = fib.ifindex;
	if (!bpf_map_lookup_elem(&ports, &ifindex))
		return leave_otherwise(ctx, &fib, kinds, reason);
	__builtin_memcpy(frame->eth->h_dest, fib.dmac, ETH_ALEN);
	__builtin_memcpy(frame->eth->h_source, fib.smac, ETH_ALEN);
	frame->ip->ttl--;
	write_ip_checksum(frame->ip);
	count(reason);
	return (int)bpf_redirect_map(&ports, ifindex, XDP_DROP);
}
