/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Of the tuples that are offered to the back level, those that are done with quickest, and nearly all of
 * them once a task is under way: the key has up to 8 bytes and is in its first bucket, the operator adds
 * up. Taken from the packet as they lie there, a batch of one row at a time. What is not taken, for
 * whatever reason, stays in the packet and is offered again (bpf/tuples/back.bpf.h).
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/tuples/back_key.bpf.h"
#include "bpf/tuples/gather.bpf.h"
#include "bpf/tuples/maps.bpf.h"
#include "bpf/tuples/vector.bpf.h"
#include "bpf/tuples/word.bpf.h"
#include "lib/abi/back.h"

/* 1 if two words are equal, else 0, and no branch. */
static __always_inline __u64 is_same(__u64 a, __u64 b)
{
	const __u64 differ = a ^ b;
	__u64 either = differ | -differ;

	ask_opaque(either); /* or clang sees through it */
	return (either >> 63) ^ 1;
}

/* Adds `more`, a value word without its live bit, to a sum if `fits`; 1 if it did: there is a sum, it has room
 * and nobody else was at it. Arithmetic throughout, since branches would be mispredicted, and followed each
 * way by the verifier: what has no sum here changes one into what it is. */
static __always_inline __u64 add_to_sum(__u64 *word, __u64 more, __u64 fits)
{
	const __u64 old = ASK_READ_ONCE(*word);
	const __u64 sum = old + more;
	__u64 wrapped = (old ^ sum) & (more ^ sum);

	ask_opaque(wrapped);
	fits &= old & ~(wrapped >> 63); /* ASK_BACK_LIVE is the first bit */
	return fits & is_same(ask_cas64(word, old, old + (more & -fits)), old);
}

/* Adds to the sum of a tuple whose key is in the bucket, if `fits`; 1 if it did. */
static __always_inline __u64 add_to_held(struct ask_back8 *bucket, __u64 key, __u64 more,
					 __u64 fits)
{
	const __u64 second = is_same(ASK_READ_ONCE(bucket->key[1]), key);
	const __u64 third = is_same(ASK_READ_ONCE(bucket->key[2]), key);
	const __u64 fourth = is_same(ASK_READ_ONCE(bucket->key[3]), key);
	__u64 entry = (second | fourth) + 2 * (third | fourth);

	fits &= is_same(ASK_READ_ONCE(bucket->key[0]), key) | second | third | fourth;
	ask_opaque(entry);
	return add_to_sum(&bucket->value[entry % ASK_BACK8_ENTRIES], more, fits);
}

/* A batch of tuples, wherever they lie in their row. */
struct ask_back_row {
	struct ask_back8 *bucket[ASK_BACK_BATCH];
	__u64 key[ASK_BACK_BATCH];
	__u32 value[ASK_BACK_BATCH]; /* as it is in the packet */
};

/* The key of the tuple of `words` slots. */
static __always_inline __u64 slot_key(const struct ask_slot *slot, const __u32 words)
{
	__u32 kpart[2] = {};

	__builtin_memcpy(&kpart[0], slot[0].kpart, sizeof(kpart[0]));
	if (words == 1)
		return kpart[0];
	__builtin_memcpy(&kpart[1], slot[1].kpart, sizeof(kpart[1]));
	return key_word(kpart[0], kpart[1]);
}

static __always_inline __u32 first_bucket(const struct ask_back *back, __u64 key)
{
	return ask_back_index(ask_back_hash8(back->seed, key), back->buckets[ASK_BACK_8]);
}

/* Reads the first of the pending tuples, each of `words` slots from `base` on, and asks for its bucket. Where
 * there is none it is the row's first and bucket 0, which cost nothing. */
