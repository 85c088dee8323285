/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Offering the records of a VAR packet (lib/abi/var.h) to the back level, as bpf/tuples/back.bpf.h does what the
 * aggregators left of DATA. Here nothing has to be gathered: records of one length lie side by side, a
 * batch is eight of them, and a sum that the back level holds already is added to where they lie.
 */
#pragma once

#include "bpf/engine/check.bpf.h"
#include "bpf/engine/compat.bpf.h"
#include "bpf/tuples/back.bpf.h"
#include "bpf/tuples/back_held.bpf.h"
#include "bpf/tuples/back_vector.bpf.h"
#include "bpf/tuples/bucket.bpf.h"
#include "bpf/tuples/maps.bpf.h"
#include "bpf/tuples/vector.bpf.h"
#include "lib/abi/back.h"
#include "lib/abi/var.h"

/* Of a group, which is a constant here throughout. */
#define ASK_KEY_WORDS(group) (1u << (group))
#define ASK_RECORD_BYTES(group) (8u + 8u * ASK_KEY_WORDS(group))

static __always_inline void *find_table(const __u32 group, __u32 task_index)
{
	switch (group) {
	case ASK_BACK_8:
		return bpf_map_lookup_elem(&back8, &task_index);
	case ASK_BACK_16:
		return bpf_map_lookup_elem(&back16, &task_index);
	case ASK_BACK_32:
		return bpf_map_lookup_elem(&back32, &task_index);
	default:
		return bpf_map_lookup_elem(&back64, &task_index);
	}
}

/* Value and key of the record at frame offset `offset`; NULL: the frame ends ahead of it, which the dispatcher has
 * ruled out. */
static __always_inline const char *record_at(const struct xdp_md *ctx, __u32 offset,
					     const __u32 group)
{
	const char *record = (const char *)slot_at((void *)(long)ctx->data, offset);

	if (record + ASK_RECORD_BYTES(group) > (const char *)(long)ctx->data_end)
		return NULL;
	return record;
}

static __always_inline __u64 key_word_at(const char *record, __u32 i)
{
	return ask_read64(record + 8 + 8 * i);
}

static __always_inline __s64 value_at(const char *record)
{
	return (__s64)bpf_be64_to_cpu(ask_read64(record));
}

static __always_inline __u64 hash_at(const char *record, const __u32 group, __u64 seed)
{
	__u64 hash = ask_back_hash8(seed, key_word_at(record, 0));
	__u32 i;

#pragma clang loop unroll(full)
	for (i = 1; i < ASK_KEY_WORDS(group); i++)
		hash = ask_back_hash_add(hash, key_word_at(record, i));
	return hash;
}

/* 1 if the back level may have a record: a value of 63 bits, and a key that a sender writes, of which no word is
 * 0; else 0, and no branch. */
static __always_inline __u64 is_fit(const char *record, const __u32 group)
{
	const __s64 value = value_at(record);
	__u64 fit = ~((__u64)value ^ (__u64)value << 1);
	__u32 i;

#pragma clang loop unroll(full)
	for (i = 0; i < ASK_KEY_WORDS(group); i++) {
		const __u64 word = key_word_at(record, i);

		fit &= word | -word;
	}
	ask_opaque(fit);
	return fit >> 63;
}

/* A batch of the records from `first` on, of which there are `count`: which of them are still in the packet, bit
 * 0 being the first. No branch, which the verifier would follow each way. */
static __always_inline __u32 pending_from(const struct ask_phv *phv, __u32 first, __u32 count)
{
	const __u32 r = first / ASK_MAX_SLOTS;
	const __u64 left = (__u64)ASK_READ_ONCE(phv->left[(r + 1) % ASK_MAX_ROWS]) << 32 |
			   ASK_READ_ONCE(phv->left[r % ASK_MAX_ROWS]);
	__u64 is_short = ((__u64)count - ASK_BACK_BATCH) >> 63;

	ask_opaque(is_short);
	count = ASK_BACK_BATCH - (ASK_BACK_BATCH - count) * (__u32)is_short;
	return (__u32)(left >> first % ASK_MAX_SLOTS) & ((1u << count) - 1);
}

