/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Offering the slots of a row to their aggregator arrays (ASK sections 3.2.1 and
 * 3.2.3, design section 5). A row is one pass: AAs in rising order, each touched by
 * one read-modify-write at most.
 */
#pragma once

#include "bpf/check.bpf.h"
#include "bpf/compat.bpf.h"
#include "bpf/config.bpf.h"
#include "bpf/maps.bpf.h"
#include "bpf/operators.bpf.h"
#include "lib/abi/hash.h"
#include "lib/abi/map_types.h"

/* What became of a slot. */
enum ask_outcome {
	ASK_AGGREGATED,
	ASK_COLLISION,	/* the aggregator is another key's */
	ASK_OVERFLOW,	/* the sum would leave int32 */
	ASK_CONTENTION, /* other CPUs changed it too often meanwhile */
};

/* The part of a region that a row aggregates into. */
struct ask_copy {
	void *region;
	__u32 base; /* first aggregator of the CPU's set and the packet's copy */
	__u32 aggregators;
	__u32 op;
};

/*
 * What an aggregator becomes when (kpart, value) is offered to it. `value` is not
 * looked at for a leading word of a medium key, which carries key only.
 */
static __always_inline enum ask_outcome offer(struct ask_aggregator *word, __u32 op, __u32 kpart,
					      __s32 value, bool leading)
{
	__u32 held;
	__s64 result;

	__builtin_memcpy(&held, word->kpart, sizeof(held));
	if (held == 0) {
		/* No sender writes a blank key; the receiver will say so. */
		if (kpart == 0)
			return ASK_COLLISION;
		__builtin_memcpy(word->kpart, &kpart, sizeof(kpart));
		word->vpart = leading ? 0 : value;
		return ASK_AGGREGATED;
	}
	if (held != kpart)
		return ASK_COLLISION;
	if (leading)
		return ASK_AGGREGATED;
	result = ask_apply(op, word->vpart, value);
	if (result != (__s32)result)
		return ASK_OVERFLOW;
	word->vpart = (__s32)result;
	return ASK_AGGREGATED;
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
	if (outcome == ASK_AGGREGATED)
		ASK_WRITE_ONCE(*at, word.whole);
	return outcome;
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

		if (outcome != ASK_AGGREGATED || word.whole == old)
			return (int)outcome;
		was = ask_cas64(whole, old, word.whole);
		if (was == old)
			return ASK_AGGREGATED;
		old = was;
	}
	return ASK_CONTENTION;
}

static __always_inline enum ask_outcome update_aggregator(const struct ask_copy *copy, __u32 aa,
							  __u32 index, __u32 kpart, __s32 value,
							  bool leading)
{
	const __u32 at = copy->base + aa * copy->aggregators + index;
	struct ask_aggregator *word = bpf_map_lookup_elem(copy->region, &at);

	ask_touch(ASK_ARRAY_AA, aa, index);
	if (!word)
		return ASK_COLLISION;
	if (ask_memory == ASK_MEMORY_SHARED)
		return (enum ask_outcome)ask_update_shared(word, copy->op, kpart, value, leading);
	return update_plain((__u64 *)word, copy->op, kpart, value, leading);
}

/* A short slot: one AA. */
static __always_inline enum ask_outcome offer_short(const struct ask_copy *copy,
						    const struct ask_slot *slot, __u32 aa)
{
	__u32 kpart, index;

	__builtin_memcpy(&kpart, slot->kpart, sizeof(kpart));
	index = ask_hash_index(ask_hash_add(ASK_HASH_SEED, kpart), copy->aggregators);
	return update_aggregator(copy, aa, index, kpart, (__s32)bpf_ntohl(slot->vpart), false);
}

/* Where a task aggregates, from `base` on; false: nowhere. */
static __always_inline bool find_copy(__u32 task_index, const struct ask_task *task, __u32 base,
				      struct ask_copy *copy)
{
	copy->region = bpf_map_lookup_elem(&regions, &task_index);
	copy->base = base;
	copy->aggregators = task->aggregators;
	copy->op = task->op;
	return copy->region;
}

/* The slot at `offset` of a frame whose data starts at `data`. */
static __always_inline const struct ask_slot *slot_at(const void *data, __u32 offset)
{
	offset &= ASK_OFFSET_MASK;
	ask_opaque(offset);
	offset &= ASK_OFFSET_MASK;
	return data + offset;
}

/* The hash of a medium slot's key. */
static __always_inline __u32 hash_medium(const struct ask_task *task, const struct ask_slot *slot,
					 const void *end)
{
	__u32 hash = ASK_HASH_SEED;
	__u32 j;

#pragma clang loop unroll(disable)
	for (j = 0; j < ASK_MAX_M; j++) {
		__u32 kpart;

		if (j >= ASK_READ_ONCE(task->m) || (const void *)(slot + j + 1) > end)
			break;
		__builtin_memcpy(&kpart, slot[j].kpart, sizeof(kpart));
		hash = ask_hash_add(hash, kpart);
	}
	return hash;
}

