/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Offering tuples to the back level (lib/abi/back.h): what the aggregators left of a new packet, between
 * them and PktState, as SwitchAgg's engine for DRAM behind that for SRAM (section 4).
 *
 * Its table is larger than any cache, so the time goes into waiting for memory: tuples come in batches,
 * of which all buckets are asked for before the first is read. Here is what holds for every tuple;
 * bpf/tuples/back_held.bpf.h comes first and takes most of them.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "bpf/tuples/back_key.bpf.h"
#include "bpf/tuples/back_vector.bpf.h"
#include "bpf/tuples/bucket.bpf.h"
#include "bpf/tuples/gather.bpf.h"
#include "bpf/tuples/maps.bpf.h"
#include "bpf/tuples/vector.bpf.h"
#include "bpf/tuples/word.bpf.h"
#include "lib/abi/back.h"
#include "lib/abi/map_types.h"

/* The tuple is in the back level: it is not in the packet any more. */
static __always_inline void take_out(struct ask_phv *phv, __u32 place)
{
	__u32 *left = &phv->left[place / ASK_MAX_SLOTS % ASK_MAX_ROWS];

	ASK_WRITE_ONCE(*left, ASK_READ_ONCE(*left) & ~(1u << place % ASK_MAX_SLOTS));
}

/* A tuple stays because of other CPUs. An evicted one is not its sender's. */
static __always_inline void note_contention(struct ask_back_vector *vector,
					    const struct ask_phv *phv, __u32 place)
{
	const __u32 evicted = phv->replaced[place / ASK_MAX_SLOTS % ASK_MAX_ROWS];

	if (!vector->replaces || !(evicted >> place % ASK_MAX_SLOTS & 1u))
		vector->contention++;
}

/* Offers a tuple to all of its candidates, one after the other. `group` is a constant. */
static __always_inline int offer_tuple(__u32 task_index, const __u32 group, __u32 at)
{
	const struct ask_task *task = bpf_map_lookup_elem(&tasks, &task_index);
	const struct ask_back *back = bpf_map_lookup_elem(&backs, &task_index);
	void *map = group == ASK_BACK_8 ? bpf_map_lookup_elem(&back8, &task_index)
					: bpf_map_lookup_elem(&back16, &task_index);
	struct ask_back_vector *vector = find_back_vector();
	struct ask_phv *phv = find_phv();
	const struct ask_back_item *item;
	int outcome = ASK_BACK_FULL;
	__u64 hash;
	__u32 c;

	if (!task || !back || !map || !vector || !phv)
		return 0;
	item = &vector->item[group][at % ASK_MAX_TUPLES];
	hash = item->hash;
#pragma clang loop unroll(disable)
	for (c = 0; c < ASK_BACK_CANDIDATES && outcome == ASK_BACK_FULL; c++) {
		const __u32 index = ask_back_index(hash, back->buckets[group]);
		void *bucket = bpf_map_lookup_elem(map, &index);

		/* The first was touched by the batch. */
		if (c)
			ask_touch(ASK_ARRAY_BACK, group, index);
		if (group == ASK_BACK_8)
			outcome = ask_back_offer8(bucket, item->key.word[0], task->op, item->value);
		else
			outcome = ask_back_offer16(bucket, &item->key, item->hash, task->op,
						   item->value);
		hash = ask_back_next(back->seed, hash);
	}
	if (outcome == ASK_BACK_ADDED)
		take_out(phv, item->place);
	else if (outcome == ASK_BACK_CONTENTION)
		note_contention(vector, phv, item->place);
	return 0;
}

__noinline int ask_back_offer_one8(__u32 task_index, __u32 at)
{
	return offer_tuple(task_index, ASK_BACK_8, at);
}

__noinline int ask_back_offer_one16(__u32 task_index, __u32 at)
{
	return offer_tuple(task_index, ASK_BACK_16, at);
}

/* The tuple that is number `j` of a batch: behind the last it is the first again, whose bucket costs
 * nothing. Without a branch, of which there would be one for each. */
