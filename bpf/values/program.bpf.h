/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The program that takes packets of value streams over from the dispatcher. A VALUE is merged with what its
 * chunk's slot has of other members: within it, it is there already; around it, it takes its place; apart
 * from it, it is folded in; and one that crosses it travels on, since no subtraction is exact. The sets are
 * all there is to exactly once, so a slot may be lost at any time.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/engine/dedupe.bpf.h"
#include "bpf/engine/flow.bpf.h"
#include "bpf/engine/packet.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "bpf/values/fold.bpf.h"
#include "bpf/values/leave.bpf.h"
#include "bpf/values/result.bpf.h"
#include "bpf/values/slot.bpf.h"

/* What a VALUE brings, of its header and extension. */
struct ask_part {
	__u64 bits;
	__be32 shape;
	__u8 blocks;
	__u8 op;
	__u8 folded; /* flags that the sum has */
	__u8 flags;  /* all */
};

static __always_inline void read_part(const struct ask_values_frame *values, struct ask_part *part)
{
	const struct ask_hdr *hdr = values->frame.hdr;
	const bool congested = (values->frame.ip->tos & ASK_IP_ECN_MASK) == ASK_IP_ECN_CE;

	part->bits = bpf_be64_to_cpu(values->ext->bits);
	part->shape = values->ext->shape;
	part->blocks = ask_values_blocks(hdr);
	part->op = hdr->op;
	part->flags = hdr->flags;
	part->folded = (hdr->flags & ASK_F_FOLDED) | (congested ? ASK_F_ECE : 0);
}

/* Whether the sender may say so: a member sets its own bit, and only a switch below, which no port of this one's
 * members leads to, sends partials of several. A HAVE is of all. */
static __always_inline bool may_set(const struct ask_values_frame *values,
				    const struct ask_part *part, const struct ask_group *group,
				    const struct ask_flow *flow)
{
	const struct ask_hdr *hdr = values->frame.hdr;
	const __u64 own = 1ull << (flow->member % ASK_MAX_MEMBERS);

	if (values->ext->count != bpf_htonl(count_members(part->bits)))
		return false;
	if (hdr->type == ASK_HAVE)
		return part->bits == group->all;
	if (ask_values_level(hdr) == ASK_LEVEL_MEMBER)
		return part->bits == own;
	return part->bits && !(own & group->local) && !(part->bits & ~(group->all & ~group->local));
}

/* How far the stream has come, this packet among it; false: it is further ahead than any member may be. So are all
 * of a stream that went round this switch for a while: a RESULT moves it on then (result.bpf.h). */
static __always_inline bool raise_highest(struct ask_group *group, const struct ask_chunk *chunk,
					  __u64 *highest)
{
	__u64 *at = &group->highest[chunk->stream % ASK_VALUES_STREAMS];
	const __u64 old = ASK_READ_ONCE(*at);

	if (old && chunk->seq > old && chunk->seq - old > 2ull * group->window)
		return false;
	*highest = raise_max_seq(at, chunk->seq);
	return true;
}

/* Writes tag and set; copies the payload, as blanking and adding would be two steps. */
static __always_inline void take_slot(struct xdp_md *ctx, struct ask_value_slot *slot,
				      const struct ask_chunk *chunk, const struct ask_part *part)
{
	slot->instance = chunk->group->instance;
	slot->seq = chunk->seq;
	slot->stream = chunk->stream;
	slot->group = chunk->task;
	slot->bits = part->bits;
	slot->shape = part->shape;
	slot->blocks = part->blocks;
	slot->op = part->op;
	slot->flags = part->folded;
	slot->phase = ASK_SLOT_OPEN;
	ask_copy_in(ctx, slot, part->blocks);
}

/* Merges with an open chunk: a counter. */
static __always_inline __u32 merge_part(struct xdp_md *ctx, struct ask_value_slot *slot,
					const struct ask_part *part)
{
	const __u64 both = slot->bits & part->bits;

	if (both == part->bits)
		return ASK_CNT_value_repeat;
	if (both && both != slot->bits)
		return ASK_CNT_value_crossing;
	slot->flags |= part->folded;
	if (both) {
		slot->bits = part->bits;
		ask_copy_in(ctx, slot, part->blocks);
		return ASK_CNT_value_replaced;
	}
	slot->bits |= part->bits;
	ask_fold(ctx, slot, part->op, part->blocks);
	return ASK_CNT_value_folded;
}

