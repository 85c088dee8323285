/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The back level (SwitchAgg section 4): a large table behind the aggregators, for the tuples that found
 * no place there. One hash table a task and key length, shared by all CPUs and changed by
 * compare-and-swap alone; an entry that is taken stays so for the task's life.
 */
#pragma once
#ifdef __cplusplus
#pragma GCC system_header /* C, which C++ warnings do not understand */
#endif

#include <linux/types.h>

#include "lib/abi/check.h"
#include "lib/abi/consts.h"
#include "lib/abi/var.h"

/* Keys of up to 8 bytes, of 9 to 16, 17 to 32, and 33 to 64: the groups of VAR (lib/abi/var.h). */
enum ask_back_group {
	ASK_BACK_8 = 0,
	ASK_BACK_16 = 1,
	ASK_BACK_32 = 2,
	ASK_BACK_64 = 3,
};
#define ASK_BACK_GROUPS ASK_VAR_GROUPS
#define ASK_BACK8_ENTRIES 4u
#define ASK_BACK16_ENTRIES 5u
#define ASK_BACK32_ENTRIES 3u
#define ASK_BACK64_ENTRIES 3u

/* Buckets that a key may be in. */
#define ASK_BACK_CANDIDATES 3u
#define ASK_BACK_MAX_BUCKETS (1u << 26)

/*
 * A bucket of each group. A key is spelled as VAR does, whatever brought it: its bytes as they lie in memory,
 * zeros behind them, and words that are all padding as ASK_BACK_PAD_WORD. An entry without ASK_BACK_LIVE
 * in its value has no tuple, whatever else it has.
 *
 * 8:      an entry is claimed by its key, 0 being free. So no two entries have one key.
 * others: an entry is claimed by its tag, 12 bits of which the lowest is 1, and the key is stored behind that. Two
 *         CPUs that bring one key at once may claim an entry each: whoever reads adds them up. No word
 *         of a key is 0, so one that has not been seen yet is like no key's.
 */
struct ask_back8 {
	__u64 key[ASK_BACK8_ENTRIES];
	__u64 value[ASK_BACK8_ENTRIES];
} __attribute__((aligned(64)));

struct ask_back16 {
	__u64 tags;
	struct {
		__u64 key[2];
		__u64 value;
	} entry[ASK_BACK16_ENTRIES];
} __attribute__((aligned(64)));

struct ask_back32 {
	__u64 tags;
	struct {
		__u64 key[4];
		__u64 value;
	} entry[ASK_BACK32_ENTRIES];
} __attribute__((aligned(64)));

struct ask_back64 {
	__u64 tags;
	struct {
		__u64 key[8];
		__u64 value;
	} entry[ASK_BACK64_ENTRIES];
	__u64 spare[4];
} __attribute__((aligned(64)));

ASK_STATIC_ASSERT(sizeof(struct ask_back8) == 64, "a bucket is a cache line");
ASK_STATIC_ASSERT(sizeof(struct ask_back16) == 128, "a bucket is two cache lines");
ASK_STATIC_ASSERT(sizeof(struct ask_back32) == 128, "a bucket is two cache lines");
ASK_STATIC_ASSERT(sizeof(struct ask_back64) == 256, "a bucket is four cache lines");

/* 00 00 00 00 00 00 00 01 in memory. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ASK_BACK_PAD_WORD (1ull << 56)
#else
#define ASK_BACK_PAD_WORD 1ull
#endif

/* Map `backs`, by task. Written before the first packet of the task, and not again. */
struct ask_back {
	__u64 seed;			/* of its keys' hashes, drawn for it */
	__u32 buckets[ASK_BACK_GROUPS]; /* of each group; 0: it has none */
};

/* A value is a number of 63 bits and whether there is one. */
#define ASK_BACK_LIVE 1ull
#define ASK_BACK_WORD(value) ((__u64)(value) << 1 | ASK_BACK_LIVE)
#define ASK_BACK_VALUE(word) ((__s64)(word) >> 1)
#define ASK_BACK_FITS(value) (ASK_BACK_VALUE(ASK_BACK_WORD(value)) == (__s64)(value))

#define ASK_BACK_TAG_BITS 12u
#define ASK_BACK_TAG_MASK 0xfffull

/* A bijection of 64 bits in which each bit of the result hangs on all of x (MurmurHash3's last step). */
ASK_ABI_INLINE __u64 ask_back_mix(__u64 x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdull;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ull;
	return x ^ x >> 33;
}

/* A key's hash, word by word: the first gives ask_back_hash8(), each further one is added to that of those
 * before it. */
ASK_ABI_INLINE __u64 ask_back_hash8(__u64 seed, __u64 key)
{
	return ask_back_mix(key ^ seed);
}

ASK_ABI_INLINE __u64 ask_back_hash_add(__u64 hash, __u64 word)
{
	return ask_back_mix(hash + word);
}

ASK_ABI_INLINE __u64 ask_back_hash16(__u64 seed, __u64 first, __u64 second)
{
	return ask_back_hash_add(ask_back_hash8(seed, first), second);
}

/* The hash by which a key's next candidate is found. */
ASK_ABI_INLINE __u64 ask_back_next(__u64 seed, __u64 hash)
{
	return ask_back_mix(hash + (seed | 1));
}

ASK_ABI_INLINE __u32 ask_back_index(__u64 hash, __u32 count)
{
	return (__u32)((hash >> 32) * count >> 32);
}

/* Of bits that do not choose the bucket; never 0, and no branch. */
ASK_ABI_INLINE __u64 ask_back_tag(__u64 hash)
{
	return (hash | 1) & ASK_BACK_TAG_MASK;
}
