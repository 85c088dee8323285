/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Operators, each by name, in one place. They agree with ask::apply() in lib/tuples.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "lib/abi/wire.h"

/* Makes of a value half what it becomes; false: a sum would leave int32, and nothing changes. */
static __always_inline bool ask_apply(__u32 op, __s32 *held, __s32 value)
{
	if (op == ASK_OP_SUM) {
		__u32 old = (__u32)*held;
		__u32 other = (__u32)value;
		const __u32 sum = old + other;

		/* Both of the other sign than their sum. Hidden, or clang compares copies. */
		ask_opaque(old);
		ask_opaque(other);
		old ^= sum;
		other ^= sum;
		if ((__s32)(old & other) < 0)
			return false;
		*held = (__s32)sum;
	} else if (op == ASK_OP_MIN ? value < *held : value > *held) {
		*held = value;
	}
	return true;
}
