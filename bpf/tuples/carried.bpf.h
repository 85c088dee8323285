/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What a packet carries of others' tuples (ASK_POLICY_REPLACE). A retransmission has the
 * sender's own tuple where the switch had put an evicted one; that is in an aggregator, and
 * the evicted one may have been lost with the packet. So the replaced slots are kept beside
 * PktState, and a packet seen before leaves with what it left with at first.
 *
 * A place of the window is taken by another packet only once the sender has the ACK of the
 * last, so nobody needs what is overwritten; a straggler that reads it meanwhile would be a
 * duplicate to the receiver, and is dropped here where the heads show it.
 */
#pragma once

#include "bpf/engine/check.bpf.h"
#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "bpf/tuples/maps.bpf.h"
#include "bpf/tuples/vector.bpf.h"
#include "lib/abi/map_types.h"

/* Moves the words of a slot, `words` from AA `aa` on: out of the frame, or back into it. */
static __always_inline void move_slot(struct xdp_md *ctx, void *map, __u32 at, __u32 offset,
				      __u32 words, bool keep)
{
	char *data = (char *)(long)ctx->data;
	const void *end = (const void *)(long)ctx->data_end;
	__u32 j;

	offset &= ASK_OFFSET_MASK;
	ask_opaque(offset);
	offset &= ASK_OFFSET_MASK;
	data += offset;
#pragma clang loop unroll(disable)
	for (j = 0; j < ASK_MAX_M; j++) {
		const __u32 index = at + j;
		__u32 *slot = (__u32 *)(data + j * ASK_SLOT_BYTES);
		__u32 *word;

		if (j >= words || (const void *)(slot + 2) > end)
			break;
		word = bpf_map_lookup_elem(map, &index);
		if (!word)
			break;
		/* Halves: a slot in the frame is aligned to 4 bytes only. */
		if (keep) {
			word[0] = slot[0];
			word[1] = slot[1];
		} else {
			slot[0] = word[0];
			slot[1] = word[1];
		}
	}
}

/* Where a row of a flow's packets is kept. */
struct ask_kept_row {
	void *map;
	const struct ask_flow *flow;
	const struct ask_task *task;
	__u64 *head;
	__u32 words;  /* index of its first word */
	__u32 offset; /* of the row in the frame */
};

static __always_inline bool find_kept_row(__u32 flow_index, __u64 seq, __u32 r,
					  const struct ask_phv *phv, struct ask_kept_row *row)
{
	const __u32 place = seq % ASK_WINDOW;
	__u32 at;

	row->flow = bpf_map_lookup_elem(&flows, &flow_index);
	row->map = bpf_map_lookup_elem(&carried, &flow_index);
	if (!row->flow || !row->map)
		return false;
	at = row->flow->task;
	row->task = bpf_map_lookup_elem(&tasks, &at);
	if (!row->task)
		return false;
	at = ask_carried_head(row->task->rows, place, r);
	row->head = bpf_map_lookup_elem(row->map, &at);
	row->words = ask_carried_word(row->task->rows, ASK_AAS(phv), place, r, 0);
	row->offset = row_offset(phv, r);
	ask_touch(ASK_ARRAY_CARRIED, r, place);
	return row->head;
}

/* Moves the slots of `bitmap`. */
static __always_inline void move_slots(struct xdp_md *ctx, const struct ask_kept_row *row,
				       __u32 bitmap, bool keep)
{
	__u32 i;

#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_MAX_SLOTS; i++) {
		const __u32 shorts = ASK_READ_ONCE(row->task->short_slots);
		const __u32 m = ASK_READ_ONCE(row->task->m);
		const __u32 aa = i < shorts ? i : shorts + (i - shorts) * m;

		if (bitmap >> i & 1u)
			move_slot(ctx, row->map, row->words + aa, row->offset + aa * ASK_SLOT_BYTES,
				  i < shorts ? 1 : m, keep);
	}
}

/* The row's part of the check, after its slots changed. */
static __always_inline void renew_sum(struct xdp_md *ctx, __u32 r, const struct ask_kept_row *row,
				      struct ask_phv *phv)
{
	/* Linux 6.1 forgets the bound of what has been on the stack, and clang knows it. */
	ask_opaque(r);
	r %= ASK_MAX_ROWS;
	phv->sums[r] =
		ask_check_line(row->flow->key.line + 2 * r,
			       ask_sum_words(ctx, &row->flow->key, row->offset, ASK_AAS(phv)));
}

/*
 * Keeps the replaced slots of row `r`. Negative: the flow has no room for them. A global
 * function, as the next, so that the verifier looks at a row once.
 */
__noinline int ask_keep_row(struct xdp_md *ctx, __u32 flow_index, __u64 seq, __u32 r)
{
	struct ask_phv *phv = find_phv();
	struct ask_kept_row row;
	__u32 bitmap;

	if (!phv || r >= ASK_MAX_ROWS || !find_kept_row(flow_index, seq, r, phv, &row))
		return -1;
	bitmap = phv->replaced[r];
	if (!bitmap) {
		ASK_WRITE_ONCE(*row.head, seq << 32);
		return 0;
	}
	/* An exchange, so that no machine lets the slots be seen before it. */
	ask_xchg64(row.head, seq << 32 | bitmap);
	move_slots(ctx, &row, bitmap, true);
	renew_sum(ctx, r, &row, phv);
	return 0;
}

/* Puts them back into a packet seen before. Negative: the row is another packet's. */
__noinline int ask_put_back_row(struct xdp_md *ctx, __u32 flow_index, __u64 seq, __u32 r)
{
	struct ask_phv *phv = find_phv();
	struct ask_kept_row row;
	__u64 head;

	if (!phv || r >= ASK_MAX_ROWS || !find_kept_row(flow_index, seq, r, phv, &row))
		return -1;
	head = ASK_READ_ONCE(*row.head);
	if (head >> 32 != (seq & 0xffffffff))
		return -1;
	if (!(__u32)head)
		return 0;
	move_slots(ctx, &row, (__u32)head, false);
	/* Ordered after what was read; a change means that it was being overwritten. */
	if (ask_fetch_or64(row.head, 0) != head)
		return -1;
	renew_sum(ctx, r, &row, phv);
	return 0;
}

/* All rows of the packet. */
__noinline int ask_keep_rows(struct xdp_md *ctx, __u32 flow_index, __u64 seq)
{
	const struct ask_phv *phv = find_phv();
	__u32 r;

	if (!phv)
		return -1;
#pragma clang loop unroll(disable)
	for (r = 0; r < ASK_MAX_ROWS; r++) {
		if (r >= ASK_ROWS(phv))
			break;
		if (ask_keep_row(ctx, flow_index, seq, r) < 0)
			return -1;
	}
	return 0;
}

__noinline int ask_put_back_rows(struct xdp_md *ctx, __u32 flow_index, __u64 seq)
{
	const struct ask_phv *phv = find_phv();
	__u32 r;

	if (!phv)
		return -1;
#pragma clang loop unroll(disable)
	for (r = 0; r < ASK_MAX_ROWS; r++) {
		if (r >= ASK_ROWS(phv))
			break;
		if (ask_put_back_row(ctx, flow_index, seq, r) < 0)
			return -1;
	}
	return 0;
}