static __always_inline bool look_up_held(struct xdp_md *ctx, void *map, const struct ask_back *back,
					 struct ask_back_row *row, const __u32 j, __u32 pending,
					 __u32 base, const __u32 words)
{
	const __u32 bit = pending & -pending;
	const __u32 at = number_of_bit(bit) % ASK_MAX_SLOTS;
	const struct ask_slot *slot = slot_at((void *)(long)ctx->data,
					      base + at * words * ASK_SLOT_BYTES);
	__u32 index;

	if ((const void *)(slot + words) > (const void *)(long)ctx->data_end)
		return false;
	row->key[j] = slot_key(slot, words);
	row->value[j] = slot[words - 1].vpart;
	index = first_bucket(back, row->key[j]) & mask_of(bit);
	row->bucket[j] = bpf_map_lookup_elem(map, &index);
	return row->bucket[j];
}

/* `value` as it is in the packet. */
static __always_inline __u64 add_tuple(const struct ask_back *back, struct ask_back8 *bucket,
				       __u64 key, __u32 value)
{
	const __u64 added = add_to_held(bucket, key, (__u64)(__s64)(__s32)bpf_ntohl(value) << 1, 1);

	if (added)
		ask_touch(ASK_ARRAY_BACK, ASK_BACK_8, first_bucket(back, key));
	return added;
}

/* All loads of a batch, before the first is waited for. */
static __always_inline void read_first_words(struct ask_back8 *const *bucket)
{
	__u32 j;

#pragma clang loop unroll(full)
	for (j = 0; j < ASK_BACK_BATCH; j++) {
		(void)ASK_READ_ONCE(bucket[j]->key[0]);
	}
}

/* Of a row's tuples of `words` slots, the first batch of `pending`, a bitmap whose first bit is slot
 * `first`. */
static __always_inline int add_held(struct xdp_md *ctx, __u32 task_index, __u32 r, __u32 pending,
				    __u32 first, const __u32 words)
{
	const struct ask_back *back = bpf_map_lookup_elem(&backs, &task_index);
	void *map = bpf_map_lookup_elem(&back8, &task_index);
	struct ask_phv *phv = find_phv();
	struct ask_back_row row;
	__u32 offered = pending, taken = 0, base, j;
	__u64 added;

	if (!back || !map || !phv)
		return 0;
	/* Linux 6.1 forgets the bound of what has been on the stack, and clang knows it. */
	ask_opaque(r);
	r %= ASK_MAX_ROWS;
	base = row_offset(phv, r) + first * ASK_SLOT_BYTES;
#pragma clang loop unroll(full)
	for (j = 0; j < ASK_BACK_BATCH; j++) {
		if (!look_up_held(ctx, map, back, &row, j, pending, base, words))
			return 0;
		pending &= pending - 1;
	}
	read_first_words(row.bucket);
#pragma clang loop unroll(full)
	for (j = 0; j < ASK_BACK_BATCH; j++) {
		if (!offered)
			continue;
		added = add_tuple(back, row.bucket[j], row.key[j], row.value[j]);
		taken |= offered & -offered & (0 - (__u32)added);
		offered &= offered - 1;
	}
	phv->left[r] &= ~(taken << first % ASK_MAX_SLOTS);
	return 0;
}

/* Of a row, eight short tuples side by side from slot `first` on, all of which are left: there is no need to look
 * for them. */
__noinline int ask_back_add_run(struct xdp_md *ctx, __u32 task_index, __u32 r, __u32 first)
{
	const struct ask_back *back = bpf_map_lookup_elem(&backs, &task_index);
	void *map = bpf_map_lookup_elem(&back8, &task_index);
	struct ask_phv *phv = find_phv();
	struct ask_back8 *bucket[ASK_BACK_BATCH];
	const struct ask_slot *slot;
	__u32 taken = 0, j;

	if (!back || !map || !phv)
		return 0;
	ask_opaque(r);
	r %= ASK_MAX_ROWS;
	slot = slot_at((void *)(long)ctx->data, row_offset(phv, r) + first * ASK_SLOT_BYTES);
	if ((const void *)(slot + ASK_BACK_BATCH) > (const void *)(long)ctx->data_end)
		return 0;
#pragma clang loop unroll(full)
	for (j = 0; j < ASK_BACK_BATCH; j++) {
		const __u32 index = first_bucket(back, slot_key(slot + j, 1));

		bucket[j] = bpf_map_lookup_elem(map, &index);
		if (!bucket[j])
			return 0;
	}
	read_first_words(bucket);
#pragma clang loop unroll(full)
	for (j = 0; j < ASK_BACK_BATCH; j++)
		taken |= (__u32)add_tuple(back, bucket[j], slot_key(slot + j, 1), slot[j].vpart)
			 << j;
	phv->left[r] &= ~(taken << first % ASK_MAX_SLOTS);
	return 0;
}

