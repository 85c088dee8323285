/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The policy of replacing (ASK_POLICY_REPLACE): who collides with a key that has gone cold
 * takes its aggregator, and the evicted tuple takes the slot. Whoever receives the packet
 * adds it up as any other, so the answer is the same; bpf/tuples/carried.bpf.h sees to
 * retransmissions. lib/abi/consts.h has the rule and what it was chosen from.
 */
#pragma once

#include "bpf/engine/check.bpf.h"
#include "bpf/engine/compat.bpf.h"
#include "bpf/tuples/config.bpf.h"
#include "bpf/tuples/maps.bpf.h"
#include "bpf/tuples/row.bpf.h"
#include "bpf/tuples/vector.bpf.h"
#include "bpf/tuples/word.bpf.h"
#include "lib/abi/map_types.h"

/* The heat of an aggregator, or of a group, whose first AA is `aa`. */
static __always_inline __u8 *find_heat(void *map, const struct ask_phv *phv,
				       const struct ask_copy *copy, __u32 aa, __u32 index)
{
	const __u32 at = phv->heats + aa * copy->aggregators + index;
	const __u32 word = at / 8;
	struct ask_heats *found = bpf_map_lookup_elem(map, &word);

	ask_touch(ASK_ARRAY_HEAT, aa, index);
	return found ? &found->heat[at % 8] : NULL;
}

/* What the outcome does to the heat; true: too cold to stay. */
static __always_inline bool weigh(__u8 *heat, enum ask_outcome outcome)
{
	if (outcome == ASK_COLLISION) {
		const __u8 old = ASK_READ_ONCE(*heat);

		if (!old)
			return true;
		ASK_WRITE_ONCE(*heat, (__u8)(old - 1));
	} else {
		ASK_WRITE_ONCE(*heat, outcome == ASK_TAKEN ? ASK_HEAT_TAKEN : ASK_HEAT_HIT);
	}
	return false;
}

static __always_inline void write_slot(struct ask_slot *slot, const union ask_word *word)
{
	__builtin_memcpy(slot->kpart, word->half.kpart, sizeof(slot->kpart));
	slot->vpart = bpf_htonl((__u32)word->half.vpart);
}

/*
 * Changes places of a slot and the aggregator that it collided with. shared: one
 * compare-and-swap of the whole word, so whatever is there, it leaves whole; who loses the
 * race stays in the packet.
 */
static __always_inline enum ask_outcome change_places(__u64 *at, struct ask_slot *slot)
{
	union ask_word held = {.whole = ASK_READ_ONCE(*at)};
	union ask_word mine;
	__u32 kpart;

	__builtin_memcpy(&kpart, held.half.kpart, sizeof(kpart));
	if (!kpart)
		return ASK_COLLISION;
	__builtin_memcpy(mine.half.kpart, slot->kpart, sizeof(mine.half.kpart));
	mine.half.vpart = (__s32)bpf_ntohl(slot->vpart);
	if (ask_memory == ASK_MEMORY_SHARED) {
		if (ask_cas64(at, held.whole, mine.whole) != held.whole)
			return ASK_CONTENTION;
	} else {
		ASK_WRITE_ONCE(*at, mine.whole);
	}
	write_slot(slot, &held);
	return ASK_REPLACED;
}

/* What a task's slots were offered to. */
struct ask_offer {
	const struct ask_phv *phv;
	void *heats_map;
	struct ask_copy copy;
};

static __always_inline bool find_offer(__u32 task_index, __u32 base, struct ask_offer *offer)
{
	const struct ask_task *task = bpf_map_lookup_elem(&tasks, &task_index);

	offer->phv = find_phv();
	offer->heats_map = bpf_map_lookup_elem(&heats, &task_index);
	return task && offer->phv && offer->heats_map &&
	       find_copy(task_index, task, base, &offer->copy);
}

/*
 * What the policy makes of the outcome of a short slot's offer. Returns the outcome after it.
 */
static __always_inline enum ask_outcome weigh_short(const struct ask_offer *offer,
						    struct ask_slot *slot, __u32 aa,
						    enum ask_outcome outcome)
{
	struct ask_aggregator *word;
	__u32 kpart, index;
	__u8 *heat;

	__builtin_memcpy(&kpart, slot->kpart, sizeof(kpart));
	index = index_of_short(&offer->copy, kpart);
	heat = find_heat(offer->heats_map, offer->phv, &offer->copy, aa, index);
	/* No sender writes a blank key; it must not make an aggregator blank. */
	if (!heat || !kpart || !weigh(heat, outcome))
		return outcome;
	word = find_aggregator(&offer->copy, aa, index);
	if (!word)
		return outcome;
	outcome = change_places((__u64 *)word, slot);
	if (outcome == ASK_REPLACED)
		ASK_WRITE_ONCE(*heat, ASK_HEAT_TAKEN);
	return outcome;
}

/* What became of a slot of the row at hand that is weighed, by the bitmaps. */
static __always_inline enum ask_outcome noted(const struct ask_phv *phv, __u32 bit)
{
	if (ASK_READ_ONCE(phv->became[ASK_COLLISION]) & bit)
		return ASK_COLLISION;
	return ASK_READ_ONCE(phv->became[ASK_TAKEN]) & bit ? ASK_TAKEN : ASK_AGGREGATED;
}

static __always_inline void note_weighed(struct ask_phv *phv, __u32 r, __u32 bit,
					 enum ask_outcome outcome)
{
	if (outcome == ASK_REPLACED)
		ASK_WRITE_ONCE(phv->replaced[r], ASK_READ_ONCE(phv->replaced[r]) | bit);
	else if (outcome == ASK_CONTENTION)
		note(phv, ASK_CONTENTION, bit);
}

