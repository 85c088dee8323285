/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * VAR: whole keys of up to 64 bytes with 64-bit values, in groups by the keys' length (SwitchAgg
 * section 4.2.2's payload analyser, done by the sender). The aggregators have no slots for them: the
 * back level alone takes them.
 *
 *   ask_hdr, a bitmap for each 32 records, ask_var_hdr, then the records, those of the shortest group first:
 *   __be64 value; __u64 key[1 << group];
 *
 * Bit i of the bitmaps is record i, over all groups. A sender's packet has all of its records' bits;
 * the switch clears those that it has taken, and cuts nothing. A key is its bytes as they lie in memory, zeros
 * behind them, and a word of it that is all padding is 00 00 00 00 00 00 00 01, which no key has, since
 * keys with a zero byte travel LONG: so no word of a record's key is 0. A value is of 63 bits, as an entry of
 * the back level is.
 *
 * To the check (lib/abi/check.h) the bitmaps are extension words, and lines of ASK_LONG_ROW_WORDS words
 * begin with ask_var_hdr.
 */
#pragma once
#ifdef __cplusplus
#pragma GCC system_header /* C, which C++ warnings do not understand */
#endif

#include <linux/types.h>

#include "lib/abi/consts.h"

/* Keys of 1 to 8 bytes, of 9 to 16, 17 to 32, and 33 to 64. */
#define ASK_VAR_GROUPS 4u
#define ASK_VAR_MAX_KEY 64u
#define ASK_VAR_MAX_RECORDS 128u
#define ASK_VAR_MAX_ROWS 4u /* bitmaps */

struct ask_var_hdr {
	__u8 count
		[ASK_VAR_GROUPS]; /* records of each group; together ASK_VAR_MAX_RECORDS at most, 1 at least */
	__u8 reserved[4]; /* 0 */
};

ASK_STATIC_ASSERT(sizeof(struct ask_var_hdr) == 8, "ask_var_hdr is a word of the check");

static inline __u32 ask_var_key_words(__u32 group)
{
	return 1u << group;
}

static inline __u32 ask_var_record_bytes(__u32 group)
{
	return 8u + 8u * ask_var_key_words(group);
}

/* Of a key's length alone, whatever brings it; the length is from 1 to ASK_VAR_MAX_KEY. */
static inline __u32 ask_var_group(__u32 key_bytes)
{
	return (key_bytes > 8) + (key_bytes > 16) + (key_bytes > 32);
}

static inline __u32 ask_var_records(const struct ask_var_hdr *var)
{
	return (__u32)var->count[0] + var->count[1] + var->count[2] + var->count[3];
}

static inline __u32 ask_var_rows(__u32 records)
{
	return (records + 31u) / 32u;
}

/* What follows the bitmaps. */
static inline __u32 ask_var_body_bytes(const struct ask_var_hdr *var)
{
	return (__u32)sizeof(*var) + 16u * var->count[0] + 24u * var->count[1] +
	       40u * var->count[2] + 72u * var->count[3];
}

/* The bitmap of row `row` of so many records, all of them there. */
static inline __u32 ask_var_full_row(__u32 records, __u32 row)
{
	const __u32 before = row * 32u;
	const __u32 here = records > before ? records - before : 0;

	return here >= 32u ? 0xffffffffu : (1u << here) - 1u;
}
