/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * A row of a packet (ASK section 3.2.1, design section 5): one pass, AAs in rising order,
 * each touched by one read-modify-write at most, and a second where a tuple is replaced.
 *
 * Global functions, so that the verifier looks at a row once and not once per row (eight
 * times over, it runs out of its budget), and at short slots apart from medium ones.
 */
#pragma once

#include "bpf/engine/check.bpf.h"
#include "bpf/engine/compat.bpf.h"
#include "bpf/tuples/config.bpf.h"
#include "bpf/tuples/maps.bpf.h"
#include "bpf/tuples/vector.bpf.h"
#include "bpf/tuples/word.bpf.h"
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

/* Short slots that share a bounds check. */
#define ASK_SHORTS_AT_ONCE 4u

/* Where the short slots of a row stand, and where they go. */
struct ask_shorts {
	const struct ask_slot *slot; /* `ahead` of the row's first */
	const void *end;	     /* of the frame */
	struct ask_copy copy;
	__u32 ahead; /* slots in front of the row, so that groups end where the short slots do */
	__u32 op;
};

/* Read anew at each use: kept over a look-up, it would be on the stack, too. */
static __always_inline __u32 kpart_of(const struct ask_slot *slot)
{
	return ASK_READ_ONCE(*(const __u32 *)(const void *)slot->kpart);
}

/*
 * pipelines: offers a tuple for which add_to_own() was not enough, and notes what becomes of
 * it. A global function, so that the verifier looks at it once, and so that the loop over
 * slots is short: most tuples do not come here.
 */
__noinline int ask_offer_otherwise(struct ask_aggregator *at, __u32 op, __u32 kpart, __s32 value,
				   __u32 bit)
{
	struct ask_phv *phv = find_phv();

	if (phv)
		note(phv, at ? update_plain((__u64 *)at, op, kpart, value, false) : ASK_COLLISION,
		     bit);
	return 0;
}

/* The same in the other way of memory, hits too. */
static __always_inline void offer_shared(struct ask_phv *phv, struct ask_aggregator *at, __u32 op,
					 const struct ask_slot *slot, __u32 bit)
{
	note(phv,
	     (enum ask_outcome)ask_update_shared(at, op, kpart_of(slot),
						 (__s32)bpf_ntohl(slot->vpart), false),
	     bit);
}

/* The aggregator for the slot of AA `aa`, whose aggregators begin at `first`. */
static __always_inline struct ask_aggregator *
find_short(const struct ask_shorts *shorts, const struct ask_slot *slot, __u32 first, __u32 aa)
{
	__u32 index = index_of_short(&shorts->copy, kpart_of(slot));
	__u32 at;

	ask_touch(ASK_ARRAY_AA, aa, index);
	ask_opaque(index); /* or clang makes the sum in a copy of `first` */
	at = index + first;
	return bpf_map_lookup_elem(shorts->copy.region, &at);
}

/* Offers the tuple of AA `aa`, and notes what became of it unless it was a hit. */
static __always_inline void offer_short(const struct ask_shorts *shorts, struct ask_phv *phv,
					const struct ask_slot *slot, struct ask_aggregator *word,
					__u32 aa, const bool shared, const bool sums)
{
	const __u32 op = sums ? ASK_OP_SUM : shorts->op;

	if (shared) {
		offer_shared(phv, word, op, slot, 1u << aa % ASK_MAX_SLOTS);
		return;
	}
	if (ask_likely(word && add_to_own(word, op, kpart_of(slot), (__s32)bpf_ntohl(slot->vpart))))
		return;
	ask_opaque(aa); /* or clang makes the bit before it asks whether it is needed */
	if (word && take_blank(word, kpart_of(slot), (__s32)bpf_ntohl(slot->vpart))) {
		note(phv, ASK_TAKEN, 1u << aa % ASK_MAX_SLOTS);
		return;
	}
	if (word && is_others(word, kpart_of(slot))) {
		note(phv, ASK_COLLISION, 1u << aa % ASK_MAX_SLOTS);
		return;
	}
	ask_offer_otherwise(word, op, kpart_of(slot), (__s32)bpf_ntohl(slot->vpart),
			    1u << aa % ASK_MAX_SLOTS);
}

/* Offers those of a group's slots that are in `bits`; returns where the next group's aggregators
 * begin. */