static __always_inline void take_from(struct ask_phv *phv, __u32 first, __u32 taken)
{
	const __u64 bits = (__u64)taken << first % ASK_MAX_SLOTS;
	__u32 *low = &phv->left[first / ASK_MAX_SLOTS % ASK_MAX_ROWS];
	__u32 *high = &phv->left[(first / ASK_MAX_SLOTS + 1) % ASK_MAX_ROWS];

	ASK_WRITE_ONCE(*low, ASK_READ_ONCE(*low) & ~(__u32)bits);
	ASK_WRITE_ONCE(*high, ASK_READ_ONCE(*high) & ~(__u32)(bits >> 32));
}

/* Offset of record `j` of a batch at `offset`: behind the last of `count` it is the first again, whose bucket
 * costs nothing. */
static __always_inline __u32 offset_in_batch(__u32 offset, const __u32 j, __u32 count,
					     const __u32 group)
{
	__u64 is_there = ((__u64)j - count) >> 63;

	ask_opaque(is_there);
	return offset + j * ASK_RECORD_BYTES(group) * (__u32)is_there;
}

/* The entry that has a tag. One that several have, or that some have twice over, comes out as another: its key
 * is not the record's then, or there is no such entry. */
static __always_inline __u64 entry_of_tag(__u64 tags, __u64 tag, const __u32 entries)
{
	__u64 entry = 0;
	__u32 e;

#pragma clang loop unroll(full)
	for (e = 1; e < entries; e++)
		entry += e * is_same(tags >> e * ASK_BACK_TAG_BITS & ASK_BACK_TAG_MASK, tag);
	ask_opaque(entry);
	return entry;
}

/* 1 if entry and record have one key, else 0, and no branch. */
static __always_inline __u64 has_record_key(const __u64 *entry, const char *record,
					    const __u32 group)
{
	__u64 differ = 0;
	__u32 i;

#pragma clang loop unroll(full)
	for (i = 0; i < ASK_KEY_WORDS(group); i++)
		differ |= ASK_READ_ONCE(entry[i]) ^ key_word_at(record, i);
	return is_same(differ, 0);
}

/* A batch: each record's bucket and tag. */
struct ask_var_batch {
	__u64 *bucket[ASK_BACK_BATCH];
	__u32 tag[ASK_BACK_BATCH];
};

/* Asks for all buckets before the first is read, and then for each of their lines. */
static __always_inline bool look_up_batch(struct xdp_md *ctx, __u32 task_index, const __u32 group,
					  __u32 offset, __u32 count, struct ask_var_batch *batch)
{
	const struct ask_back *back = bpf_map_lookup_elem(&backs, &task_index);
	void *map = find_table(group, task_index);
	__u32 j;

	if (!back || !map)
		return false;
#pragma clang loop unroll(full)
	for (j = 0; j < ASK_BACK_BATCH; j++) {
		const char *record = record_at(ctx, offset_in_batch(offset, j, count, group),
					       group);
		__u64 hash;
		__u32 index;

		if (!record)
			return false;
		hash = hash_at(record, group, back->seed);
		index = ask_back_index(hash, back->buckets[group]);
		batch->tag[j] = (__u32)ask_back_tag(hash);
		batch->bucket[j] = bpf_map_lookup_elem(map, &index);
		if (!batch->bucket[j])
			return false;
		ask_touch(ASK_ARRAY_BACK, group, index);
	}
#pragma clang loop unroll(full)
	for (j = 0; j < ASK_BACK_BATCH; j++) {
		(void)ASK_READ_ONCE(batch->bucket[j][0]);
		if (group != ASK_BACK_8)
			(void)ASK_READ_ONCE(batch->bucket[j][8]);
		if (group == ASK_BACK_64) {
			(void)ASK_READ_ONCE(batch->bucket[j][16]);
			(void)ASK_READ_ONCE(batch->bucket[j][24]);
		}
	}
	return true;
}

/*
 * Of a batch of records, those that are done with quickest, as bpf/tuples/back_held.bpf.h has them: what is in
 * its first bucket and adds up. What is not taken stays and is offered again.
 */
