/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The policy of replacing (ASK_POLICY_REPLACE): who collides with a key that has gone cold
 * takes its aggregator, and the evicted tuple takes the slot. Whoever receives the packet
 * adds it up as any other, so the answer is the same; bpf/carried.bpf.h sees to
 * retransmissions. lib/abi/consts.h has the rule and what it was chosen from.
 */
#pragma once

#include "bpf/aggregator.bpf.h"
#include "bpf/check.bpf.h"
#include "bpf/compat.bpf.h"
#include "bpf/config.bpf.h"
#include "bpf/maps.bpf.h"
#include "lib/abi/map_types.h"

/* The heat of an aggregator, or of a group, whose first AA is `aa`. */
static __always_inline __u8 *find_heat(__u32 task_index, const struct ask_phv *phv,
				       const struct ask_copy *copy, __u32 aa, __u32 index)
{
	void *map = bpf_map_lookup_elem(&heats, &task_index);
	const __u32 at = phv->heats + aa * copy->aggregators + index;
	const __u32 word = at / 8;
	struct ask_heats *found = map ? bpf_map_lookup_elem(map, &word) : NULL;

	ask_touch(ASK_ARRAY_HEAT, aa, index);
	return found ? &found->heat[at % 8] : NULL;
}

/* What the outcome of an offer does to the heat; true: too cold to stay. */
static __always_inline bool weigh(__u8 *heat, enum ask_outcome outcome)
{
	const __u8 old = ASK_READ_ONCE(*heat);
	__u8 now = old;

	if (outcome == ASK_COLLISION) {
		if (!old)
			return true;
		now = (__u8)(old - 1);
	} else if (outcome == ASK_TAKEN) {
		now = 1;
	} else if (outcome == ASK_AGGREGATED || outcome == ASK_OVERFLOW) {
		now = old + ASK_HEAT_GAIN > ASK_HEAT_CAP ? ASK_HEAT_CAP
							 : (__u8)(old + ASK_HEAT_GAIN);
	}
	if (now != old)
		ASK_WRITE_ONCE(*heat, now);
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

/* A short slot, at frame offset `offset`. Returns enum ask_outcome. A global function, as
 * ask_offer_medium(). */
__noinline int ask_offer_short_replacing(struct xdp_md *ctx, __u32 task_index, __u32 base,
					 __u32 offset, __u32 aa)
{
	struct ask_slot *slot = slot_at((void *)(long)ctx->data, offset);
	const void *end = (const void *)(long)ctx->data_end;
	const struct ask_task *task = bpf_map_lookup_elem(&tasks, &task_index);
	const struct ask_phv *phv = find_phv();
	struct ask_aggregator *word;
	enum ask_outcome outcome;
	struct ask_copy copy;
	__u32 kpart, index;
	__u8 *heat;

	if (!task || !phv || (const void *)(slot + 1) > end ||
	    !find_copy(task_index, task, base, &copy))
		return ASK_COLLISION;
	__builtin_memcpy(&kpart, slot->kpart, sizeof(kpart));
	index = index_of_short(&copy, kpart);
	word = find_aggregator(&copy, aa, index);
	heat = find_heat(task_index, phv, &copy, aa, index);
	/* No sender writes a blank key; it must not make an aggregator blank. */
	if (!word || !heat || !kpart)
		return ASK_COLLISION;
	outcome = update_aggregator(word, copy.op, kpart, (__s32)bpf_ntohl(slot->vpart), false);
	if (!weigh(heat, outcome))
		return (int)outcome;
	ask_touch(ASK_ARRAY_AA, aa, index);
	outcome = change_places((__u64 *)word, slot);
	if (outcome == ASK_REPLACED)
		ASK_WRITE_ONCE(*heat, 1);
	return (int)outcome;
}

/* Whether a group may be replaced: incoming and held words all hold a key. */
static __always_inline bool is_whole(const struct ask_copy *copy, const struct ask_task *task,
				     const struct ask_slot *slot, const void *end, __u32 aa,
				     __u32 index)
{
	__u32 j;

#pragma clang loop unroll(disable)
	for (j = 0; j < ASK_MAX_M; j++) {
		struct ask_aggregator *word;
		__u32 mine, held;

		if (j >= ASK_READ_ONCE(task->m))
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
static __always_inline void change_group(const struct ask_copy *copy, const struct ask_task *task,
					 struct ask_slot *slot, const void *end, __u32 aa,
					 __u32 index)
{
	__u32 j;

#pragma clang loop unroll(disable)
	for (j = 0; j < ASK_MAX_M; j++) {
		struct ask_aggregator *word;

		if (j >= ASK_READ_ONCE(task->m))
			break;
		word = find_aggregator(copy, aa + j, index);
		if (!word || (const void *)(slot + j + 1) > end)
			break;
		/* Leading words carry key only, whatever value the packet has there. */
		if (j + 1 < ASK_READ_ONCE(task->m))
			slot[j].vpart = 0;
		change_places((__u64 *)word, slot + j);
	}
}

/* A medium slot, as ask_offer_medium(). */
__noinline int ask_offer_medium_replacing(struct xdp_md *ctx, __u32 task_index, __u32 base,
					  __u32 offset, __u32 aa)
{
	struct ask_slot *slot = slot_at((void *)(long)ctx->data, offset);
	const void *end = (const void *)(long)ctx->data_end;
	const struct ask_task *task = bpf_map_lookup_elem(&tasks, &task_index);
	const struct ask_phv *phv = find_phv();
	enum ask_outcome outcome;
	struct ask_copy copy;
	__u32 index;
	__u8 *heat;

	if (!task || !phv || !find_copy(task_index, task, base, &copy))
		return ASK_COLLISION;
	index = ask_hash_index(hash_medium(task, slot, end), copy.aggregators);
	outcome = offer_group(&copy, task, slot, end, aa, index);
	heat = find_heat(task_index, phv, &copy, aa, index);
	if (!heat || !weigh(heat, outcome) || !is_whole(&copy, task, slot, end, aa, index))
		return (int)outcome;
	change_group(&copy, task, slot, end, aa, index);
	ASK_WRITE_ONCE(*heat, 1);
	return ASK_REPLACED;
}
