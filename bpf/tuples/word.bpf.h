/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Offering a slot to its aggregators (ASK sections 3.2.1 and 3.2.3, design section 5): a
 * short one to one AA, a medium one to those of its group. Who comes first keeps the place;
 * bpf/tuples/replace.bpf.h has the other policy.
 */
#pragma once

#include "bpf/engine/check.bpf.h"
#include "bpf/engine/compat.bpf.h"
#include "bpf/tuples/config.bpf.h"
#include "bpf/tuples/maps.bpf.h"
#include "bpf/tuples/operators.bpf.h"
#include "bpf/tuples/vector.bpf.h"
#include "lib/abi/hash.h"
#include "lib/abi/map_types.h"

/* What became of a slot. */
enum ask_outcome {
	ASK_TAKEN,	/* aggregated: the aggregator was blank */
	ASK_AGGREGATED, /* the aggregator was the key's */
	ASK_REPLACED,	/* aggregated; the slot has the tuple that was there */
	ASK_COLLISION,	/* the aggregator is another key's */
	ASK_OVERFLOW,	/* the sum would leave int32 */
	ASK_CONTENTION, /* other CPUs changed it too often meanwhile */
};

ASK_STATIC_ASSERT(ASK_CONTENTION < ASK_OUTCOMES, "struct ask_phv has a bitmap for each");

/* Whether the tuple is in the aggregator and no other in its slot. */
static __always_inline bool is_aggregated(enum ask_outcome outcome)
{
	return outcome <= ASK_AGGREGATED;
}

/* The part of a region that a row aggregates into. */
struct ask_copy {
	void *region;
	const struct ask_task *task;
	__u32 aggregators; /* of an AA */
	__u32 base;	   /* first aggregator of the CPU's set and the packet's copy */
};

/*
 * What an aggregator becomes when (kpart, value) is offered to it. `value` is not
 * looked at for a leading word of a medium key, which carries key only.
 */
static __always_inline enum ask_outcome offer(struct ask_aggregator *word, __u32 op, __u32 kpart,
					      __s32 value, bool leading)
{
	__u32 held;

	__builtin_memcpy(&held, word->kpart, sizeof(held));
	if (held == 0) {
		/* No sender writes a blank key; the receiver will say so. */
		if (kpart == 0)
			return ASK_COLLISION;
		__builtin_memcpy(word->kpart, &kpart, sizeof(kpart));
		word->vpart = leading ? 0 : value;
		return ASK_TAKEN;
	}
	if (held != kpart)
		return ASK_COLLISION;
	if (leading)
		return ASK_AGGREGATED;
	return ask_apply(op, &word->vpart, value) ? ASK_AGGREGATED : ASK_OVERFLOW;
}

union ask_word {
	struct ask_aggregator half;
	__u64 whole;
};

/* pipelines: this CPU's own set, so nothing else changes it between read and write
 * (XDP runs in softirq; the loader refuses this way where that is not enough). */
static __always_inline enum ask_outcome update_plain(__u64 *at, __u32 op, __u32 kpart, __s32 value,
						     bool leading)
{
	union ask_word word = {.whole = ASK_READ_ONCE(*at)};
	const enum ask_outcome outcome = offer(&word.half, op, kpart, value, leading);

	/* One store of both halves: a fetch never sees a key without its value. */
	if (outcome == ASK_TAKEN)
		ASK_WRITE_ONCE(*at, word.whole);
	else if (outcome == ASK_AGGREGATED && !leading)
		ASK_WRITE_ONCE(((struct ask_aggregator *)at)->vpart, word.half.vpart);
	return outcome;
}

/* pipelines: the same where the aggregator is the key's and has room for the value, as for nearly
 * all tuples; false: anything else, and nothing has changed. */
static __always_inline bool add_to_own(struct ask_aggregator *at, __u32 op, __u32 kpart,
				       __s32 value)
{
	union ask_word word = {.whole = ASK_READ_ONCE(*(__u64 *)at)};
	__u32 held;

	__builtin_memcpy(&held, word.half.kpart, sizeof(held));
	if (held != kpart || !kpart || !ask_apply(op, &word.half.vpart, value))
		return false;
	ASK_WRITE_ONCE(at->vpart, word.half.vpart);
	return true;
}

/* Whether the aggregator is another key's. */
static __always_inline bool is_others(const struct ask_aggregator *at, __u32 kpart)
{
	const __u32 held = ASK_READ_ONCE(*(const __u32 *)(const void *)at->kpart);

	return held && held != kpart;
}

/* pipelines: takes an aggregator that is zero as a whole, as blank ones are; false: it is not. */
static __always_inline bool take_blank(struct ask_aggregator *at, __u32 kpart, __s32 value)
{
	union ask_word word = {};

	if (ASK_READ_ONCE(*(__u64 *)at) || !kpart)
		return false;
	__builtin_memcpy(word.half.kpart, &kpart, sizeof(kpart));
	word.half.vpart = value;
	ASK_WRITE_ONCE(*(__u64 *)at, word.whole);
	return true;
}

/*
 * shared: compare-and-swap, a bounded number of times. Giving up is correct: the tuple
 * travels on to the receiver. A global function, so that the verifier goes through the
 * tries once; the call is small beside an atomic.
 */