/*
 * A medium slot, at frame offset `offset`: the m AAs of its group from `aa` on, at one
 * index, from the hash of the whole key. Leading words first: whoever reserves them
 * fixes who may use the last, so a reservation that is not finished (shared, another
 * CPU) harms nobody. Returns enum ask_outcome. A global function, so that the verifier
 * looks at a group once: Linux 6.1 goes through half a million instructions otherwise.
 */
__noinline int ask_offer_medium(struct xdp_md *ctx, __u32 task_index, __u32 base, __u32 offset,
				__u32 aa)
{
	const struct ask_slot *slot = slot_at((const void *)(long)ctx->data, offset);
	const void *end = (const void *)(long)ctx->data_end;
	const struct ask_task *task = bpf_map_lookup_elem(&tasks, &task_index);
	struct ask_copy copy;
	__u32 index, j;

	if (!task || !find_copy(task_index, task, base, &copy))
		return ASK_COLLISION;
	index = ask_hash_index(hash_medium(task, slot, end), copy.aggregators);
#pragma clang loop unroll(disable)
	for (j = 0; j < ASK_MAX_M; j++) {
		enum ask_outcome outcome;
		const bool leading = j + 1 < ASK_READ_ONCE(task->m);
		__u32 kpart;

		if ((const void *)(slot + j + 1) > end)
			break;
		__builtin_memcpy(&kpart, slot[j].kpart, sizeof(kpart));
		outcome = update_aggregator(&copy, aa + j, index, kpart,
					    (__s32)bpf_ntohl(slot[j].vpart), leading);
		if (outcome != ASK_AGGREGATED || !leading)
			return (int)outcome;
	}
	return ASK_COLLISION;
}

/* Takes a slot out of its row when its tuple has been aggregated; counts why it has not. */
static __always_inline void settle(struct ask_phv *phv, __u32 r, __u32 slot,
				   enum ask_outcome outcome)
{
	if (outcome == ASK_AGGREGATED)
		ASK_WRITE_ONCE(phv->left[r], ASK_READ_ONCE(phv->left[r]) & ~(1u << slot));
	else if (outcome == ASK_OVERFLOW)
		phv->overflow++;
	else if (outcome == ASK_CONTENTION)
		phv->contention++;
}

static __always_inline bool has_slot(const struct ask_phv *phv, __u32 r, __u32 slot)
{
	return ASK_READ_ONCE(phv->left[r]) >> slot & 1u;
}

static __always_inline void aggregate_shorts(struct xdp_md *ctx, const struct ask_task *task,
					     const struct ask_copy *copy, __u32 offset,
					     struct ask_phv *phv, __u32 r)
{
	const void *data = (const void *)(long)ctx->data;
	const void *end = (const void *)(long)ctx->data_end;
	__u32 i;

#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_MAX_SLOTS; i++) {
		const struct ask_slot *slot;

		if (i >= ASK_READ_ONCE(task->short_slots))
			break;
		if (!has_slot(phv, r, i))
			continue;
		slot = slot_at(data, offset + i * ASK_SLOT_BYTES);
		if ((const void *)(slot + 1) > end)
			break;
		settle(phv, r, i, offer_short(copy, slot, i));
	}
}

static __always_inline void aggregate_mediums(struct xdp_md *ctx, __u32 task_index,
					      const struct ask_task *task, __u32 base, __u32 offset,
					      struct ask_phv *phv, __u32 r)
{
	__u32 g;

#pragma clang loop unroll(disable)
	for (g = 0; g < ASK_MAX_SLOTS; g++) {
		const __u32 i = (ASK_READ_ONCE(task->short_slots) + g) % ASK_MAX_SLOTS;
		const __u32 aa = ASK_READ_ONCE(task->short_slots) + g * ASK_READ_ONCE(task->m);

		if (g >= ASK_READ_ONCE(task->groups))
			break;
		if (!has_slot(phv, r, i))
			continue;
		settle(phv, r, i,
		       (enum ask_outcome)ask_offer_medium(ctx, task_index, base,
							  offset + aa * ASK_SLOT_BYTES, aa));
	}
}

/*
 * One pass: offers every slot left of row `r`, at frame offset `offset`, to the aggregators
 * from `base` on; what stays left, and why, is in the packet's vector. A global function, so
 * that the verifier looks at a row once and not once per row (eight times over, it runs out
 * of its budget). What becomes of a slot is kept in memory, of which the verifier keeps
 * nothing: a variable would hold another value on every path, and Linux 6.1 follows them all.
 */
__noinline int ask_aggregate_row(struct xdp_md *ctx, __u32 task_index, __u32 base, __u32 offset,
				 __u32 r)
{
	const struct ask_task *task = bpf_map_lookup_elem(&tasks, &task_index);
	struct ask_phv *phv = find_phv();
	struct ask_copy copy;

	if (!phv || r >= ASK_MAX_ROWS || !task || !find_copy(task_index, task, base, &copy))
		return 0;
	aggregate_shorts(ctx, task, &copy, offset, phv, r);
	aggregate_mediums(ctx, task_index, task, base, offset, phv, r);
	return 0;
}