static __always_inline __u32 in_batch(__u32 first, __u32 j, __u32 count)
{
	__u64 is_there = ((__u64)first + j - count) >> 63;

	ask_opaque(is_there);
	return (first + j * (__u32)is_there) % ASK_MAX_TUPLES;
}

/* Offers the tuples of group 8 from `first` on, a batch of them. */
__noinline int ask_back_batch8(__u32 task_index, __u32 first)
{
	const struct ask_back *back = bpf_map_lookup_elem(&backs, &task_index);
	void *map = bpf_map_lookup_elem(&back8, &task_index);
	struct ask_back_vector *vector = find_back_vector();
	struct ask_back8 *bucket[ASK_BACK_BATCH];
	__u32 j, count;

	if (!back || !map || !vector)
		return 0;
	count = vector->count[ASK_BACK_8];
#pragma clang loop unroll(full)
	for (j = 0; j < ASK_BACK_BATCH; j++) {
		const __u64 hash = vector->item[ASK_BACK_8][in_batch(first, j, count)].hash;
		const __u32 index = ask_back_index(hash, back->buckets[ASK_BACK_8]);

		bucket[j] = bpf_map_lookup_elem(map, &index);
		if (!bucket[j])
			return 0;
		ask_touch(ASK_ARRAY_BACK, ASK_BACK_8, index);
	}
#pragma clang loop unroll(full)
	for (j = 0; j < ASK_BACK_BATCH; j++) {
		(void)ASK_READ_ONCE(bucket[j]->key[0]);
	}
#pragma clang loop unroll(disable)
	for (j = 0; j < ASK_BACK_BATCH; j++) {
		if (first + j >= count)
			break;
		ask_back_offer_one8(task_index, first + j);
	}
	return 0;
}

/* Group 16: both lines of each bucket. */
__noinline int ask_back_batch16(__u32 task_index, __u32 first)
{
	const struct ask_back *back = bpf_map_lookup_elem(&backs, &task_index);
	void *map = bpf_map_lookup_elem(&back16, &task_index);
	struct ask_back_vector *vector = find_back_vector();
	struct ask_back16 *bucket[ASK_BACK_BATCH];
	__u32 j, count;

	if (!back || !map || !vector)
		return 0;
	count = vector->count[ASK_BACK_16];
#pragma clang loop unroll(full)
	for (j = 0; j < ASK_BACK_BATCH; j++) {
		const __u64 hash = vector->item[ASK_BACK_16][in_batch(first, j, count)].hash;
		const __u32 index = ask_back_index(hash, back->buckets[ASK_BACK_16]);

		bucket[j] = bpf_map_lookup_elem(map, &index);
		if (!bucket[j])
			return 0;
		ask_touch(ASK_ARRAY_BACK, ASK_BACK_16, index);
	}
#pragma clang loop unroll(full)
	for (j = 0; j < ASK_BACK_BATCH; j++) {
		(void)ASK_READ_ONCE(bucket[j]->tags);
		(void)ASK_READ_ONCE(bucket[j]->entry[3].value);
	}
#pragma clang loop unroll(disable)
	for (j = 0; j < ASK_BACK_BATCH; j++) {
		if (first + j >= count)
			break;
		ask_back_offer_one16(task_index, first + j);
	}
	return 0;
}

/* Reads the tuple whose first kPart is at `offset`; its value is in the last of `words`. */
static __always_inline bool read_tuple(struct xdp_md *ctx, __u32 offset, __u32 words,
				       struct ask_back_item *item)
{
	const struct ask_slot *slot = slot_at((void *)(long)ctx->data, offset);
	const void *end = (const void *)(long)ctx->data_end;
	__u32 kpart[ASK_MAX_M] = {};
	__u32 j;

#pragma clang loop unroll(full)
	for (j = 0; j < ASK_MAX_M; j++) {
		if (j < words && (const void *)(slot + j + 1) <= end) {
			__builtin_memcpy(&kpart[j], slot[j].kpart, sizeof(kpart[j]));
			item->value = (__s32)bpf_ntohl(slot[j].vpart);
		}
	}
	item->key.word[0] = key_word(kpart[0], kpart[1]);
	item->key.word[1] = key_word(kpart[2], kpart[3]);
	/* No sender writes a blank key; the receiver will say so. */
	return item->key.word[0];
}

