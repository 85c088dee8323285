/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Operators, each by name, in one place. They agree with ask::apply() in lib/core.
 */
#pragma once

#include "bpf/compat.bpf.h"
#include "lib/abi/wire.h"

/* What a value half becomes; wider than it, so that a sum can leave int32. */
static __always_inline __s64 ask_apply(__u32 op, __s32 old, __s32 value)
{
	if (op == ASK_OP_MIN)
		return value < old ? value : old;
	if (op == ASK_OP_MAX)
		return value > old ? value : old;
	return (__s64)old + value;
}
