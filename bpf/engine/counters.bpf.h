/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Ways out. Every return of the program goes through one of these, so that exactly
 * one counter grows per packet.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/maps.bpf.h"

static __always_inline void count(__u32 reason)
{
	__u64 *value = bpf_map_lookup_elem(&counters, &reason);

	/* Per CPU, and nothing interrupts XDP on its CPU: no atomic needed. */
	if (value)
		*value += 1;
}

static __always_inline int leave_pass(__u32 reason)
{
	count(reason);
	return XDP_PASS;
}

static __always_inline int leave_drop(__u32 reason)
{
	count(reason);
	return XDP_DROP;
}

static __always_inline int leave_abort(__u32 reason)
{
	count(reason);
	return XDP_ABORTED;
}
