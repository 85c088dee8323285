/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * A packet's payload and a slot's words, by whoever owns the slot. Words of 64 bits whatever the lanes are, and
 * no branch on a lane, which the verifier would follow both ways. Words beyond the frame end a loop: the
 * length has been checked, so that never happens. Global functions, so that the verifier looks at each once.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/tuples/vector.bpf.h"
#include "bpf/values/format.bpf.h"
#include "lib/abi/values.h"

/* The words of a slot, as the native build counts their accesses: behind the tuples' arrays. */
#define ASK_ARRAY_SLOT ((__u32)ASK_ARRAY_TUPLES_END)

/* Of 32-bit lanes, the highest bit of each. */
#define ASK_LANE_SIGNS 0x8000000080000000ull

/* Two sums that wrap each on its own: the highest bits are added without their carries. */
static __always_inline __u64 add_lanes(__u64 a, __u64 b)
{
	return ((a & ~ASK_LANE_SIGNS) + (b & ~ASK_LANE_SIGNS)) ^ ((a ^ b) & ASK_LANE_SIGNS);
}

/* The lesser of two int32. */
static __always_inline __s64 least_lane(__s64 a, __s64 b)
{
	const __s64 difference = a - b;
	__s64 negative = difference >> 63;

	ask_opaque(negative);
	return b + (difference & negative);
}

static __always_inline __u64 least_lanes(__u64 a, __u64 b)
{
	const __s64 high = least_lane((__s64)a >> 32, (__s64)b >> 32);
	const __s64 low = least_lane((__s64)(a << 32) >> 32, (__s64)(b << 32) >> 32);

	return (__u64)high << 32 | (__u32)low;
}

/* `op` is a constant. The greater of two is what is least of their complements, and OR is AND of them: one
 * loop for each pair, with `flip` all ones for the second of it. */
static __always_inline __u64 fold_word(const __u32 op, __u64 flip, __u64 a, __u64 b)
{
	switch (op) {
	case ASK_VALUES_ADD64:
		return a + b;
	case ASK_VALUES_ADD32:
		return add_lanes(a, b);
	case ASK_VALUES_MIN32:
		return least_lanes(a ^ flip, b ^ flip) ^ flip;
	case ASK_VALUES_AND64:
		return ((a ^ flip) & (b ^ flip)) ^ flip;
	default:
		return a ^ b;
	}
}

static __always_inline void fold_blocks(struct xdp_md *ctx, struct ask_value_slot *slot,
					const __u32 op, __u64 flip, __u32 blocks)
{
	const __u64 *word = (const void *)((const char *)(long)ctx->data + ASK_VALUES_BODY_OFFSET);
	const void *end = (const void *)(long)ctx->data_end;
	__u64 *sum = slot->words;
	__u32 i, j;

#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_VALUES_MAX_BLOCKS; i++) {
		if (i >= blocks || (const void *)(word + ASK_VALUES_BLOCK_WORDS) > end)
			break;
		ask_touch(ASK_ARRAY_SLOT, 0, i);
#pragma clang loop unroll(full)
		for (j = 0; j < ASK_VALUES_BLOCK_WORDS; j++)
			sum[j] = fold_word(op, flip, sum[j], word[j]);
		word += ASK_VALUES_BLOCK_WORDS;
		sum += ASK_VALUES_BLOCK_WORDS;
	}
}

/* Folds the payload, of so many blocks, into the slot. */
__noinline int ask_fold(struct xdp_md *ctx, struct ask_value_slot *slot, __u32 op, __u32 blocks)
{
	if (!slot)
		return 0;
	if (op == ASK_VALUES_ADD64)
		fold_blocks(ctx, slot, ASK_VALUES_ADD64, 0, blocks);
	else if (op == ASK_VALUES_ADD32)
		fold_blocks(ctx, slot, ASK_VALUES_ADD32, 0, blocks);
	else if (op == ASK_VALUES_MIN32 || op == ASK_VALUES_MAX32)
		fold_blocks(ctx, slot, ASK_VALUES_MIN32, op == ASK_VALUES_MIN32 ? 0 : ~0ull,
			    blocks);
	else if (op == ASK_VALUES_AND64 || op == ASK_VALUES_OR64)
		fold_blocks(ctx, slot, ASK_VALUES_AND64, op == ASK_VALUES_AND64 ? 0 : ~0ull,
			    blocks);
	else
		fold_blocks(ctx, slot, ASK_VALUES_XOR64, 0, blocks);
	return 0;
}

/* Copies the payload into the slot, or with `out` the other way. */
static __always_inline void copy_blocks(struct xdp_md *ctx, struct ask_value_slot *slot,
					__u32 blocks, const bool out)
{
	__u64 *word = (void *)((char *)(long)ctx->data + ASK_VALUES_BODY_OFFSET);
	const void *end = (const void *)(long)ctx->data_end;
	__u64 *kept = slot->words;
	__u32 i, j;

#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_VALUES_MAX_BLOCKS; i++) {
		if (i >= blocks || (const void *)(word + ASK_VALUES_BLOCK_WORDS) > end)
			break;
		ask_touch(ASK_ARRAY_SLOT, 0, i);
#pragma clang loop unroll(full)
		for (j = 0; j < ASK_VALUES_BLOCK_WORDS; j++) {
			if (out)
				word[j] = kept[j];
			else
				kept[j] = word[j];
		}
		word += ASK_VALUES_BLOCK_WORDS;
		kept += ASK_VALUES_BLOCK_WORDS;
	}
}

__noinline int ask_copy_in(struct xdp_md *ctx, struct ask_value_slot *slot, __u32 blocks)
{
	if (slot)
		copy_blocks(ctx, slot, blocks, false);
	return 0;
}

__noinline int ask_copy_out(struct xdp_md *ctx, struct ask_value_slot *slot, __u32 blocks)
{
	if (slot)
		copy_blocks(ctx, slot, blocks, true);
	return 0;
}