/* Offers the packet to a slot that this CPU owns: a counter, by which it leaves if nothing else is to be
 * done. ASK_CNT_value_done: the chunk was complete before. */
static __always_inline __u32 offer_part(struct xdp_md *ctx, struct ask_value_slot *slot,
					const struct ask_chunk *chunk, const struct ask_part *part)
{
	__u32 reason;

	if (!is_chunks(slot, chunk)) {
		if (!is_takeable(slot))
			return ASK_CNT_value_collided;
		take_slot(ctx, slot, chunk, part);
		reason = ASK_CNT_value_taken;
	} else if (slot->shape != part->shape || slot->blocks != part->blocks ||
		   slot->op != part->op) {
		return ASK_CNT_value_shape;
	} else if (slot->phase == ASK_SLOT_DONE) {
		return ASK_CNT_value_done;
	} else {
		reason = merge_part(ctx, slot, part);
	}
	touch_slot(slot);
	return reason;
}

/* What is to be done with the packet once its slot is not this CPU's any more. */
struct ask_merged {
	struct ask_sum sum; /* the slot's */
	__u32 reason;
	bool complete;	/* it is now */
	bool flushed;	/* it is not, and has left its slot */
	bool rewritten; /* the packet has the slot's payload */
};

/* ATP (section 5.2, steps 8 to 10): a value sent again takes what its slot has on, or goes as it is if it was in there,
 * and the slot is free either way. What the others have sent is lost here then, and they send again. */
static __always_inline void flush_slot(struct ask_value_slot *slot, const struct ask_part *part,
				       struct ask_merged *merged)
{
	slot->phase = ASK_SLOT_EMPTY;
	merged->flushed = true;
	merged->rewritten = merged->reason == ASK_CNT_value_folded;
	if (merged->reason == ASK_CNT_value_repeat)
		merged->sum.bits = part->bits;
}

static __always_inline void offer_value(struct xdp_md *ctx, struct ask_value_slot *slot,
					const struct ask_chunk *chunk, const struct ask_part *part,
					struct ask_merged *merged)
{
	const struct ask_group *group = chunk->group;

	merged->reason = offer_part(ctx, slot, chunk, part);
	if (merged->reason == ASK_CNT_value_collided || merged->reason == ASK_CNT_value_shape)
		return;
	merged->sum.bits = slot->bits;
	merged->sum.flags = slot->flags;
	merged->complete = slot->phase == ASK_SLOT_OPEN && slot->bits == group->want;
	if (merged->complete)
		slot->phase = ASK_SLOT_DONE;
	if (merged->reason == ASK_CNT_value_done)
		merged->rewritten = group->last_level || part->flags & ASK_F_RESEND;
	else
		merged->rewritten = merged->complete && merged->reason == ASK_CNT_value_folded;
	if (group->flush && part->flags & ASK_F_RESEND && slot->phase == ASK_SLOT_OPEN)
		flush_slot(slot, part, merged);
	if (merged->rewritten)
		ask_copy_out(ctx, slot, part->blocks);
}

/* The packet has all that was to come here. */
static __always_inline int leave_complete(struct xdp_md *ctx, const struct ask_values_frame *values,
					  const struct ask_group *group,
					  const struct ask_check_key *key,
					  const struct ask_packet *packet,
					  const struct ask_merged *merged)
{
	if (group->last_level && group->direct && group->has_fan)
		return leave_result(values, group, key, packet, &merged->sum);
	return leave_partial(ctx, values, key, packet, &merged->sum, ASK_CNT_value_partial);
}

/* A packet of a chunk that was complete before. */
static __always_inline int leave_done(struct xdp_md *ctx, const struct ask_values_frame *values,
				      const struct ask_group *group,
				      const struct ask_check_key *key,
				      const struct ask_packet *packet,
				      const struct ask_merged *merged)
{
	if (group->last_level)
		return leave_answered(values, group, key, packet, &merged->sum);
	if (merged->rewritten)
		return leave_partial(ctx, values, key, packet, &merged->sum,
				     ASK_CNT_value_partial_again);
	return leave_absorbed(ASK_CNT_value_done);
}

