/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * A key of a packet as the back level spells it (lib/abi/back.h).
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "lib/abi/consts.h"

/* Tuples whose buckets are asked for together. */
#define ASK_BACK_BATCH 8u

/* The kPart of a medium word that is all padding. */
#define ASK_PAD_KPART bpf_htonl(ASK_PAD_LAST_BYTE)

/* All ones if there is a bit in `word`, else 0, and no branch. */
static __always_inline __u32 mask_of(__u32 word)
{
	__u64 borrow = 0 - (__u64)word;

	ask_opaque(borrow);
	return 0 - (__u32)(borrow >> 63);
}

/* Two kParts as the word of a key: padding is zeros here. */
static __always_inline __u64 key_word(__u32 low, __u32 high)
{
	return (__u64)(high & mask_of(high ^ ASK_PAD_KPART)) << 32 |
	       (low & mask_of(low ^ ASK_PAD_KPART));
}