static __always_inline int add_batch(struct xdp_md *ctx, __u32 task_index, const __u32 group,
				     __u32 first, __u32 offset, __u32 count)
{
	const struct ask_task *task = bpf_map_lookup_elem(&tasks, &task_index);
	struct ask_phv *phv = find_phv();
	struct ask_var_batch batch;
	__u32 pending, taken = 0, j;

	if (!task || !phv || !look_up_batch(ctx, task_index, group, offset, count, &batch))
		return 0;
	if (task->op != ASK_OP_SUM)
		return 0;
	pending = pending_from(phv, first, count);
#pragma clang loop unroll(full)
	for (j = 0; j < ASK_BACK_BATCH; j++) {
		const char *record = (const char *)slot_at((void *)(long)ctx->data,
							   offset + j * ASK_RECORD_BYTES(group));
		__u64 fits, more, entry, added;

		if (j >= count ||
		    record + ASK_RECORD_BYTES(group) > (const char *)(long)ctx->data_end)
			break;
		fits = is_fit(record, group) & pending >> j;
		more = (__u64)value_at(record) << 1;
		if (group == ASK_BACK_8) {
			added = add_to_held((struct ask_back8 *)batch.bucket[j],
					    key_word_at(record, 0), more, fits);
		} else {
			const __u32 entries = group == ASK_BACK_16 ? ASK_BACK16_ENTRIES
								   : ASK_BACK32_ENTRIES;
			__u64 *words = batch.bucket[j];

			entry = entry_of_tag(ASK_READ_ONCE(words[0]), batch.tag[j], entries);
			if (entry >= entries)
				break;
			words += ASK_BACK_ENTRY_WORD(ASK_KEY_WORDS(group), entry);
			fits &= has_record_key(words, record, group);
			added = add_to_sum(words + ASK_KEY_WORDS(group), more, fits);
		}
		taken |= (__u32)added << j;
	}
	take_from(phv, first, taken);
	return 0;
}

/* Takes a record's key into the vector; false: the back level may not have it, or the frame ends. */
static __always_inline bool read_record(struct xdp_md *ctx, const __u32 group, __u32 offset,
					struct ask_back_vector *vector, __s64 *value)
{
	const char *record = record_at(ctx, offset, group);
	__u32 i;

	if (!record || !is_fit(record, group))
		return false;
	*value = value_at(record);
#pragma clang loop unroll(full)
	for (i = 0; i < ASK_KEY_WORDS(group); i++)
		vector->key.word[i] = key_word_at(record, i);
	return true;
}

static __always_inline __u64 hash_key(const struct ask_back_key64 *key, const __u32 group,
				      __u64 seed)
{
	__u64 hash = ask_back_hash8(seed, key->word[0]);
	__u32 i;

#pragma clang loop unroll(full)
	for (i = 1; i < ASK_KEY_WORDS(group); i++)
		hash = ask_back_hash_add(hash, key->word[i]);
	return hash;
}

static __always_inline int offer_to_bucket(const __u32 group, void *bucket,
					   struct ask_back_vector *vector, __u64 hash, __u32 op,
					   __s64 value)
{
	switch (group) {
	case ASK_BACK_8:
		return ask_back_offer8(bucket, vector->key.word[0], op, value);
	case ASK_BACK_16:
		return ask_back_offer16(bucket, (struct ask_back_key16 *)&vector->key, hash, op,
					value);
	case ASK_BACK_32:
		return ask_back_offer32(bucket, &vector->key, hash, op, value);
	default:
		return ask_back_offer64(bucket, &vector->key, hash, op, value);
	}
}

/* Offers record `place`, at frame offset `offset`, to all of its candidates, one after the other. */
static __always_inline int offer_record(struct xdp_md *ctx, __u32 task_index, const __u32 group,
					__u32 place, __u32 offset)
{
	const struct ask_task *task = bpf_map_lookup_elem(&tasks, &task_index);
	const struct ask_back *back = bpf_map_lookup_elem(&backs, &task_index);
	void *map = find_table(group, task_index);
	struct ask_back_vector *vector = find_back_vector();
	struct ask_phv *phv = find_phv();
	int outcome = ASK_BACK_FULL;
	__u64 first, hash;
	__s64 value;
	__u32 c;

	if (!task || !back || !map || !vector || !phv)
		return 0;
	/* Ahead of any claim, which would stay. */
	if (!read_record(ctx, group, offset, vector, &value)) {
		vector->contention++;
		return 0;
	}
	first = hash = hash_key(&vector->key, group, back->seed);
#pragma clang loop unroll(disable)
	for (c = 0; c < ASK_BACK_CANDIDATES && outcome == ASK_BACK_FULL; c++) {
		const __u32 index = ask_back_index(hash, back->buckets[group]);
		void *bucket = bpf_map_lookup_elem(map, &index);

		/* The first was touched by the batch. */
		if (c)
			ask_touch(ASK_ARRAY_BACK, group, index);
		outcome = offer_to_bucket(group, bucket, vector, first, task->op, value);
		hash = ask_back_next(back->seed, hash);
	}
	if (outcome == ASK_BACK_ADDED)
		take_out(phv, place);
	else if (outcome == ASK_BACK_CONTENTION)
		vector->contention++;
	return 0;
}

