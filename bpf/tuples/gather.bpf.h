/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What is left of a packet moves up into its first rows, each tuple in its own slot, so that
 * the rows behind are empty and are cut (design section 5, step 5). Whoever receives a tuple
 * asks for its slot and never for its row.
 *
 * Last of all that is done to the rows: PktState and what is carried say which tuples stay,
 * in the rows that the sender put them in. So a packet seen before, which comes with all of
 * its rows, leaves as it did at first.
 */
#pragma once

#include "bpf/engine/check.bpf.h"
#include "bpf/engine/compat.bpf.h"
#include "bpf/tuples/maps.bpf.h"
#include "bpf/tuples/vector.bpf.h"
#include "bpf/tuples/word.bpf.h"
#include "lib/abi/map_types.h"

static __always_inline __u32 count_bits(__u32 word)
{
	word -= (word >> 1) & 0x55555555u;
	word = (word & 0x33333333u) + ((word >> 2) & 0x33333333u);
	word = (word + (word >> 4)) & 0x0f0f0f0fu;
	return (word * 0x01010101u) >> 24;
}

/* By the upper five bits of a bit times a de Bruijn sequence. */
static const __u8 bit_numbers[32] = {0,	 1,  28, 2,  29, 14, 24, 3, 30, 22, 20, 15, 25, 17, 4,	8,
				     31, 27, 13, 23, 21, 19, 16, 7, 26, 12, 18, 6,  11, 5,  10, 9};

/* Which bit the only one of `bit` is; 0 if there is none. */
static __always_inline __u32 number_of_bit(__u32 bit)
{
	bit *= 0x077cb531u;
	ask_opaque(bit); /* or clang sees what this is, and counts bits */
	return bit_numbers[bit >> 27];
}

/* Where a slot is, and how long: two kinds of them, and no branch, which the verifier would follow each way
 * for every slot. */
struct ask_slot_place {
	__u32 aa;    /* its first */
	__u32 words; /* AAs */
};
static __always_inline struct ask_slot_place place_of_slot(const struct ask_task *task, __u32 slot)
{
	const __u32 more = ASK_READ_ONCE(task->m) - 1;
	const __s32 beyond = (__s32)(slot - ASK_READ_ONCE(task->short_slots));
	__u32 is_short = (__u32)(beyond >> 31);

	ask_opaque(is_short);
	return (struct ask_slot_place){.aa = slot + ((__u32)beyond & ~is_short) * more,
				       .words = 1 + (more & ~is_short)};
}

/* Copies `words` words of a slot from one frame offset to another. */
static __always_inline void copy_slot(struct xdp_md *ctx, __u32 from, __u32 to, __u32 words)
{
	void *data = (void *)(long)ctx->data;
	const void *end = (const void *)(long)ctx->data_end;
	const struct ask_slot *source = slot_at(data, from);
	struct ask_slot *target = slot_at(data, to);
	__u32 j;

#pragma clang loop unroll(disable)
	for (j = 0; j < ASK_MAX_M; j++) {
		if (j >= words || (const void *)(source + j + 1) > end ||
		    (const void *)(target + j + 1) > end)
			break;
		__builtin_memcpy(target[j].kpart, source[j].kpart, sizeof(target[j].kpart));
		target[j].vpart = source[j].vpart;
	}
}

/*
 * Moves the tuples of row `from` whose slots are free in row `to` there. A global function,
 * so that the verifier looks at two rows once and not at every two.
 */
__noinline int ask_move_up(struct xdp_md *ctx, __u32 task_index, __u32 from, __u32 to)
{
	const struct ask_task *task = bpf_map_lookup_elem(&tasks, &task_index);
	struct ask_phv *phv = find_phv();
	__u32 moved, i;

	if (!task || !phv)
		return -1;
	/* Bounded each on its own: clang makes one comparison of two. */
	from %= ASK_MAX_ROWS;
	to %= ASK_MAX_ROWS;
	moved = phv->left[from] & ~phv->left[to];
	phv->left[from] &= ~moved;
	phv->left[to] |= moved;
#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_MAX_SLOTS; i++) {
		const struct ask_slot_place slot =
			place_of_slot(task, count_bits((moved & -moved) - 1) % ASK_MAX_SLOTS);

		if (!moved)
			break;
		moved &= moved - 1;
		copy_slot(ctx, row_offset(phv, from) + slot.aa * ASK_SLOT_BYTES,
			  row_offset(phv, to) + slot.aa * ASK_SLOT_BYTES, slot.words);
	}
	return 0;
}

/* Whether any of the present rows behind `to` had tuples for it. */
static __always_inline bool fill_row(struct xdp_md *ctx, __u32 task_index,
				     const struct ask_phv *phv, __u32 to)
{
	bool moved = false;
	__u32 from;

#pragma clang loop unroll(disable)
	for (from = to + 1; from < ASK_MAX_ROWS; from++) {
		if (from >= ASK_PRESENT(phv))
			break;
		if (!(ASK_READ_ONCE(phv->left[from]) & ~ASK_READ_ONCE(phv->left[to])))
			continue;
		if (ask_move_up(ctx, task_index, from, to) < 0)
			break;
		moved = true;
	}
	return moved;
}

/* Moves up what is left of a verified DATA packet of the flow. */
__noinline int ask_gather_rows(struct xdp_md *ctx, __u32 flow_index)
{
	const struct ask_flow *flow = bpf_map_lookup_elem(&flows, &flow_index);
	struct ask_phv *phv = find_phv();
	__u32 to;

	if (!flow || !phv)
		return -1;
#pragma clang loop unroll(disable)
	for (to = 0; to < ASK_MAX_ROWS - 1; to++) {
		if (to + 1 >= ASK_PRESENT(phv))
			break;
		if (fill_row(ctx, flow->task, phv, to))
			phv->sums[to] = ask_check_line(flow->key.line + 2 * to,
						       ask_sum_words(ctx, &flow->key,
								     row_offset(phv, to),
								     ASK_AAS(phv)));
	}
	return 0;
}
