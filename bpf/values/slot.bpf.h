/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * A slot of the pool: who owns it, whose chunk is in it, and whether another may have it.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/values/maps.bpf.h"
#include "lib/abi/values.h"

/* A chunk of a group: where it is kept. */
struct ask_chunk {
	const struct ask_group *group;
	__u32 task; /* the group's number */
	__u64 seq;
	__u8 stream;
};

static __always_inline struct ask_value_slot *find_slot(const struct ask_chunk *chunk)
{
	const struct ask_group *group = chunk->group;
	const __u32 at = group->pool_first + ask_value_place(group->instance, chunk->stream,
							     chunk->seq, group->pool_slots);

	return bpf_map_lookup_elem(&value_slots, &at);
}

struct ask_spin {
	struct ask_value_slot *slot;
	bool owned;
};

/* 1: no more. */
static long spin_once(__u32 i, void *data)
{
	struct ask_spin *spin = data;
	__u64 *own = &spin->slot->own;

	(void)i;
	if (ASK_READ_ONCE(*own) != ASK_SLOT_FREE)
		return 0;
	spin->owned = ask_cas64(own, ASK_SLOT_FREE, ASK_SLOT_PROGRAM) == ASK_SLOT_FREE;
	return spin->owned;
}

/* Makes the slot this CPU's, or gives up: what is in it stays exact, and the packet travels on. A helper's loop,
 * since the verifier would go through each round of one here. */
static __always_inline bool own_slot(struct ask_value_slot *slot)
{
	struct ask_spin spin = {.slot = slot};

	if (ask_likely(ask_cas64(&slot->own, ASK_SLOT_FREE, ASK_SLOT_PROGRAM) == ASK_SLOT_FREE))
		return true;
	bpf_loop(ASK_SLOT_SPINS, spin_once, &spin, 0);
	return spin.owned;
}

static __always_inline void release_slot(struct ask_value_slot *slot)
{
	(void)ask_xchg64(&slot->own, ASK_SLOT_FREE);
}

/* The rest is for the slot's owner. */

static __always_inline bool is_chunks(const struct ask_value_slot *slot,
				      const struct ask_chunk *chunk)
{
	return slot->phase != ASK_SLOT_EMPTY && slot->seq == chunk->seq &&
	       slot->stream == chunk->stream && slot->instance == chunk->group->instance;
}

/* The clock is a call, and the number of the tick is not: most packets of a chunk come within one. */
static __always_inline void touch_slot(struct ask_value_slot *slot)
{
	const __u32 tick = (__u32)bpf_jiffies64();

	if (slot->tick == tick)
		return;
	slot->tick = tick;
	slot->touched = bpf_ktime_get_coarse_ns();
}

/* Whether nobody waits for the open chunk in the slot: its group is gone, its members are a window ahead, or
 * none of its packets has come for long, as after a late repeat of a finished one. */
static __always_inline bool is_abandoned(const struct ask_value_slot *slot)
{
	const struct ask_group *group = find_group(slot->group);
	__u64 now;

	if (!group || group->instance != slot->instance)
		return true;
	if (ASK_READ_ONCE(group->highest[slot->stream % ASK_VALUES_STREAMS]) - slot->seq >=
	    group->window)
		return true;
	now = bpf_ktime_get_coarse_ns();
	/* Another CPU's clock may be ahead. */
	return now > slot->touched && now - slot->touched > ASK_SLOT_STALE;
}

static __always_inline bool is_takeable(const struct ask_value_slot *slot)
{
	return slot->phase != ASK_SLOT_OPEN || is_abandoned(slot);
}