static __always_inline int leave_offered(struct xdp_md *ctx, const struct ask_values_frame *values,
					 const struct ask_group *group,
					 const struct ask_check_key *key, struct ask_packet *packet,
					 const struct ask_part *part,
					 const struct ask_merged *merged)
{
	if (merged->reason == ASK_CNT_value_collided)
		return leave_collided(ctx, values, key, packet, merged->reason);
	if (merged->reason == ASK_CNT_value_shape || merged->reason == ASK_CNT_value_crossing)
		return ask_forward_values(ctx, merged->reason);
	if (merged->rewritten)
		sum_again(ctx, key, packet, part->blocks);
	if (merged->reason == ASK_CNT_value_done)
		return leave_done(ctx, values, group, key, packet, merged);
	if (merged->complete)
		return leave_complete(ctx, values, group, key, packet, merged);
	if (merged->flushed)
		return leave_partial(ctx, values, key, packet, &merged->sum, ASK_CNT_value_flushed);
	if (part->flags & ASK_F_RESEND)
		return leave_held(ctx, values, key, group->want & ~merged->sum.bits);
	return leave_absorbed(merged->reason);
}

/* What is for the collector, whatever the slots have: a counter; 0: for a slot. ASK_CNT_bad_set: for nobody. */
static __always_inline __u32 pass_by(const struct ask_values_frame *values,
				     const struct ask_part *part, struct ask_group *group,
				     const struct ask_flow *flow, const struct ask_chunk *chunk)
{
	__u64 highest = 0;

	if (!may_set(values, part, group, flow))
		return ASK_CNT_bad_set;
	if (values->frame.hdr->type == ASK_HAVE)
		return ASK_CNT_have;
	if (!raise_highest(group, chunk, &highest))
		return ASK_CNT_value_ahead;
	if (part->flags & ASK_F_ALONE)
		return ASK_CNT_value_alone;
	/* Who sent the highest had this one's result. */
	if (highest - chunk->seq >= group->window)
		return ASK_CNT_value_late;
	return group->pool_slots ? 0 : ASK_CNT_value_no_pool;
}

static __always_inline int take_value(struct xdp_md *ctx, const struct ask_values_frame *values,
				      const struct ask_flow *flow, struct ask_group *group,
				      struct ask_packet *packet)
{
	const struct ask_chunk chunk = {.group = group,
					.task = flow->task,
					.seq = bpf_be64_to_cpu(values->frame.hdr->seq),
					.stream = ask_values_stream(values->frame.hdr)};
	struct ask_value_slot *slot;
	struct ask_merged merged = {};
	struct ask_part part;
	__u32 reason;

	read_part(values, &part);
	reason = pass_by(values, &part, group, flow, &chunk);
	if (reason == ASK_CNT_bad_set)
		return leave_drop(reason);
	if (reason)
		return ask_forward_values(ctx, reason);
	slot = find_slot(&chunk);
	if (!slot)
		return leave_abort(ASK_CNT_abort_state);
	if (!own_slot(slot))
		return leave_collided(ctx, values, &flow->key, packet, ASK_CNT_value_contended);
	offer_value(ctx, slot, &chunk, &part, &merged);
	release_slot(slot);
	return leave_offered(ctx, values, group, &flow->key, packet, &part, &merged);
}

SEC("xdp.frags")
int ask_values(struct xdp_md *ctx)
{
	struct ask_packet *packet = find_packet();
	struct ask_values_frame values = {};
	struct ask_claim claim = {};
	struct ask_group *group;

	if (!packet || !find_headers(ctx, &values.frame) || !values.frame.hdr)
		return leave_abort(ASK_CNT_abort_state);
	claim_flow(packet->flow, &claim);
	if (!claim.flow)
		return leave_abort(ASK_CNT_abort_state);
	group = find_group(claim.flow->task);
	if (!group)
		return leave_abort(ASK_CNT_abort_state);
	/* Its group is being opened or closed. */
	if (group->instance != claim.flow->task_instance)
		return packet->is_new == ASK_UNPROVED
			       ? leave_drop(ASK_CNT_bad_task)
			       : ask_forward_values(ctx, ASK_CNT_value_no_group);
	if (!find_values(ctx, &values))
		return leave_drop(ASK_CNT_bad_length);
	if (packet->is_new == ASK_UNPROVED)
		return values.frame.hdr->type == ASK_RESULT
			       ? take_result(ctx, &values, claim.flow, group, packet)
			       : leave_drop(ASK_CNT_bad_type);
	return take_value(ctx, &values, claim.flow, group, packet);
}
