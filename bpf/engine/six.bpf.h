/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * IPv6. Dispatcher and services know one form, IPv4 with the hosts' numbers for addresses (lib/abi/hosts.h): ahead of
 * them the header is replaced, and behind them put back with what has become of it (bpf/switch.bpf.c). What is to be
 * sent on comes back first, since the route is that of addresses which only the packet's own form has.
 */
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/engine/forward.bpf.h"
#include "bpf/engine/maps.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "bpf/engine/tag.bpf.h"
#include "lib/abi/consts.h"
#include "lib/abi/hosts.h"

#define ASK_SIX_BYTES ((int)(sizeof(struct ask_six_header) - sizeof(struct iphdr)))
#define ASK_SIX_L4_OFFSET (ASK_SIX_BYTES + ASK_L4_OFFSET)

#define ASK_SIX_VERSION 6u
#define ASK_SIX_VERSION_SHIFT 28
#define ASK_SIX_CLASS_SHIFT 20
#define ASK_SIX_LABEL_MASK 0x000fffffu
#define ASK_SIX_FLOW_MASK 0x0fffffffu /* class and label */

#define ASK_AF_INET6 10

/* No counter. */
#define ASK_IN_ONE_FORM ((__u32)ASK_CNT_COUNT)

/* Words of the longest datagram, and how many of them are summed up at a time. */
#define ASK_SIX_MAX_WORDS \
	((ASK_MAX_PAYLOAD + (__u32)sizeof(struct udphdr)) / (__u32)sizeof(__u32) + 1)
#define ASK_SIX_STEP 16u

/* A frame whose IPv6 header has no extensions, and where the one form has its header. */
struct ask_six_frame {
	struct ethhdr *eth;
	struct ask_six_header *six;
	struct iphdr *ip;
	struct udphdr *udp;
};

/* Whether the frame has room for the headers up to UDP's; fills `frame`. */
static __always_inline bool find_six_headers(const struct xdp_md *ctx, struct ask_six_frame *frame)
{
	void *data = (void *)(long)ctx->data;

	if (data + ASK_SIX_L4_OFFSET + sizeof(struct udphdr) > (void *)(long)ctx->data_end)
		return false;
	frame->eth = data;
	frame->six = data + sizeof(*frame->eth);
	frame->ip = data + ASK_SIX_BYTES + sizeof(*frame->eth);
	frame->udp = data + ASK_SIX_L4_OFFSET;
	return true;
}

static __always_inline struct ask_six *find_six(void)
{
	const __u32 zero = 0;

	return bpf_map_lookup_elem(&six_at_hand, &zero);
}

/* A datagram without a checksum is none. */
static __always_inline bool is_own_six(const struct ask_six_frame *frame)
{
	return frame->six->protocol == IPPROTO_UDP && has_own_port(frame->udp) &&
	       frame->udp->check &&
	       bpf_ntohl(frame->six->front) >> ASK_SIX_VERSION_SHIFT == ASK_SIX_VERSION;
}

/* Puts an IPv4 header in place of the packet's own, which `six` has from then on. */
static __always_inline void write_one_form(const struct ask_six_frame *frame, __be32 source,
					   __be32 dest, struct ask_six *six)
{
	const struct ask_six_header *header = &six->header;
	__be32 *word = (void *)frame->ip;
	__u32 class, length;

	__builtin_memcpy(&six->header, frame->six, sizeof(six->header));
	class = bpf_ntohl(header->front) >> ASK_SIX_CLASS_SHIFT & 0xff;
	length = bpf_ntohs(header->payload) + (__u32)sizeof(struct iphdr);
	move_addresses((void *)frame->eth + ASK_SIX_BYTES, frame->eth);
	*(__be16 *)((void *)frame->ip - sizeof(__be16)) = bpf_htons(ETH_P_IP);
	word[0] = bpf_htonl(0x45u << 24 | class << 16 | (length & 0xffff));
	word[1] = 0;
	word[2] = bpf_htonl((__u32)header->hops << 24 | IPPROTO_UDP << 16);
	word[3] = source;
	word[4] = dest;
}

