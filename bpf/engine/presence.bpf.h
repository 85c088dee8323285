/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * A word per CPU that says whether a program may still be writing to a copy that it
 * looked up (design section 8): what makes a swap wait microseconds instead of an RCU
 * grace period. Only packets of tasks with two copies pay for it.
 *
 * Entering is ordered before the read of the copy index, leaving after the last store to
 * the copy. So whoever flips the index, then finds a CPU's word at rest or moved
 * on, knows that every program there that read the old index has done all its stores
 * (tests/models).
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/maps.bpf.h"
#include "lib/abi/map_types.h"

/* NULL if the CPU has no word, which cannot be: there is one per possible CPU. */
static __always_inline struct ask_presence *enter_copy(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct ask_presence *here = bpf_map_lookup_elem(&presence, &cpu);

	if (here)
		ask_add_ordered64(&here->word, ASK_PRESENCE_ENTER);
	return here;
}

/* Only this CPU changes its word, and what interrupts us leaves as deep as it came. */
static __always_inline void leave_copy(struct ask_presence *here)
{
	const __u64 word = ASK_READ_ONCE(here->word);

	if ((word & ASK_PRESENCE_DEPTH) == 1)
		ask_add_ordered64(&here->word, ASK_PRESENCE_LEAVE_LAST);
	else
		ask_add_ordered64(&here->word, ASK_PRESENCE_LEAVE_INNER);
}
