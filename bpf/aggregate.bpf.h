/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * A row of a packet (ASK section 3.2.1, design section 5): one pass, AAs in rising order,
 * each touched by one read-modify-write at most, and a second where a tuple is replaced.
 *
 * Global functions, so that the verifier looks at a row once and not once per row (eight
 * times over, it runs out of its budget), and at short slots apart from medium ones.
 */
#pragma once

#include "bpf/aggregator.bpf.h"
#include "bpf/check.bpf.h"
#include "bpf/compat.bpf.h"
#include "bpf/config.bpf.h"
#include "bpf/maps.bpf.h"
#include "lib/abi/map_types.h"

/* Adds a slot to those of the row that this became of, but for hits. In memory, of which the
 * verifier keeps nothing: a variable would hold another value on every path, and Linux 6.1
 * follows them all. */
static __always_inline void note(struct ask_phv *phv, enum ask_outcome outcome, __u32 bit)
{
	__u32 *slots = &phv->became[ASK_COLLISION];

	if (outcome == ASK_AGGREGATED)
		return;
	if (outcome == ASK_TAKEN)
		slots = &phv->became[ASK_TAKEN];
	else if (outcome == ASK_OVERFLOW)
		slots = &phv->became[ASK_OVERFLOW];
	else if (outcome == ASK_CONTENTION)
		slots = &phv->became[ASK_CONTENTION];
	ASK_WRITE_ONCE(*slots, ASK_READ_ONCE(*slots) | bit);
}

/* Slots of the row at hand that were offered in vain. */
static __always_inline __u32 not_aggregated(const struct ask_phv *phv)
{
	return ASK_READ_ONCE(phv->became[ASK_COLLISION]) |
	       ASK_READ_ONCE(phv->became[ASK_OVERFLOW]) |
	       ASK_READ_ONCE(phv->became[ASK_CONTENTION]);
}

/* The bitmap of a geometry's short slots. */
static __always_inline __u32 short_bits(const struct ask_task *task)
{
	return (__u32)((1ull << (task->short_slots % 64)) - 1);
}

/* Where the short slots of a row stand, and where they go. */
struct ask_shorts {
	const struct ask_slot *slot;
	const void *end; /* of the frame */
	struct ask_copy copy;
	__u32 op;
};

/* Read anew at each use: kept over a look-up, it would be on the stack, too. */
static __always_inline __u32 kpart_of(const struct ask_slot *slot)
{
	return ASK_READ_ONCE(*(const __u32 *)(const void *)slot->kpart);
}

/* Offers a slot's tuple, by the task's way of memory and operator: the caller's constants. */
static __always_inline enum ask_outcome update_short(const struct ask_shorts *shorts,
						     struct ask_aggregator *word, __u32 kpart,
						     __s32 value, const bool shared,
						     const bool sums)
{
	const __u32 op = sums ? ASK_OP_SUM : shorts->op;

	if (shared)
		return (enum ask_outcome)ask_update_shared(word, op, kpart, value, false);
	return update_plain((__u64 *)word, op, kpart, value, false);
}

/*
 * Offers the slots of bitmap `offered` to the aggregators, notes what became of those that did
 * not find their key, and returns which were not come to.
 *
 * This is where the switch spends its time: nothing is looked up in the loop that could be
 * looked up before it, and a hit is not written down anywhere.
 */
static __always_inline __u32 offer_shorts(const struct ask_shorts *shorts, struct ask_phv *phv,
					  __u32 offered, const bool shared, const bool sums)
{
	const struct ask_slot *slot = shorts->slot;
	__u32 first = shorts->copy.base;
	__u32 aa = 0;
	__u32 bit;

#pragma clang loop unroll(disable)
	for (bit = 1; bit; bit <<= 1, slot++, first += shorts->copy.aggregators, aa++) {
		struct ask_aggregator *word;

		if ((const void *)(slot + 1) > shorts->end)
			break;
		if (!(offered & bit))
			continue;
		word = find_in_aa(&shorts->copy, first, aa,
				  index_of_short(&shorts->copy, kpart_of(slot)));
		if (!word)
			break;
		note(phv,
		     update_short(shorts, word, kpart_of(slot), (__s32)bpf_ntohl(slot->vpart),
				  shared, sums),
		     bit);
	}
	return offered & -bit;
}

/*
 * Offers the short slots left of row `r`, which begins at frame offset `offset`, to the
 * aggregators from `base` on; what is left stays in the packet's vector, and why.
 */
__noinline int ask_aggregate_shorts(struct xdp_md *ctx, __u32 task_index, __u32 base, __u32 offset,
				    __u32 r)
{
	const struct ask_task *task = bpf_map_lookup_elem(&tasks, &task_index);
	struct ask_phv *phv = find_phv();
	struct ask_shorts shorts;
	__u32 offered, left;

	if (!phv || r >= ASK_MAX_ROWS || !task || !find_copy(task_index, task, base, &shorts.copy))
		return 0;
	shorts.slot = slot_at((void *)(long)ctx->data, offset);
	shorts.end = (const void *)(long)ctx->data_end;
	shorts.op = task->op;
	offered = phv->left[r] & short_bits(task);
	if (ask_memory == ASK_MEMORY_SHARED)
		left = offer_shorts(&shorts, phv, offered, true, false);
	else if (shorts.op == ASK_OP_SUM)
		left = offer_shorts(&shorts, phv, offered, false, true);
	else
		left = offer_shorts(&shorts, phv, offered, false, false);
	phv->left[r] = (phv->left[r] & ~offered) | left | not_aggregated(phv);
	return 0;
}

/* The same for the row's medium slots. */
__noinline int ask_aggregate_mediums(struct xdp_md *ctx, __u32 task_index, __u32 base, __u32 offset,
				     __u32 r)
{
	const struct ask_task *task = bpf_map_lookup_elem(&tasks, &task_index);
	struct ask_phv *phv = find_phv();
	__u32 g;

	if (!phv || r >= ASK_MAX_ROWS || !task)
		return 0;
#pragma clang loop unroll(disable)
	for (g = 0; g < ASK_MAX_SLOTS; g++) {
		const __u32 bit = 1u << ((ASK_READ_ONCE(task->short_slots) + g) % ASK_MAX_SLOTS);
		const __u32 aa = ASK_READ_ONCE(task->short_slots) + g * ASK_READ_ONCE(task->m);
		const __u32 at = offset + aa * ASK_SLOT_BYTES;
		const __u32 left = ASK_READ_ONCE(phv->left[r]);
		enum ask_outcome outcome;

		if (g >= ASK_READ_ONCE(task->groups))
			break;
		if (!(left & bit))
			continue;
		outcome = (enum ask_outcome)ask_offer_medium(ctx, task_index, base, at, aa);
		note(phv, outcome, bit);
		if (is_aggregated(outcome))
			ASK_WRITE_ONCE(phv->left[r], left & ~bit);
	}
	return 0;
}
