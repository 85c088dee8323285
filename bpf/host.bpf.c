// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Steering on a host: ASK packets for this host go to the AF_XDP socket of the
 * queue that they came in on, everything else to the stack. What a packet says is
 * the agent's to check; here only addresses and ports count.
 */
#include <linux/ipv6.h>

#include "bpf/engine/parse.bpf.h"
#include "lib/abi/map_types.h"

/* The host's own address, network order: packets to others are passed on. 0: it is own_address6. */
const volatile __u32 own_address = 0;
const volatile __u32 own_address6[4] = {};

/* Whether this is on a bond: what comes in by a member is on one of that one's queues. */
const volatile __u32 by_member = 0;

/* One counter for every way out: enum ask_host_counter. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ASK_HOST_CNT_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} host_counters SEC(".maps");

#define ASK_HOST_MEMBERS 16
#define ASK_NO_SOCKET 0xffffffffu

/* AF_XDP sockets by rx queue, of a bond those of its members one after the other; the loader sets as many entries as
 * queues exist, or may be wanted. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} xsks SEC(".maps");

/* Of a bond's members, by ifindex, the place of the socket of their first queue in `xsks`. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ASK_HOST_MEMBERS);
	__type(key, __u32);
	__type(value, __u32);
} members SEC(".maps");

static __always_inline void count(__u32 reason)
{
	__u64 *value = bpf_map_lookup_elem(&host_counters, &reason);

	/* Per CPU, and nothing interrupts XDP on its CPU: no atomic needed. */
	if (value)
		*value += 1;
}

/* To a sender or receiver (DATA, LONG, FIN), or back to one of our channels (ACK). */
static __always_inline bool is_ask(const struct udphdr *udp)
{
	__u32 channel = (__u32)bpf_ntohs(udp->dest) - ASK_CHANNEL_PORT_BASE;

	if (udp->dest == bpf_htons(ASK_UDP_PORT))
		return true;
	/* Ports below the base wrap to large numbers. */
	return udp->source == bpf_htons(ASK_UDP_PORT) && channel < ASK_MAX_CHANNELS_PER_HOST;
}

/* Whether the packet is for this host, by IPv6 without extension headers: fragments have one. */
static __always_inline bool is_own6(const struct ipv6hdr *ip)
{
	const __u32 *to = ip->daddr.in6_u.u6_addr32;

	return ip->version == 6 && ip->nexthdr == IPPROTO_UDP && to[0] == own_address6[0] &&
	       to[1] == own_address6[1] && to[2] == own_address6[2] && to[3] == own_address6[3];
}

/* Whether it is an ASK packet for this host; fills `frame`. */
static __always_inline bool is_for_us(struct xdp_md *ctx, struct ask_frame *frame)
{
	const struct ipv6hdr *ip6;
	const struct udphdr *udp;

	if (own_address)
		return parse_udp(ctx, frame) && frame->ip->daddr == own_address &&
		       is_ask(frame->udp);
	if (!find_headers(ctx, frame) || frame->eth->h_proto != bpf_htons(ETH_P_IPV6))
		return false;
	ip6 = frame->data + sizeof(*frame->eth);
	udp = (void *)(ip6 + 1);
	return (void *)(udp + 1) <= frame->end && is_own6(ip6) && is_ask(udp);
}

/* Of the packet's queue; of a member that is not known, one that no socket has. */
static __always_inline __u32 find_place(const struct xdp_md *ctx)
{
	const __u32 member = ctx->ingress_ifindex;
	const __u32 *first;

	if (!by_member)
		return ctx->rx_queue_index;
	first = bpf_map_lookup_elem(&members, &member);
	return first ? *first + ctx->rx_queue_index : ASK_NO_SOCKET;
}

SEC("xdp.frags")
int ask_host(struct xdp_md *ctx)
{
	struct ask_frame frame;
	long action;

	if (!is_for_us(ctx, &frame)) {
		count(ASK_HOST_CNT_pass_foreign);
		return XDP_PASS;
	}
	/* A socket takes no fragments, and has no room for more than our longest packet, by IPv6 with less of a
	 * payload. */
	if (has_fragments(ctx, &frame) ||
	    frame.end > frame.data + ASK_HDR_OFFSET + ASK_MAX_PAYLOAD) {
		count(ASK_HOST_CNT_drop_too_long);
		return XDP_DROP;
	}
	/* A socket gets only what arrives on its own queue, whatever the map says. */
	action = bpf_redirect_map(&xsks, find_place(ctx), XDP_DROP);
	count(action == XDP_REDIRECT ? ASK_HOST_CNT_steered : ASK_HOST_CNT_drop_no_socket);
	return (int)action;
}

char _license[] SEC("license") = "Dual BSD/GPL";
