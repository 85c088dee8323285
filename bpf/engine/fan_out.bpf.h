/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Two more ways out, for a service that gathers packets: absorbed, which ends a packet without an
 * answer, and fanned out, which makes a copy of it for each member of a fan. Nothing of it is in
 * an object whose services answer and forward only.
 *
 * A copy knows the port that it leaves by and nothing else, so what stands behind a port is one
 * member: ask_fan_copy runs on each copy and writes the member's addresses. It has to stand behind
 * every entry of every device map, `ports` too, since of the frames that one turn sends to one
 * device the kernel runs the first one's program on all. A copy is what has no destination MAC yet.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "bpf/engine/six.bpf.h"
#include "lib/abi/values.h"

/* The ports of a fan: any keys, every value with ask_fan_copy. */
struct ask_fan_ports {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, ASK_MAX_FAN_PORTS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_devmap_val));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, ASK_MAX_FANS);
	__type(key, __u32);
	__array(values, struct ask_fan_ports);
} fans SEC(".maps");

/* By ifindex. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ASK_MAX_FAN_PORTS);
	__type(key, __u32);
	__type(value, struct ask_fan_member);
} fan_members SEC(".maps");

/* Ends the packet: what it brought is kept by its service, and its sender hears of that later. */
static __always_inline int leave_absorbed(__u32 reason)
{
	count(reason);
	return XDP_DROP;
}

/* A copy leaves by each port of the fan, with BPF_F_EXCLUDE_INGRESS in `flags` not by the one it came in on. */
static __always_inline int leave_fan_out(const struct ask_frame *frame, __u32 fan, __u64 flags,
					 __u32 reason)
{
	void *members = bpf_map_lookup_elem(&fans, &fan);

	if (!members)
		return leave_abort(ASK_CNT_abort_state);
	if (frame->ip->ttl <= 1)
		return leave_pass(ASK_CNT_up_no_route);
	__builtin_memset(frame->eth->h_dest, 0, ETH_ALEN);
	frame->ip->ttl--;
	frame->udp->check = 0;
	count(reason);
	return (int)bpf_redirect_map(members, 0, BPF_F_BROADCAST | flags);
}

static __always_inline bool is_copy(const struct ethhdr *eth)
{
	const __u16 *half = (const __u16 *)(const void *)eth->h_dest;

	return !(half[0] | half[1] | half[2]);
}

/* Which address the datagram goes to is in its checksum, too. false: member and copy are of two families. */
static __always_inline bool readdress_six(struct xdp_md *ctx, const struct ask_fan_member *member)
{
	struct ask_six_frame frame;
	__u64 sum;

	if (!is_host_number(member->address) || !find_six_headers(ctx, &frame))
		return false;
	/* RFC 1624, equation 3. The complement of an address is short of all ones by its own sum. */
	sum = 4 * 0xffffffffull - sum_address(&frame.six->dest);
	sum += sum_address(&member->six) + (__u16)~frame.udp->check;
	frame.six->dest = member->six;
	frame.udp->check = close_sum(sum);
	return true;
}

/* What is only forwarded passes as it is. */
SEC("xdp.frags/devmap")
int ask_fan_copy(struct xdp_md *ctx)
{
	__u32 port = ctx->egress_ifindex;
	struct ask_fan_member *member;
	struct ask_frame frame = {};

	if (!find_headers(ctx, &frame) || !is_copy(frame.eth))
		return XDP_PASS;
	member = bpf_map_lookup_elem(&fan_members, &port);
	if (!member)
		return XDP_DROP;
	__builtin_memcpy(frame.eth->h_dest, member->mac, ETH_ALEN);
	__builtin_memcpy(frame.eth->h_source, member->port_mac, ETH_ALEN);
	if (frame.eth->h_proto == bpf_htons(ETH_P_IPV6))
		return readdress_six(ctx, member) ? XDP_PASS : XDP_DROP;
	frame.ip->daddr = member->address;
	write_ip_checksum(frame.ip);
	return XDP_PASS;
}
