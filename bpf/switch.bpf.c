/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The switch: prove a packet, tell whether it is new, hand it to the service of its task
 * (ASK section 3, design sections 4 and 5). This file is the only dispatcher; what a service makes
 * of a packet is in a folder of its own (bpf/services.bpf.h).
 */
#include "bpf/engine/ack.bpf.h"
#include "bpf/engine/check.bpf.h"
#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/engine/dedupe.bpf.h"
#include "bpf/engine/flow.bpf.h"
#include "bpf/engine/forward.bpf.h"
#include "bpf/engine/maps.bpf.h"
#include "bpf/engine/packet.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "bpf/engine/rate.bpf.h"
#include "bpf/engine/service.bpf.h"
#include "bpf/engine/six.bpf.h"
#include "bpf/engine/tag.bpf.h"

/* A packet whose flow is registered here, and whose header is its service's: prove it, and hand it
 * on. FIN tells the receiver alone; here only the window keeps up with it. */
static __always_inline int handle_own(struct xdp_md *ctx, const struct ask_frame *frame,
				      const struct ask_claim *claim, __u32 service)
{
	const struct ask_hdr *hdr = frame->hdr;
	const __u32 payload = payload_bytes(frame);
	const __u32 bytes = payload - (__u32)sizeof(*hdr);
	struct ask_packet *packet = find_packet();
	__u32 reason;
	int verdict;

	if (!packet)
		return leave_abort(ASK_CNT_abort_state);
	if (!payload)
		return leave_drop(ASK_CNT_bad_length);
	reason = service_lay_out(ctx, service, hdr, claim->task, bytes, packet);
	if (reason)
		return leave_drop(reason);
	if (!has_keys(packet, bytes))
		return leave_drop(ASK_CNT_bad_length);
	if (!is_sealed(ctx, frame, &claim->flow->key, packet, bytes))
		return leave_drop(ASK_CNT_bad_check);
	reason = service_check_body(service, hdr, claim->task, packet);
	if (reason)
		return leave_drop(reason);
	if (claim->task->bucket && !is_within_rate(claim->task->bucket))
		return leave_drop(ASK_CNT_drop_rate);

	packet->flow = claim->flow_index;
	if (!service_dedupes(service)) {
		packet->is_new = true;
		return enter_service(ctx, service, claim->task->program);
	}
	verdict = ask_dedupe_packet(claim->flow->channel, bpf_be64_to_cpu(hdr->seq));
	if (verdict < 0)
		return leave_abort(ASK_CNT_abort_state);
	if (verdict == ASK_STALE)
		return leave_drop(ASK_CNT_drop_stale);
	if (hdr->type == ASK_FIN)
		return leave_forward(ctx, frame,
				     verdict == ASK_NEW ? ASK_CNT_fin_new : ASK_CNT_fin_seen);
	packet->is_new = verdict == ASK_NEW;
	if (service_passes(service, hdr))
		return service_pass(ctx, service, hdr);
	return enter_service(ctx, service, claim->task->program);
}

/* A flow that no channel has is a group's, for RESULTs: nothing of the packet is proved yet. */
static __always_inline int enter_unproved(struct xdp_md *ctx, const struct ask_claim *claim)
{
	struct ask_packet *packet = find_packet();

	if (!packet || !claim->flow || !claim->task || claim->task->service != ASK_SERVICE_VALUES ||
	    claim->task->instance != claim->flow->task_instance)
		return leave_abort(ASK_CNT_abort_state);
	packet->flow = claim->flow_index;
	packet->is_new = ASK_UNPROVED;
	ask_tail_call(ctx, &data_programs, ASK_SERVICE_VALUES * ASK_SERVICE_PROGRAMS, ask_values);
	return leave_abort(ASK_CNT_abort_state);
}

/* A packet of a channel, of no task that is registered here. Those of groups go on: they run without this switch.
 * A global function: within the dispatcher it would cost each packet. */
__noinline int ask_pass_unknown(struct xdp_md *ctx)
{
	struct ask_frame frame = {};

	if (!find_headers(ctx, &frame) || !frame.hdr)
		return leave_abort(ASK_CNT_abort_state);
	if (frame.hdr->type != ASK_VALUE && frame.hdr->type != ASK_HAVE)
		return leave_drop(ASK_CNT_bad_task);
	return leave_forward(ctx, &frame, ASK_CNT_value_no_group);
}