/* All such of the short tuples in `pending`; which are not. A global function, or the verifier would go on from each
 * of the ways through it. */
__noinline int ask_back_add_runs(struct xdp_md *ctx, __u32 task_index, __u32 r, __u32 pending)
{
	__u32 i;

#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_MAX_SLOTS; i += ASK_BACK_BATCH) {
		const __u32 run = ((1u << ASK_BACK_BATCH) - 1) << i;

		if ((pending & run) != run)
			continue;
		ask_back_add_run(ctx, task_index, r, i);
		pending &= ~run;
	}
	return (int)pending;
}

__noinline int ask_back_add_shorts(struct xdp_md *ctx, __u32 task_index, __u32 r, __u32 pending)
{
	return add_held(ctx, task_index, r, pending, 0, 1);
}

__noinline int ask_back_add_pairs(struct xdp_md *ctx, __u32 task_index, __u32 r, __u32 pending,
				  __u32 first)
{
	return add_held(ctx, task_index, r, pending, first, 2);
}

/* A bitmap without its first batch. */
static __always_inline __u32 behind_batch(__u32 pending)
{
	__u32 j;

#pragma clang loop unroll(full)
	for (j = 0; j < ASK_BACK_BATCH; j++)
		pending &= pending - 1;
	return pending;
}

/* A global function, or the verifier would go through it for each row. */
__noinline int ask_back_add_row(struct xdp_md *ctx, __u32 task_index, __u32 r)
{
	const struct ask_task *task = bpf_map_lookup_elem(&tasks, &task_index);
	struct ask_phv *phv = find_phv();
	__u32 shorts, pending, i;
	__u64 left;

	if (!task || !phv)
		return 0;
	/* Linux 6.1 forgets the bound of what has been on the stack, and clang knows it. */
	ask_opaque(r);
	r %= ASK_MAX_ROWS;
	shorts = ASK_READ_ONCE(task->short_slots);
	left = ASK_READ_ONCE(phv->left[r]);
	pending = (__u32)(left & ((1ull << shorts % 64) - 1));
	pending = (__u32)ask_back_add_runs(ctx, task_index, r, pending);
#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_MAX_SLOTS / ASK_BACK_BATCH && pending; i++) {
		ask_back_add_shorts(ctx, task_index, r, pending);
		pending = behind_batch(pending);
	}
	pending = task->m == 2 ? (__u32)(left >> shorts % 64) : 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_MAX_SLOTS / ASK_BACK_BATCH && pending; i++) {
		ask_back_add_pairs(ctx, task_index, r, pending, shorts);
		pending = behind_batch(pending);
	}
	return 0;
}

/* Adds what the back level has the keys of. */
static __always_inline void add_all_held(struct xdp_md *ctx, const struct ask_task *task,
					 struct ask_phv *phv)
{
	__u32 r;

	if (task->op != ASK_OP_SUM)
		return;
#pragma clang loop unroll(disable)
	for (r = 0; r < ASK_MAX_ROWS; r++) {
		if (r >= ASK_ROWS(phv))
			break;
		if (ASK_READ_ONCE(phv->left[r]))
			ask_back_add_row(ctx, phv->task, r);
	}
}
