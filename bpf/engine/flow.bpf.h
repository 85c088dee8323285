/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Whose packet is it? (design section 5, step 1.) A packet names its channel and task
 * in its header; here it has to prove them.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/engine/maps.bpf.h"
#include "bpf/engine/parse.bpf.h"

/* What is known of a packet's flow. */
struct ask_claim {
	struct ask_channel *channel; /* the dispatcher's, which asks for its proof */
	struct ask_flow *flow;
	struct ask_task *task;
	__u32 flow_index;
	bool foreign; /* channel not registered here */
};

static __always_inline void find_channel(const struct ask_hdr *hdr, struct ask_claim *claim)
{
	struct ask_channel_id id = {.host = hdr->host, .port = hdr->port};
	__u32 *index = bpf_map_lookup_elem(&channel_ids, &id);
	__u32 at;

	claim->foreign = !index;
	if (!index)
		return;
	at = *index;
	claim->channel = bpf_map_lookup_elem(&channels, &at);
}

/* Flow number `at` and its task. */
static __always_inline void claim_flow(__u32 at, struct ask_claim *claim)
{
	claim->flow_index = at;
	claim->flow = bpf_map_lookup_elem(&flows, &at);
	if (!claim->flow)
		return;
	at = claim->flow->task;
	claim->task = bpf_map_lookup_elem(&tasks, &at);
}

/* Flow number `at`, its task and its channel. */
static __always_inline void claim_all(__u32 at, struct ask_claim *claim)
{
	claim_flow(at, claim);
	if (!claim->flow)
		return;
	at = claim->flow->channel;
	claim->channel = bpf_map_lookup_elem(&channels, &at);
}

/* Finds channel, flow and task of the header, as far as they are registered. The flow is
 * looked up first: it is what packets that are ours have. */
static __always_inline void find_flow(const struct ask_hdr *hdr, struct ask_claim *claim)
{
	struct ask_flow_id id = {.task = hdr->task, .host = hdr->host, .port = hdr->port};
	__u32 *index = bpf_map_lookup_elem(&flow_ids, &id);

	if (index)
		claim_all(*index, claim);
	else
		find_channel(hdr, claim);
}

/* Whether the port is one of the channel's: hardly ever another than the first. */
static __always_inline bool comes_in_by(const struct ask_ports *set, __u32 ifindex)
{
	__u32 i;

	for (i = 0; i < ASK_CHANNEL_PORTS; i++) {
		if (set->ifindex[i] == ifindex)
			return true;
	}
	return false;
}

/* Whether the channel is who it says it is: port, address, incarnation. */
static __always_inline __u32 check_channel(__u32 port, const struct ask_frame *frame,
					   const struct ask_channel *channel)
{
	if (frame->hdr->version != ASK_WIRE_VERSION)
		return ASK_CNT_bad_version;
	if (!comes_in_by(&channel->ports, port))
		return ASK_CNT_bad_port;
	if (frame->ip->saddr != channel->host || frame->udp->source != channel->port)
		return ASK_CNT_bad_address;
	if (frame->hdr->incarnation != channel->incarnation)
		return ASK_CNT_bad_incarnation;
	return 0;
}

/* What a sender's header has in any service: no mark yet, and a seq. */
static __always_inline __u32 check_header(const struct ask_hdr *hdr)
{
	if (hdr->mark_switch || hdr->mark_incarnation)
		return ASK_CNT_bad_mark;
	if (!hdr->seq)
		return ASK_CNT_bad_seq;
	return 0;
}

/* UDP payload in bytes, 0 when the headers' lengths disagree or run past the frame. */
static __always_inline __u32 payload_bytes(const struct ask_frame *frame)
{
	const __u32 udp_len = bpf_ntohs(frame->udp->len);
	const __u32 tot_len = bpf_ntohs(frame->ip->tot_len);

	if (udp_len < sizeof(struct udphdr) + sizeof(struct ask_hdr) ||
	    tot_len != udp_len + sizeof(struct iphdr))
		return 0;
	if (udp_len > ASK_MAX_PAYLOAD + sizeof(struct udphdr))
		return 0;
	if (ASK_L4_OFFSET + udp_len > (__u32)((long)frame->end - (long)frame->data))
		return 0;
	return udp_len - sizeof(struct udphdr);
}