__noinline int ask_update_shared(struct ask_aggregator *at, __u32 op, __u32 kpart, __s32 value,
				 __u32 leading)
{
	__u64 *whole = (__u64 *)at;
	__u64 old;
	__u32 i;

	if (!at)
		return ASK_COLLISION;
	old = ASK_READ_ONCE(*whole);
#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_CAS_TRIES; i++) {
		union ask_word word = {.whole = old};
		const enum ask_outcome outcome = offer(&word.half, op, kpart, value, leading);
		__u64 was;

		if (!is_aggregated(outcome) || word.whole == old)
			return (int)outcome;
		was = ask_cas64(whole, old, word.whole);
		if (was == old)
			return (int)outcome;
		old = was;
	}
	return ASK_CONTENTION;
}

/* `first`: the place of the AA's first aggregator. */
static __always_inline struct ask_aggregator *find_in_aa(const struct ask_copy *copy, __u32 first,
							 __u32 aa, __u32 index)
{
	const __u32 at = first + index;

	ask_touch(ASK_ARRAY_AA, aa, index);
	return bpf_map_lookup_elem(copy->region, &at);
}

static __always_inline struct ask_aggregator *find_aggregator(const struct ask_copy *copy, __u32 aa,
							      __u32 index)
{
	return find_in_aa(copy, copy->base + aa * copy->aggregators, aa, index);
}

static __always_inline enum ask_outcome update_aggregator(struct ask_aggregator *word, __u32 op,
							  __u32 kpart, __s32 value, bool leading)
{
	if (!word)
		return ASK_COLLISION;
	if (ask_memory == ASK_MEMORY_SHARED)
		return (enum ask_outcome)ask_update_shared(word, op, kpart, value, leading);
	return update_plain((__u64 *)word, op, kpart, value, leading);
}

static __always_inline __u32 index_of_short(const struct ask_copy *copy, __u32 kpart)
{
	return ask_hash_index(ask_hash_add(ASK_HASH_SEED, kpart), copy->aggregators);
}

/* Where a task aggregates, from `base` on; false: nowhere. */
static __always_inline bool find_copy(__u32 task_index, const struct ask_task *task, __u32 base,
				      struct ask_copy *copy)
{
	copy->region = bpf_map_lookup_elem(&regions, &task_index);
	copy->task = task;
	copy->aggregators = task->aggregators;
	copy->base = base;
	return copy->region;
}

/* The slot at `offset` of a frame whose data starts at `data`. */
static __always_inline struct ask_slot *slot_at(void *data, __u32 offset)
{
	offset &= ASK_OFFSET_MASK;
	ask_opaque(offset);
	offset &= ASK_OFFSET_MASK;
	return data + offset;
}

/* The hash of a medium slot's key. */
static __always_inline __u32 hash_medium(const struct ask_copy *copy, const struct ask_slot *slot,
					 const void *end)
{
	__u32 hash = ASK_HASH_SEED;
	__u32 j;

#pragma clang loop unroll(disable)
	for (j = 0; j < ASK_MAX_M; j++) {
		__u32 kpart;

		if (j >= ASK_READ_ONCE(copy->task->m) || (const void *)(slot + j + 1) > end)
			break;
		__builtin_memcpy(&kpart, slot[j].kpart, sizeof(kpart));
		hash = ask_hash_add(hash, kpart);
	}
	return hash;
}

/*
 * A medium slot: the m AAs of its group from `aa` on, at one index, from the hash of the
 * whole key. Leading words first: whoever reserves them fixes who may use the last, so a
 * reservation that is not finished (shared, another CPU) harms nobody.
 */
static __always_inline enum ask_outcome offer_group(const struct ask_copy *copy,
						    const struct ask_slot *slot, const void *end,
						    __u32 aa, __u32 index)
{
	__u32 j;

#pragma clang loop unroll(disable)
	for (j = 0; j < ASK_MAX_M; j++) {
		enum ask_outcome outcome;
		const bool leading = j + 1 < ASK_READ_ONCE(copy->task->m);
		__u32 kpart;

		if ((const void *)(slot + j + 1) > end)
			break;
		__builtin_memcpy(&kpart, slot[j].kpart, sizeof(kpart));
		outcome = update_aggregator(find_aggregator(copy, aa + j, index),
					    ASK_READ_ONCE(copy->task->op), kpart,
					    (__s32)bpf_ntohl(slot[j].vpart), leading);
		if (!is_aggregated(outcome) || !leading)
			return outcome;
	}
	return ASK_COLLISION;
}

/*
 * A medium slot at frame offset `offset`. Returns enum ask_outcome. A global function, so
 * that the verifier looks at a group once: Linux 6.1 goes through half a million
 * instructions otherwise.
 */
__noinline int ask_offer_medium(struct xdp_md *ctx, __u32 task_index, __u32 base, __u32 offset,
				__u32 aa)
{
	const struct ask_slot *slot = slot_at((void *)(long)ctx->data, offset);
	const void *end = (const void *)(long)ctx->data_end;
	const struct ask_task *task = bpf_map_lookup_elem(&tasks, &task_index);
	struct ask_copy copy;
	__u32 index;

	if (!task || !find_copy(task_index, task, base, &copy))
		return ASK_COLLISION;
	index = ask_hash_index(hash_medium(&copy, slot, end), copy.aggregators);
	return (int)offer_group(&copy, slot, end, aa, index);
}