/* ASK_IN_ONE_FORM: the packet is, or was before. Else the counter that it leaves by, as it came. */
static __always_inline __u32 enter_six(struct xdp_md *ctx, struct ask_six *six)
{
	struct ask_six_frame frame;
	const __be32 *source, *dest;
	__be32 number;

	if (!find_six_headers(ctx, &frame))
		return ASK_CNT_pass_foreign;
	if (frame.eth->h_proto != bpf_htons(ETH_P_IPV6))
		return is_host_number(((struct iphdr *)(void *)frame.six)->saddr)
			       ? ASK_CNT_pass_foreign
			       : ASK_IN_ONE_FORM;
	if (!is_own_six(&frame))
		return ASK_CNT_pass_foreign;
	source = bpf_map_lookup_elem(&hosts, &frame.six->source);
	dest = bpf_map_lookup_elem(&hosts, &frame.six->dest);
	if (!dest)
		return frame.udp->dest == bpf_htons(ASK_UDP_PORT) ? ASK_CNT_pass_channel
								  : ASK_CNT_pass_ack;
	/* 0 is no host's. What says that it is of a channel here, and comes from anywhere else, may not get past by the
	 * stack: whom it is of says its header, not its address. */
	number = source ? *source : 0;
	six->number = number;
	write_one_form(&frame, number, *dest, six);
	if (bpf_xdp_adjust_head(ctx, ASK_SIX_BYTES))
		return ASK_CNT_abort_resize;
	six->forward = 0;
	six->at_hand = 1;
	return ASK_IN_ONE_FORM;
}

static __always_inline __u32 fold_sum(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u32)sum;
}

/* Sum of so many words from UDP's header on, folded. A global function, so that the verifier looks at it once. */
__noinline __u32 ask_sum_datagram(struct xdp_md *ctx, __u32 words)
{
	const void *end = (const void *)(long)ctx->data_end;
	const __u32 *word = (const void *)((const char *)(long)ctx->data + ASK_SIX_L4_OFFSET);
	__u64 sum = 0;
	__u32 w, i;

#pragma clang loop unroll(disable)
	for (w = 0; w < ASK_SIX_MAX_WORDS; w += ASK_SIX_STEP, word += ASK_SIX_STEP) {
		if (w + ASK_SIX_STEP > words || (const void *)(word + ASK_SIX_STEP) > end)
			break;
#pragma clang loop unroll(full)
		for (i = 0; i < ASK_SIX_STEP; i++) {
			sum += word[i];
			/* One after the other, or clang keeps all words on the stack. */
			ask_opaque(sum);
		}
	}
#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_SIX_STEP; i++, word++) {
		if (w + i >= words || (const void *)(word + 1) > end)
			break;
		sum += *word;
	}
	return fold_sum(sum);
}

static __always_inline __u64 sum_address(const struct ask_ipv6 *address)
{
	return (__u64)address->word[0] + address->word[1] + address->word[2] + address->word[3];
}

/* 0 would mean that there is none. */
static __always_inline __u16 close_sum(__u64 sum)
{
	const __u16 check = (__u16)~fold_sum(sum);

	return check ? check : 0xffff;
}

/* A packet that is another than came has lost its checksum (parse.bpf.h). All of ours are whole words. */
static __always_inline bool write_six_checksum(struct xdp_md *ctx)
{
	struct ask_six_frame frame;
	__u32 length, sum;

	if (!find_six_headers(ctx, &frame))
		return false;
	if (frame.udp->check)
		return true;
	length = bpf_ntohs(frame.udp->len);
	if (length % sizeof(__u32))
		return false;
	sum = ask_sum_datagram(ctx, length / (__u32)sizeof(__u32));
	if (!find_six_headers(ctx, &frame))
		return false;
	frame.udp->check = close_sum(sum_address(&frame.six->source) +
				     sum_address(&frame.six->dest) + bpf_htonl(length) +
				     bpf_htonl(IPPROTO_UDP) + sum);
	return true;
}