/* Of a batch, what has stayed. */
static __always_inline int offer_rest(struct xdp_md *ctx, __u32 task_index, const __u32 group,
				      __u32 first, __u32 offset, __u32 count,
				      int (*offer_one)(struct xdp_md *, __u32, __u32, __u32))
{
	const struct ask_phv *phv = find_phv();
	__u32 pending, i;

	if (!phv)
		return 0;
	pending = pending_from(phv, first, count);
#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_BACK_BATCH; i++) {
		const __u32 j = count_bits((pending & -pending) - 1) % ASK_BACK_BATCH;

		if (!pending)
			break;
		pending &= pending - 1;
		offer_one(ctx, task_index, first + j, offset + j * ASK_RECORD_BYTES(group));
	}
	return 0;
}

/* Global functions for each group, so that the verifier looks at each once and all have a stack of their own. */
#define ASK_VAR_GROUP(bits, group)                                                            \
	__noinline int ask_var_add##bits(struct xdp_md *ctx, __u32 task_index, __u32 first,   \
					 __u32 offset, __u32 count)                           \
	{                                                                                     \
		return add_batch(ctx, task_index, group, first, offset, count);               \
	}                                                                                     \
	__noinline int ask_var_offer##bits(struct xdp_md *ctx, __u32 task_index, __u32 place, \
					   __u32 offset)                                      \
	{                                                                                     \
		return offer_record(ctx, task_index, group, place, offset);                   \
	}                                                                                     \
	__noinline int ask_var_rest##bits(struct xdp_md *ctx, __u32 task_index, __u32 first,  \
					  __u32 offset, __u32 count)                          \
	{                                                                                     \
		return offer_rest(ctx, task_index, group, first, offset, count,               \
				  ask_var_offer##bits);                                       \
	}

ASK_VAR_GROUP(8, ASK_BACK_8)
ASK_VAR_GROUP(16, ASK_BACK_16)
ASK_VAR_GROUP(32, ASK_BACK_32)
ASK_VAR_GROUP(64, ASK_BACK_64)

/* Offers `count` records of a group, batch by batch: the first is number `first` of the packet. */
static __always_inline void offer_records(struct xdp_md *ctx, __u32 task_index, const __u32 group,
					  __u32 first, __u32 offset, __u32 count,
					  int (*add)(struct xdp_md *, __u32, __u32, __u32, __u32),
					  int (*rest)(struct xdp_md *, __u32, __u32, __u32, __u32))
{
	__u32 i;

#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_VAR_MAX_RECORDS; i += ASK_BACK_BATCH) {
		const __u32 at = offset + i * ASK_RECORD_BYTES(group);

		if (i >= count)
			break;
		add(ctx, task_index, first + i, at, count - i);
		rest(ctx, task_index, first + i, at, count - i);
	}
}

/* Offers all records of the packet in the vector to the groups that the task has. */
static __always_inline void offer_var(struct xdp_md *ctx, const struct ask_back *back,
				      const struct ask_phv *phv, const struct ask_var_hdr *var)
{
	const __u32 task = phv->task;
	__u32 offset = ASK_BODY_OFFSET + ASK_ROWS(phv) * (__u32)sizeof(__be32) +
		       (__u32)sizeof(*var);
	__u32 first = 0;

#define ASK_OFFER_GROUP(bits, group)                                                               \
	do {                                                                                       \
		const __u32 records = var->count[group];                                           \
		if (back->buckets[group])                                                          \
			offer_records(ctx, task, group, first, offset, records, ask_var_add##bits, \
				      ask_var_rest##bits);                                         \
		first += records;                                                                  \
		offset += records * ASK_RECORD_BYTES(group);                                       \
	} while (0)

	ASK_OFFER_GROUP(8, ASK_BACK_8);
	ASK_OFFER_GROUP(16, ASK_BACK_16);
	ASK_OFFER_GROUP(32, ASK_BACK_32);
	ASK_OFFER_GROUP(64, ASK_BACK_64);
#undef ASK_OFFER_GROUP
}
