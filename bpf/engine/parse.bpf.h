/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Ethernet, IPv4 and UDP, as far as ASK needs them: no VLAN, no IP options, no
 * fragments. Whatever else comes is the stack's.
 */
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include "bpf/engine/compat.bpf.h"
#include "lib/abi/wire.h"

#define ASK_L4_OFFSET (sizeof(struct ethhdr) + sizeof(struct iphdr))
#define ASK_HDR_OFFSET (ASK_L4_OFFSET + sizeof(struct udphdr))
#define ASK_BODY_OFFSET (ASK_HDR_OFFSET + sizeof(struct ask_hdr))

#define ASK_IP_MF_OFFSET 0x3fff /* more fragments, or not the first */
#define ASK_IP_ECN_MASK 3u
#define ASK_IP_ECN_CE 3u

/* The headers at the front of a frame, all within its first buffer. */
struct ask_frame {
	void *data;
	void *end;
	struct ethhdr *eth;
	struct iphdr *ip;
	struct udphdr *udp;
	struct ask_hdr *hdr; /* NULL when the frame is too short for one */
};

/* Whether the frame has room for the headers up to UDP's; fills `frame`. For a packet that
 * parse_udp() has been through before, this is all there is to ask again. */
static __always_inline bool find_headers(struct xdp_md *ctx, struct ask_frame *frame)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;

	if (data + ASK_HDR_OFFSET > end)
		return false;
	frame->data = data;
	frame->end = end;
	frame->eth = data;
	frame->ip = data + sizeof(*frame->eth);
	frame->udp = data + ASK_L4_OFFSET;
	frame->hdr = data + ASK_BODY_OFFSET <= end ? data + ASK_HDR_OFFSET : NULL;
	return true;
}

/* Whether this is IPv4/UDP that ASK can read; fills `frame`. */
static __always_inline bool parse_udp(struct xdp_md *ctx, struct ask_frame *frame)
{
	const struct ethhdr *eth;
	const struct iphdr *ip;

	if (!find_headers(ctx, frame))
		return false;
	eth = frame->eth;
	ip = frame->ip;
	if (eth->h_proto != bpf_htons(ETH_P_IP))
		return false;
	if (ip->version != 4 || ip->ihl != 5 || ip->protocol != IPPROTO_UDP)
		return false;
	if (ip->frag_off & bpf_htons(ASK_IP_MF_OFFSET))
		return false;
	return true;
}

/* Whether the frame goes on behind its first buffer, where data_end is. No packet of ours is so long that it
 * has to, and its check is read in the first alone. */
static __always_inline bool has_fragments(struct xdp_md *ctx, const struct ask_frame *frame)
{
	return bpf_xdp_get_buff_len(ctx) > (__u64)((long)frame->end - (long)frame->data);
}

/* Header checksum of an IPv4 header without options, computed afresh. */
static __always_inline void write_ip_checksum(struct iphdr *ip)
{
	const __u16 *half = (const __u16 *)ip;
	__u32 sum = 0;

	ip->check = 0;
	sum += half[0];
	sum += half[1];
	sum += half[2];
	sum += half[3];
	sum += half[4];
	sum += half[6];
	sum += half[7];
	sum += half[8];
	sum += half[9];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	ip->check = (__u16)~sum;
}

/* Writes the lengths of a UDP payload into both headers; the UDP checksum is
 * dropped (IPv4 allows 0): the keyed check covers the payload. */
static __always_inline void write_lengths(struct iphdr *ip, struct udphdr *udp, __u32 payload)
{
	udp->len = bpf_htons((__u16)(payload + sizeof(*udp)));
	udp->check = 0;
	ip->tot_len = bpf_htons((__u16)(payload + sizeof(*udp) + sizeof(*ip)));
}
