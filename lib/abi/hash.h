/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Which aggregator of its AA a key uses: hash(key) reduced to n. Computed by the
 * switch alone, over kParts as they lie in memory. The sender's choice of a slot
 * uses a second, independent hash (lib/tuples/key_hash.h), or all keys of a slot
 * would crowd into a part of their AA (ASK section 3.2.2).
 */
#pragma once
#ifdef __cplusplus
#pragma GCC system_header /* C, which C++ warnings do not understand */
#endif

#include <linux/types.h>

#include "lib/abi/check.h"

#define ASK_HASH_SEED 0x9e3779b9u

/* Adds one kPart to a running hash that started at ASK_HASH_SEED. */
ASK_ABI_INLINE __u32 ask_hash_add(__u32 hash, __u32 kpart)
{
	hash ^= kpart;
	hash *= 0x85ebca6bu;
	hash ^= hash >> 13;
	return hash;
}

/* Final mix and reduction to [0, n): multiply-shift instead of a division. It is the high bits
 * of the product that count, which have been mixed by then. */
ASK_ABI_INLINE __u32 ask_hash_index(__u32 hash, __u32 n)
{
	hash *= 0xc2b2ae35u;
	return (__u32)(((__u64)hash * n) >> 32);
}
