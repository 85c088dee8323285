/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What is done to one bucket of the back level (lib/abi/back.h), whatever brought the tuple.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/tuples/back_vector.bpf.h"
#include "lib/abi/back.h"
#include "lib/abi/wire.h"

enum ask_back_outcome {
	ASK_BACK_ADDED,
	ASK_BACK_FULL,	     /* the bucket is other keys' */
	ASK_BACK_CONTENTION, /* other CPUs changed it too often */
};

/* Words of a bucket with tags: the tags, then of each entry key and value. */
#define ASK_BACK_ENTRY_WORD(words, entry) (1u + (entry) * ((words) + 1u))

#define ASK_SAME_ENTRIES(bucket, words)                                                    \
	ASK_STATIC_ASSERT(__builtin_offsetof(struct bucket, entry[1].key) ==               \
					  ASK_BACK_ENTRY_WORD(words, 1) * sizeof(__u64) && \
				  __builtin_offsetof(struct bucket, entry[1].value) ==     \
					  (ASK_BACK_ENTRY_WORD(words, 1) + (words)) *      \
						  sizeof(__u64),                           \
			  "buckets with tags differ in their keys' words alone")

ASK_SAME_ENTRIES(ask_back16, 2);
ASK_SAME_ENTRIES(ask_back32, 4);
ASK_SAME_ENTRIES(ask_back64, 8);

/* What a live value becomes; false: a sum would leave 63 bits. */
static __always_inline bool combine_wide(__u32 op, __s64 *held, __s64 value)
{
	if (op == ASK_OP_SUM) {
		/* Both are of 63 bits, so the sum does not wrap. */
		const __s64 sum = *held + value;

		if (!ASK_BACK_FITS(sum))
			return false;
		*held = sum;
	} else if (op == ASK_OP_MIN ? value < *held : value > *held) {
		*held = value;
	}
	return true;
}

/* Adds to an entry's value, the first of which is what it is; of 63 bits. A value that has no room for a sum
 * is as one that others are at: the tuple travels on. */
__noinline int ask_back_add(__u64 *word, __u32 op, __s64 value)
{
	__u64 old;
	__u32 i;

	if (!word)
		return ASK_BACK_CONTENTION;
	old = ASK_READ_ONCE(*word);
#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_CAS_TRIES; i++) {
		__s64 next = value;
		__u64 was;

		if (old & ASK_BACK_LIVE) {
			next = ASK_BACK_VALUE(old);
			if (!combine_wide(op, &next, value))
				return ASK_BACK_CONTENTION;
			if (ASK_BACK_WORD(next) == old)
				return ASK_BACK_ADDED;
		}
		was = ask_cas64(word, old, ASK_BACK_WORD(next));
		if (was == old)
			return ASK_BACK_ADDED;
		old = was;
	}
	return ASK_BACK_CONTENTION;
}

/* Entries are taken from the first on and stay, so behind a free one there is nothing. */
__noinline int ask_back_offer8(struct ask_back8 *bucket, __u64 key, __u32 op, __s64 value)
{
	__u32 e;

	if (!bucket)
		return ASK_BACK_FULL;
#pragma clang loop unroll(full)
	for (e = 0; e < ASK_BACK8_ENTRIES; e++) {
		__u64 held = ASK_READ_ONCE(bucket->key[e]);

		if (!held)
			held = ask_cas64(&bucket->key[e], 0, key) ?: key;
		if (held == key)
			return ask_back_add(&bucket->value[e], op, value);
	}
	return ASK_BACK_FULL;
}

/* The key is read anew for each entry: 6.1 has no stack left for clang to keep eight words on. */
static __always_inline bool has_key(const __u64 *entry, const __u64 *key, const __u32 words)
{
	__u64 differ = 0;
	__u32 i;

#pragma clang loop unroll(full)
	for (i = 0; i < words; i++)
		differ |= ASK_READ_ONCE(entry[i]) ^ ASK_READ_ONCE(key[i]);
	return !differ;
}

/* Who claims an entry stores its key: until that is seen, the entry is another's to everybody else. */
static __always_inline int offer_tagged(__u64 *bucket, const __u32 entries, const __u32 words,
					const __u64 *key, __u64 hash, __u32 op, __s64 value)
{
	const __u64 tag = ask_back_tag(hash);
	__u64 tags = ASK_READ_ONCE(bucket[0]);
	__u32 e, i;

#pragma clang loop unroll(full)
	for (e = 0; e < entries; e++) {
		__u64 *entry = bucket + ASK_BACK_ENTRY_WORD(words, e);
		const __u32 shift = e * ASK_BACK_TAG_BITS;

		if (!(tags >> shift & ASK_BACK_TAG_MASK)) {
			const __u64 was = ask_cas64(&bucket[0], tags, tags | tag << shift);

			if (was == tags) {
#pragma clang loop unroll(full)
				for (i = 0; i < words; i++)
					ASK_WRITE_ONCE(entry[i], ASK_READ_ONCE(key[i]));
				return ask_back_add(&entry[words], op, value);
			}
			tags = was;
			/* Of another entry only if this one was taken before it. */
			if (!(tags >> shift & ASK_BACK_TAG_MASK))
				return ASK_BACK_CONTENTION;
		}
		if ((tags >> shift & ASK_BACK_TAG_MASK) == tag && has_key(entry, key, words))
			return ask_back_add(&entry[words], op, value);
	}
	return ASK_BACK_FULL;
}

__noinline int ask_back_offer16(struct ask_back16 *bucket, const struct ask_back_key16 *key,
				__u64 hash, __u32 op, __s64 value)
{
	if (!bucket || !key)
		return ASK_BACK_FULL;
	return offer_tagged((__u64 *)bucket, ASK_BACK16_ENTRIES, 2, key->word, hash, op, value);
}

__noinline int ask_back_offer32(struct ask_back32 *bucket, const struct ask_back_key64 *key,
				__u64 hash, __u32 op, __s64 value)
{
	if (!bucket || !key)
		return ASK_BACK_FULL;
	return offer_tagged((__u64 *)bucket, ASK_BACK32_ENTRIES, 4, key->word, hash, op, value);
}

__noinline int ask_back_offer64(struct ask_back64 *bucket, const struct ask_back_key64 *key,
				__u64 hash, __u32 op, __s64 value)
{
	if (!bucket || !key)
		return ASK_BACK_FULL;
	return offer_tagged((__u64 *)bucket, ASK_BACK64_ENTRIES, 8, key->word, hash, op, value);
}