/* Puts a tuple of the packet among those of its group, if the task has that. A global function, so that
 * the verifier looks at a slot once. */
__noinline int ask_back_gather_slot(struct xdp_md *ctx, __u32 task_index, __u32 place, __u32 offset)
{
	const struct ask_task *task = bpf_map_lookup_elem(&tasks, &task_index);
	const struct ask_back *back = bpf_map_lookup_elem(&backs, &task_index);
	struct ask_back_vector *vector = find_back_vector();
	struct ask_back_item read = {};
	struct ask_back_item *item;
	__u32 group, at;

	if (!task || !back || !vector ||
	    !read_tuple(ctx, offset,
			place % ASK_MAX_SLOTS < ASK_READ_ONCE(task->short_slots) ? 1 : task->m,
			&read))
		return 0;
	group = read.key.word[1] ? ASK_BACK_16 : ASK_BACK_8;
	at = ASK_READ_ONCE(vector->count[group]);
	if (!back->buckets[group] || at >= ASK_MAX_TUPLES)
		return 0;
	item = &vector->item[group][at % ASK_MAX_TUPLES];
	item->key.word[0] = read.key.word[0];
	item->key.word[1] = read.key.word[1];
	item->value = read.value;
	item->place = place;
	item->hash = group ? ask_back_hash16(back->seed, read.key.word[0], read.key.word[1])
			   : ask_back_hash8(back->seed, read.key.word[0]);
	ASK_WRITE_ONCE(vector->count[group], at + 1);
	return 0;
}

/* All that is left of row `r`. */
__noinline int ask_back_gather_row(struct xdp_md *ctx, __u32 task_index, __u32 r)
{
	const struct ask_task *task = bpf_map_lookup_elem(&tasks, &task_index);
	struct ask_phv *phv = find_phv();
	__u32 left, offset, i;

	if (!task || !phv)
		return 0;
	/* Linux 6.1 forgets the bound of what has been on the stack, and clang knows it. */
	ask_opaque(r);
	r %= ASK_MAX_ROWS;
	left = ASK_READ_ONCE(phv->left[r]);
	offset = row_offset(phv, r);
#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_MAX_SLOTS; i++) {
		const __u32 slot = count_bits((left & -left) - 1) % ASK_MAX_SLOTS;

		if (!left)
			break;
		left &= left - 1;
		ask_back_gather_slot(ctx, task_index, r * ASK_MAX_SLOTS + slot,
				     offset + place_of_slot(task, slot).aa * ASK_SLOT_BYTES);
	}
	return 0;
}

/* Offers what is left of the packet in the vector, each tuple to all of its candidates. */
static __always_inline void offer_each(struct xdp_md *ctx, struct ask_back_vector *vector,
				       struct ask_phv *phv, bool replaces)
{
	__u32 i;

	vector->count[ASK_BACK_8] = vector->count[ASK_BACK_16] = vector->contention = 0;
	vector->replaces = replaces;
#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_MAX_ROWS; i++) {
		if (i >= ASK_ROWS(phv))
			break;
		if (ASK_READ_ONCE(phv->left[i]))
			ask_back_gather_row(ctx, phv->task, i);
	}
#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_MAX_TUPLES; i += ASK_BACK_BATCH) {
		if (i >= ASK_READ_ONCE(vector->count[ASK_BACK_8]))
			break;
		ask_back_batch8(phv->task, i);
	}
#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_MAX_TUPLES; i += ASK_BACK_BATCH) {
		if (i >= ASK_READ_ONCE(vector->count[ASK_BACK_16]))
			break;
		ask_back_batch16(phv->task, i);
	}
}
