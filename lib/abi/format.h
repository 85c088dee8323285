/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The four bytes of ask_hdr that are the service's own (offset 4: for tuples short_slots, groups,
 * m and op), as far as an end must read them before it knows the packet's task: how long a row
 * is, and whether there can be such rows at all.
 */
#pragma once

#include <linux/types.h>

#include "lib/abi/consts.h"
#include "lib/abi/wire.h"

struct ask_format {
	__u8 short_slots;
	__u8 groups;
	__u8 m;
	__u8 op;
};

ASK_STATIC_ASSERT(sizeof(struct ask_format) == 4, "ask_format is as it lies in ask_hdr");

/* 8-byte words of a row. */
static inline __u32 ask_format_row_words(struct ask_format format)
{
	__u32 groups = format.groups;

	return format.short_slots + groups * format.m;
}

/* Bits of a row's bitmap that mean something. */
static inline __u32 ask_format_bits(struct ask_format format)
{
	__u32 groups = format.groups;

	return format.short_slots + groups;
}

/* Whether a task may have such packets, of at most `rows` rows. */
static inline int ask_format_fits(struct ask_format format, __u32 rows)
{
	const __u32 least_m = format.groups == 0 ? 0 : (format.short_slots > 0 ? 2 : 1);
	const __u32 most_m = format.groups == 0 ? 0 : ASK_MAX_M;
	const __u32 bits = ask_format_bits(format);

	return format.op >= ASK_OP_SUM && format.op <= ASK_OP_MAX && bits > 0 &&
	       bits <= ASK_MAX_SLOTS && format.m >= least_m && format.m <= most_m &&
	       ask_format_row_words(format) <= ASK_MAX_AAS && rows <= ASK_MAX_ROWS &&
	       bits * rows <= ASK_MAX_TUPLES;
}