/* Puts the packet's own header back, with what has become of it: class, length, hops, and which way it goes. */
static __always_inline bool restore_six(struct xdp_md *ctx, const struct ask_six *six)
{
	const struct ask_six_header *old = &six->header;
	struct ask_six_frame frame;
	struct iphdr ip;
	__u32 front;

	if (bpf_xdp_adjust_head(ctx, -ASK_SIX_BYTES) || !find_six_headers(ctx, &frame))
		return false;
	__builtin_memcpy(&ip, frame.ip, sizeof(ip));
	move_addresses(frame.eth, (void *)frame.eth + ASK_SIX_BYTES);
	frame.eth->h_proto = bpf_htons(ETH_P_IPV6);
	front = ASK_SIX_VERSION << ASK_SIX_VERSION_SHIFT | (__u32)ip.tos << ASK_SIX_CLASS_SHIFT |
		(bpf_ntohl(old->front) & ASK_SIX_LABEL_MASK);
	frame.six->front = bpf_htonl(front);
	frame.six->payload = bpf_htons((__u16)(bpf_ntohs(ip.tot_len) - sizeof(ip)));
	frame.six->protocol = IPPROTO_UDP;
	frame.six->hops = ip.ttl;
	if (ip.saddr == six->number) {
		frame.six->source = old->source;
		frame.six->dest = old->dest;
	} else {
		frame.six->source = old->dest;
		frame.six->dest = old->source;
	}
	return write_six_checksum(ctx);
}

static __always_inline bool find_six_hop(struct xdp_md *ctx, const struct ask_six_header *six,
					 __u32 port, struct bpf_fib_lookup *fib)
{
	__builtin_memset(fib, 0, sizeof(*fib));
	fib->family = ASK_AF_INET6;
	fib->flowinfo = six->front & bpf_htonl(ASK_SIX_FLOW_MASK);
	fib->l4_protocol = six->protocol;
	fib->tot_len = (__u16)(bpf_ntohs(six->payload) + sizeof(*six));
	__builtin_memcpy(fib->ipv6_src, &six->source, sizeof(six->source));
	__builtin_memcpy(fib->ipv6_dst, &six->dest, sizeof(six->dest));
	fib->ifindex = port;
	return bpf_fib_lookup(ctx, fib, sizeof(*fib), 0) == BPF_FIB_LKUP_RET_SUCCESS;
}

/* Sends a packet in its own form on, as leave_forward() does in the one form. */
static __noinline int forward_six(struct xdp_md *ctx, __u32 port, __u32 reason)
{
	const __u32 kinds = find_port_kinds();
	struct ask_six_frame frame;
	struct bpf_fib_lookup fib;
	__u32 ifindex;

	if (is_bridged(kinds, port))
		return leave_pass(ASK_CNT_up_bridge);
	if (!find_six_headers(ctx, &frame))
		return leave_abort(ASK_CNT_abort_resize);
	if (frame.six->hops <= 1 || !find_six_hop(ctx, frame.six, port, &fib))
		return leave_pass(ASK_CNT_up_no_route);
	ifindex = fib.ifindex;
	if (!bpf_map_lookup_elem(&ports, &ifindex))
		return leave_otherwise(ctx, &fib, kinds, reason);
	__builtin_memcpy(frame.eth->h_dest, fib.dmac, ETH_ALEN);
	__builtin_memcpy(frame.eth->h_source, fib.smac, ETH_ALEN);
	frame.six->hops--;
	count(reason);
	return (int)bpf_redirect_map(&ports, ifindex, XDP_DROP);
}

/* Behind the one form: `action` is what became of the packet there, which came in by `port`. */
static __always_inline int leave_six(struct xdp_md *ctx, struct ask_six *six, __u32 port,
				     int action)
{
	six->at_hand = 0;
	if (action != XDP_TX && action != XDP_PASS && action != XDP_REDIRECT)
		return action;
	/* There is room for it: it stood there. */
	if (!restore_six(ctx, six))
		return XDP_ABORTED;
	return six->forward ? forward_six(ctx, port, six->forward) : action;
}
