/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * How many packets the tasks of one tenant may bring: a virtual clock (ITU-T I.371, GCRA), shared by all
 * CPUs. Asked once a packet has proved whose it is, or anybody could use up another's; and before
 * the dedupe notes it, so that one which is dropped here was never here.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/maps.bpf.h"
#include "lib/abi/map_types.h"

/* Takes a packet from the bucket. Two that come at once may both find room for one; idle time is
 * not saved up. The clock is a tick's, which costs a tenth of the exact one: `burst` is longer. */
static __always_inline bool is_within_rate(__u32 number)
{
	struct ask_bucket *bucket = bpf_map_lookup_elem(&buckets, &number);
	__u64 now, due, cost;

	if (!bucket)
		return true;
	now = bpf_ktime_get_coarse_ns();
	cost = ASK_READ_ONCE(bucket->cost);
	due = ASK_READ_ONCE(bucket->due);
	if (due > now + ASK_READ_ONCE(bucket->burst))
		return false;
	if (due < now && ask_cas64(&bucket->due, due, now + cost) == due)
		return true;
	ask_add_ordered64(&bucket->due, cost);
	return true;
}