/*
 * Weighs short slots of row `r`, which begins at frame offset `offset`: those of the vector's
 * bitmap `weighed`. Which of them have an evicted tuple now is in the vector. A global
 * function, as the next, so that the verifier looks at a row once.
 */
__noinline int ask_weigh_shorts(struct xdp_md *ctx, __u32 task_index, __u32 base, __u32 offset,
				__u32 r)
{
	struct ask_slot *slot = slot_at((void *)(long)ctx->data, offset);
	const void *end = (const void *)(long)ctx->data_end;
	struct ask_phv *phv = find_phv();
	struct ask_offer offer;
	__u32 i;

	if (!phv || r >= ASK_MAX_ROWS || !find_offer(task_index, base, &offer))
		return 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_MAX_SLOTS; i++, slot++) {
		const __u32 bit = 1u << i;

		if (i >= ASK_READ_ONCE(offer.copy.task->short_slots) ||
		    (const void *)(slot + 1) > end)
			break;
		if (ASK_READ_ONCE(phv->weighed) & bit)
			note_weighed(phv, r, bit, weigh_short(&offer, slot, i, noted(phv, bit)));
	}
	return 0;
}

/* Whether a group may be replaced: incoming and held words all hold a key. */
static __always_inline bool is_whole(const struct ask_copy *copy, const struct ask_slot *slot,
				     const void *end, __u32 aa, __u32 index)
{
	__u32 j;

#pragma clang loop unroll(disable)
	for (j = 0; j < ASK_MAX_M; j++) {
		struct ask_aggregator *word;
		__u32 mine, held;

		if (j >= ASK_READ_ONCE(copy->task->m))
			break;
		word = find_aggregator(copy, aa + j, index);
		if (!word || (const void *)(slot + j + 1) > end)
			return false;
		__builtin_memcpy(&mine, slot[j].kpart, sizeof(mine));
		__builtin_memcpy(&held, word->kpart, sizeof(held));
		if (!mine || !held)
			return false;
	}
	return true;
}

/* Word by word, which only works where no other CPU looks on. */
static __always_inline void change_group(const struct ask_copy *copy, struct ask_slot *slot,
					 const void *end, __u32 aa, __u32 index)
{
	__u32 j;

#pragma clang loop unroll(disable)
	for (j = 0; j < ASK_MAX_M; j++) {
		struct ask_aggregator *word;

		if (j >= ASK_READ_ONCE(copy->task->m))
			break;
		word = find_aggregator(copy, aa + j, index);
		if (!word || (const void *)(slot + j + 1) > end)
			break;
		/* Leading words carry key only, whatever value the packet has there. */
		if (j + 1 < ASK_READ_ONCE(copy->task->m))
			slot[j].vpart = 0;
		change_places((__u64 *)word, slot + j);
	}
}

/* AA and outcome of a slot in one argument, of which a function may have five. */
#define ASK_OFFERED(aa, outcome) ((aa) << 8 | (__u32)(outcome))

/* What the policy makes of the outcome of a medium slot's offer, the slot being at frame offset
 * `offset`, its group beginning with the AA. Returns enum ask_outcome. */
__noinline int ask_weigh_medium(struct xdp_md *ctx, __u32 task_index, __u32 base, __u32 offset,
				__u32 offered)
{
	struct ask_slot *slot = slot_at((void *)(long)ctx->data, offset);
	const void *end = (const void *)(long)ctx->data_end;
	const enum ask_outcome outcome = (enum ask_outcome)(offered & 0xff);
	const __u32 aa = offered >> 8;
	struct ask_offer offer;
	__u32 index;
	__u8 *heat;

	if (!find_offer(task_index, base, &offer))
		return (int)outcome;
	index = ask_hash_index(hash_medium(&offer.copy, slot, end), offer.copy.aggregators);
	heat = find_heat(offer.heats_map, offer.phv, &offer.copy, aa, index);
	if (!heat || !weigh(heat, outcome) || !is_whole(&offer.copy, slot, end, aa, index))
		return (int)outcome;
	change_group(&offer.copy, slot, end, aa, index);
	ASK_WRITE_ONCE(*heat, ASK_HEAT_TAKEN);
	return ASK_REPLACED;
}

/* The same as ask_weigh_shorts() for the row's medium slots. shared: never replaced, since
 * another CPU could see a group half changed. */
__noinline int ask_weigh_mediums(struct xdp_md *ctx, __u32 task_index, __u32 base, __u32 offset,
				 __u32 r)
{
	const struct ask_task *task = bpf_map_lookup_elem(&tasks, &task_index);
	struct ask_phv *phv = find_phv();
	__u32 g;

	if (!phv || r >= ASK_MAX_ROWS || !task || ask_memory == ASK_MEMORY_SHARED)
		return 0;
#pragma clang loop unroll(disable)
	for (g = 0; g < ASK_MAX_SLOTS; g++) {
		const __u32 bit = 1u << ((ASK_READ_ONCE(task->short_slots) + g) % ASK_MAX_SLOTS);
		const __u32 aa = ASK_READ_ONCE(task->short_slots) + g * ASK_READ_ONCE(task->m);
		const __u32 at = offset + aa * ASK_SLOT_BYTES;

		if (g >= ASK_READ_ONCE(task->groups))
			break;
		if (ASK_READ_ONCE(phv->weighed) & bit)
			note_weighed(phv, r, bit,
				     (enum ask_outcome)
					     ask_weigh_medium(ctx, task_index, base, at,
							      ASK_OFFERED(aa, noted(phv, bit))));
	}
	return 0;
}