static __always_inline __u32 offer_some(const struct ask_shorts *shorts, struct ask_phv *phv,
					const struct ask_slot *slot, __u32 first, __u32 aa,
					__u32 bits, const bool shared, const bool sums)
{
	__u32 j;

#pragma clang loop unroll(full)
	for (j = 0; j < ASK_SHORTS_AT_ONCE; j++) {
		if (bits & 1u << j)
			offer_short(shorts, phv, slot + j,
				    find_short(shorts, slot + j, first, aa + j), aa + j, shared,
				    sums);
		first += shorts->copy.aggregators;
		/* Added here, or clang keeps a multiple for each of the slots. */
		ask_opaque(first);
	}
	return first;
}

/*
 * pipelines, sums: offers all of a group's slots. All aggregators are looked up before the first
 * is read, so that the reads are close together and wait for memory side by side.
 */
static __always_inline __u32 offer_all(const struct ask_shorts *shorts, struct ask_phv *phv,
				       const struct ask_slot *slot, __u32 first, __u32 aa)
{
	struct ask_aggregator *words[ASK_SHORTS_AT_ONCE];
	__u32 j;

#pragma clang loop unroll(full)
	for (j = 0; j < ASK_SHORTS_AT_ONCE; j++) {
		words[j] = find_short(shorts, slot + j, first, aa + j);
		first += shorts->copy.aggregators;
		ask_opaque(first);
	}
#pragma clang loop unroll(full)
	for (j = 0; j < ASK_SHORTS_AT_ONCE; j++) {
		offer_short(shorts, phv, slot + j, words[j], aa + j, false, true);
	}
	return first;
}

/*
 * Offers the slots of bitmap `offered`, those of ASK_SHORTS_AT_ONCE AAs for one bounds check,
 * in the way of the task's memory and operator: the caller's constants.
 *
 * This is where the switch spends its time: nothing is looked up in the loop that could be
 * looked up before it, and a hit is not written down anywhere.
 */
static __always_inline void offer_shorts(const struct ask_shorts *shorts, struct ask_phv *phv,
					 __u32 offered, const bool shared, const bool sums)
{
	const __u32 all = (1u << ASK_SHORTS_AT_ONCE) - 1;
	const struct ask_slot *slot = shorts->slot;
	__u32 first = shorts->copy.base - shorts->ahead * shorts->copy.aggregators;
	__u32 bits = offered << shorts->ahead;
	__u32 aa = -shorts->ahead;

#pragma clang loop unroll(disable)
	for (; bits; bits >>= ASK_SHORTS_AT_ONCE) {
		if ((const void *)(slot + ASK_SHORTS_AT_ONCE) > shorts->end) {
			note(phv, ASK_COLLISION, bits << (aa + shorts->ahead) >> shorts->ahead);
			break;
		}
		if (sums && !shared && ask_likely((bits & all) == all))
			first = offer_all(shorts, phv, slot, first, aa);
		else
			first = offer_some(shorts, phv, slot, first, aa, bits, shared, sums);
		slot += ASK_SHORTS_AT_ONCE;
		aa += ASK_SHORTS_AT_ONCE;
	}
}

/*
 * Offers the short slots left of row `r` to the aggregators from `base` on; what is left stays
 * in the packet's vector, and why.
 */
__noinline int ask_aggregate_shorts(struct xdp_md *ctx, const struct ask_task *task,
				    struct ask_phv *phv, __u32 base, __u32 r)
{
	struct ask_shorts shorts;
	__u32 offered;

	if (!phv || r >= ASK_MAX_ROWS || !task || !find_copy(phv->task, task, base, &shorts.copy))
		return 0;
	shorts.ahead = -(__u32)task->short_slots % ASK_SHORTS_AT_ONCE;
	shorts.op = task->op;
	shorts.slot = slot_at((void *)(long)ctx->data,
			      row_offset(phv, r) - shorts.ahead * ASK_SLOT_BYTES);
	shorts.end = (const void *)(long)ctx->data_end;
	offered = phv->left[r] & short_bits(task);
	if (ask_memory == ASK_MEMORY_SHARED)
		offer_shorts(&shorts, phv, offered, true, false);
	else if (shorts.op == ASK_OP_SUM)
		offer_shorts(&shorts, phv, offered, false, true);
	else
		offer_shorts(&shorts, phv, offered, false, false);
	phv->left[r] = (phv->left[r] & ~offered) | not_aggregated(phv);
	return 0;
}

/* Offers the medium slots left of row `r`, which begins at frame offset `offset`, to the
 * aggregators from `base` on; what is left stays in the packet's vector, and why. */
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