/* UDP in IPv4 right behind the Ethernet header, which came in by `port`. */
static __always_inline int dispatch(struct xdp_md *ctx, const struct ask_frame *frame, __u32 port)
{
	struct ask_claim claim = {};
	__u32 reason, service;

	if (frame->udp->dest != bpf_htons(ASK_UDP_PORT)) {
		if (is_ack(frame))
			return ask_take_ack(ctx);
		return leave_pass(ASK_CNT_pass_foreign);
	}

	find_flow(frame->hdr, &claim);
	if (claim.foreign)
		return leave_pass(ASK_CNT_pass_channel);
	if (has_fragments(ctx, frame))
		return leave_drop(ASK_CNT_bad_fragments);
	if (!claim.channel)
		return enter_unproved(ctx, &claim);
	reason = check_channel(port, frame, claim.channel);
	if (reason)
		return leave_drop(reason);
	if (!claim.flow)
		return ask_pass_unknown(ctx);
	if (!claim.task || claim.task->instance != claim.flow->task_instance)
		return leave_abort(ASK_CNT_abort_state);
	if (frame->ip->daddr != claim.task->receiver)
		return leave_drop(ASK_CNT_bad_receiver);
	service = claim.task->service;
	if (service >= ASK_SERVICE_COUNT)
		return leave_abort(ASK_CNT_abort_state);
	reason = service_check_header(service, frame->hdr, claim.task);
	if (!reason)
		reason = check_header(frame->hdr);
	if (reason)
		return leave_drop(reason);
	return handle_own(ctx, frame, &claim, service);
}

/* What came in another form. A function, because a tail call ends no more than the function that it is in: a service's
 * program that takes the packet comes back to the caller. */
static __noinline int dispatch_one_form(struct xdp_md *ctx, __u32 port)
{
	struct ask_frame frame = {};

	if (!parse_udp(ctx, &frame) || !frame.hdr)
		return leave_pass(ASK_CNT_pass_foreign);
	return dispatch(ctx, &frame, port);
}

/* A frame without a tag, of IPv4 or IPv6. Which one is read back from memory, so that the verifier looks at the
 * dispatcher once. */
static __always_inline int dispatch_form(struct xdp_md *ctx, __u32 port)
{
	struct ask_six *six = find_six();
	__u32 reason;
	int action;

	if (!six)
		return leave_abort(ASK_CNT_abort_state);
	reason = enter_six(ctx, six);
	if (reason == ASK_CNT_abort_resize)
		return leave_abort(reason);
	if (reason != ASK_IN_ONE_FORM)
		return leave_pass(reason);
	action = dispatch_one_form(ctx, port);
	return ASK_READ_ONCE(six->at_hand) ? leave_six(ctx, six, port, action) : action;
}

/* IPv6 without a tag. */
SEC("xdp.frags")
int ask_six(struct xdp_md *ctx)
{
	return dispatch_form(ctx, ctx->ingress_ifindex);
}

/*
 * A frame with a tag loses it for as long as it is here. It has it again, of the same VLAN and priority, where it
 * leaves by the port that it came in by, or goes up; what leaves by another port has what that one's VLAN says.
 */
SEC("xdp.frags")
int ask_tagged(struct xdp_md *ctx)
{
	const __u32 zero = 0;
	__u32 *came_by = bpf_map_lookup_elem(&came_by_vlan, &zero);
	__be16 control = 0;
	const __u32 port = find_vlan(ctx, &control);
	int action;

	if (!port)
		return leave_pass(ASK_CNT_pass_foreign);
	if (!came_by || !take_tag_out(ctx))
		return leave_abort(ASK_CNT_abort_resize);
	*came_by = port;
	action = dispatch_form(ctx, port);
	*came_by = 0;
	/* There is room for it: it stood there. */
	if ((action == XDP_TX || action == XDP_PASS) && !put_tag_in(ctx, control))
		return XDP_ABORTED;
	return action;
}

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 2);
	__uint(key_size, sizeof(__u32));
	__array(values, int(struct xdp_md *));
} form_programs SEC(".maps") = {
	.values = {ask_tagged, ask_six},
};

SEC("xdp.frags")
int ask_switch(struct xdp_md *ctx)
{
	struct ask_frame frame = {};

	if (!parse_udp(ctx, &frame) || !frame.hdr) {
		/* One or the other: to the verifier of 6.12 a tail call that came to nothing has taken the packet away. */
		if (frame.eth && is_tagged(frame.eth))
			ask_tail_call(ctx, &form_programs, 0, ask_tagged);
		else if (frame.eth && is_six(frame.eth))
			ask_tail_call(ctx, &form_programs, 1, ask_six);
		return leave_pass(ASK_CNT_pass_foreign);
	}
	/* No address, and to services it would be a host with IPv6. */
	if (is_host_number(frame.ip->saddr))
		return leave_pass(ASK_CNT_pass_foreign);
	return dispatch(ctx, &frame, ctx->ingress_ifindex);
}

char _license[] SEC("license") = "Dual BSD/GPL";
