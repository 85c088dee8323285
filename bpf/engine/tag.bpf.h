/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * VLAN tags, which stand in the frame. Dispatcher and services know one form, IPv4 right behind the Ethernet
 * header: a tag is taken out ahead of them (bpf/switch.bpf.c), and put in where a frame leaves by a VLAN.
 * Tags that a driver has taken off are not seen here; the loader refuses such ports. Behind a tag there may be IPv6,
 * which has a form of its own (six.bpf.h).
 */
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/maps.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "lib/abi/hosts.h"

/* The Ethernet header of a frame with a tag. */
struct ask_tagged_eth {
	__u8 dest[ETH_ALEN];
	__u8 source[ETH_ALEN];
	__be16 tag_type; /* ETH_P_8021Q */
	__be16 control;	 /* priority, and which VLAN */
	__be16 type;
};

#define ASK_TAG_BYTES ((int)(sizeof(struct ask_tagged_eth) - sizeof(struct ethhdr)))
#define ASK_VLAN_ID_MASK 0x0fffu

/* The headers at the front of such a frame. */
struct ask_tagged_frame {
	struct ask_tagged_eth *eth;
	struct iphdr *ip;
	struct udphdr *udp;
};

/* Whether the frame has room for them; fills `frame`. */
static __always_inline bool find_tagged_headers(const struct xdp_md *ctx,
						struct ask_tagged_frame *frame)
{
	void *data = (void *)(long)ctx->data;

	if (data + ASK_TAG_BYTES + ASK_HDR_OFFSET > (void *)(long)ctx->data_end)
		return false;
	frame->eth = data;
	frame->ip = data + sizeof(*frame->eth);
	frame->udp = data + ASK_TAG_BYTES + ASK_L4_OFFSET;
	return true;
}

static __always_inline bool is_tagged(const struct ethhdr *eth)
{
	return eth->h_proto == bpf_htons(ETH_P_8021Q);
}

/* Whether this is UDP in IPv6, whose length is not yet known: asked of a frame as long as one with IPv4 is. */
static __always_inline bool is_six(const struct ethhdr *eth)
{
	const struct ask_six_header *six = (const void *)(eth + 1);

	return eth->h_proto == bpf_htons(ETH_P_IPV6) && six->protocol == IPPROTO_UDP;
}

static __always_inline bool has_own_port(const struct udphdr *udp)
{
	const __be16 own = bpf_htons(ASK_UDP_PORT);

	return udp->dest == own || udp->source == own;
}

static __always_inline __u32 find_port_kinds(void)
{
	const __u32 zero = 0;
	const __u32 *kinds = bpf_map_lookup_elem(&port_kinds, &zero);

	return kinds ? *kinds : 0;
}

/* The port that the packet came in by: of one that had a tag, the VLAN. */
static __always_inline __u32 port_of_origin(const struct xdp_md *ctx, __u32 kinds)
{
	const __u32 zero = 0;
	const __u32 *vlan;

	if (!(kinds & ASK_PORTS_ON_VLANS))
		return ctx->ingress_ifindex;
	vlan = bpf_map_lookup_elem(&came_by_vlan, &zero);
	return vlan && *vlan ? *vlan : ctx->ingress_ifindex;
}

/* Whether a tagged frame is ASK's, as far as its ports say. */
static __always_inline bool is_own_tagged(const struct xdp_md *ctx,
					  const struct ask_tagged_frame *frame)
{
	const struct ask_six_header *six = (const void *)frame->ip;
	const struct udphdr *udp = (const void *)(six + 1);

	if (frame->eth->type == bpf_htons(ETH_P_IP))
		return frame->ip->protocol == IPPROTO_UDP && has_own_port(frame->udp);
	return frame->eth->type == bpf_htons(ETH_P_IPV6) && six->protocol == IPPROTO_UDP &&
	       (const void *)(udp + 1) <= (const void *)(long)ctx->data_end && has_own_port(udp);
}

/*
 * The port that a tagged frame comes in by, and what its tag says. 0: it is not ASK's, or no port is behind the
 * tag. Asked ahead of all that costs something, since most of what comes with a tag is other people's.
 */
static __always_inline __u32 find_vlan(const struct xdp_md *ctx, __be16 *control)
{
	struct ask_vlan vlan = {.ifindex = ctx->ingress_ifindex};
	struct ask_tagged_frame frame;
	const __u32 *port;

	if (!find_tagged_headers(ctx, &frame) || !is_own_tagged(ctx, &frame))
		return 0;
	*control = frame.eth->control;
	vlan.id = bpf_ntohs(frame.eth->control) & ASK_VLAN_ID_MASK;
	port = bpf_map_lookup_elem(&vlan_in, &vlan);
	return port ? *port : 0;
}

/* What stands behind the tag is the Ethernet type of the frame without one: only addresses move. */
static __always_inline void move_addresses(void *to, const void *from)
{
	const __u64 first = *(const __u64 *)from;
	const __u32 last = *(const __u32 *)(from + sizeof(first));

	*(__u64 *)to = first;
	*(__u32 *)(to + sizeof(first)) = last;
}

static __always_inline bool take_tag_out(struct xdp_md *ctx)
{
	struct ask_tagged_frame frame;

	if (!find_tagged_headers(ctx, &frame))
		return false;
	move_addresses((void *)frame.eth + ASK_TAG_BYTES, frame.eth);
	return !bpf_xdp_adjust_head(ctx, ASK_TAG_BYTES);
}

/* false: there is no room in front, and the frame is as it was. */
static __always_inline bool put_tag_in(struct xdp_md *ctx, __be16 control)
{
	struct ask_tagged_frame frame;

	if (bpf_xdp_adjust_head(ctx, -ASK_TAG_BYTES))
		return false;
	/* Always: it was long enough without. */
	if (!find_tagged_headers(ctx, &frame))
		return false;
	move_addresses(frame.eth, (void *)frame.eth + ASK_TAG_BYTES);
	frame.eth->tag_type = bpf_htons(ETH_P_8021Q);
	frame.eth->control = control;
	return true;
}
