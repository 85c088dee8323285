/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * A row of a packet (ASK section 3.2.1, design section 5): one pass, AAs in rising order,
 * each touched by one read-modify-write at most, and a second where a tuple is replaced.
 */
#pragma once

#include "bpf/aggregator.bpf.h"
#include "bpf/check.bpf.h"
#include "bpf/compat.bpf.h"
#include "bpf/config.bpf.h"
#include "bpf/maps.bpf.h"
#include "bpf/replace.bpf.h"
#include "lib/abi/map_types.h"

/* Takes a slot out of its row when its tuple has been aggregated; counts why it has not. */
static __always_inline void settle(struct ask_phv *phv, __u32 r, __u32 slot,
				   enum ask_outcome outcome)
{
	if (is_aggregated(outcome))
		ASK_WRITE_ONCE(phv->left[r], ASK_READ_ONCE(phv->left[r]) & ~(1u << slot));
	else if (outcome == ASK_REPLACED)
		ASK_WRITE_ONCE(phv->replaced[r], ASK_READ_ONCE(phv->replaced[r]) | 1u << slot);
	else if (outcome == ASK_OVERFLOW)
		phv->overflow++;
	else if (outcome == ASK_CONTENTION)
		phv->contention++;
}

static __always_inline bool has_slot(const struct ask_phv *phv, __u32 r, __u32 slot)
{
	return ASK_READ_ONCE(phv->left[r]) >> slot & 1u;
}

/* The same outcome, of which the verifier does not know any more which it is. */
static __always_inline enum ask_outcome forget_outcome(struct ask_phv *phv,
						       enum ask_outcome outcome)
{
	ASK_WRITE_ONCE(phv->outcome, outcome);
	return (enum ask_outcome)ASK_READ_ONCE(phv->outcome);
}

static __always_inline void aggregate_shorts(struct xdp_md *ctx, __u32 task_index,
					     const struct ask_task *task,
					     const struct ask_copy *copy, __u32 offset,
					     struct ask_phv *phv, __u32 r, const bool replaces)
{
	void *data = (void *)(long)ctx->data;
	const void *end = (const void *)(long)ctx->data_end;
	__u32 i;

#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_MAX_SLOTS; i++) {
		const __u32 at = offset + i * ASK_SLOT_BYTES;
		const struct ask_slot *slot;
		enum ask_outcome outcome;

		if (i >= ASK_READ_ONCE(task->short_slots))
			break;
		if (!has_slot(phv, r, i))
			continue;
		slot = slot_at(data, at);
		if ((const void *)(slot + 1) > end)
			break;
		outcome = offer_short(copy, slot, i);
		if (replaces)
			outcome = forget_outcome(phv, outcome);
		if (replaces && is_weighed(phv, outcome))
			outcome = (enum ask_outcome)ask_weigh_short(ctx, task_index, copy->base, at,
								    ASK_OFFERED(i, outcome));
		settle(phv, r, i, outcome);
	}
}

/* shared: never replaced, since another CPU could see a group half changed. */
static __always_inline void aggregate_mediums(struct xdp_md *ctx, __u32 task_index,
					      const struct ask_task *task, __u32 base, __u32 offset,
					      struct ask_phv *phv, __u32 r, const bool replaces)
{
	__u32 g;

#pragma clang loop unroll(disable)
	for (g = 0; g < ASK_MAX_SLOTS; g++) {
		const __u32 i = (ASK_READ_ONCE(task->short_slots) + g) % ASK_MAX_SLOTS;
		const __u32 aa = ASK_READ_ONCE(task->short_slots) + g * ASK_READ_ONCE(task->m);
		const __u32 at = offset + aa * ASK_SLOT_BYTES;
		enum ask_outcome outcome;

		if (g >= ASK_READ_ONCE(task->groups))
			break;
		if (!has_slot(phv, r, i))
			continue;
		outcome = (enum ask_outcome)ask_offer_medium(ctx, task_index, base, at, aa);
		if (replaces && ask_memory == ASK_MEMORY_PIPELINES && is_weighed(phv, outcome))
			outcome = (enum ask_outcome)ask_weigh_medium(ctx, task_index, base, at,
								     ASK_OFFERED(aa, outcome));
		settle(phv, r, i, outcome);
	}
}

static __always_inline int aggregate_row(struct xdp_md *ctx, __u32 task_index, __u32 base,
					 __u32 offset, __u32 r, const bool replaces)
{
	const struct ask_task *task = bpf_map_lookup_elem(&tasks, &task_index);
	struct ask_phv *phv = find_phv();
	struct ask_copy copy;

	if (!phv || r >= ASK_MAX_ROWS || !task || !find_copy(task_index, task, base, &copy))
		return 0;
	aggregate_shorts(ctx, task_index, task, &copy, offset, phv, r, replaces);
	aggregate_mediums(ctx, task_index, task, base, offset, phv, r, replaces);
	return 0;
}

/*
 * One pass: offers every slot left of row `r`, at frame offset `offset`, to the aggregators
 * from `base` on; what stays left, and why, is in the packet's vector. A global function, so
 * that the verifier looks at a row once and not once per row (eight times over, it runs out
 * of its budget). What becomes of a slot is kept in memory, of which the verifier keeps
 * nothing: a variable would hold another value on every path, and Linux 6.1 follows them all.
 */
__noinline int ask_aggregate_row(struct xdp_md *ctx, __u32 task_index, __u32 base, __u32 offset,
				 __u32 r)
{
	return aggregate_row(ctx, task_index, base, offset, r, false);
}

/* The same for a task that replaces; which slots now have an evicted tuple is in the vector. A
 * function of its own: first come costs what it did without. */
__noinline int ask_aggregate_row_replacing(struct xdp_md *ctx, __u32 task_index, __u32 base,
					   __u32 offset, __u32 r)
{
	return aggregate_row(ctx, task_index, base, offset, r, true);
}
