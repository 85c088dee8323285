/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What a program run keeps of the tuples that it offers to the back level (bpf/tuples/back.bpf.h).
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "lib/abi/back.h"
#include "lib/abi/consts.h"

struct ask_back_item {
	__u64 key[2];
	__u64 hash;
	__s32 value;
	__u32 place; /* row * ASK_MAX_SLOTS + slot */
};

/* Tuples of the packet at hand, by group. Per CPU, as the packet's vector. */
struct ask_back_vector {
	struct ask_back_item item[ASK_BACK_GROUPS][ASK_MAX_TUPLES];
	__u32 count[ASK_BACK_GROUPS];
	__u32 replaces;	  /* whether some of them may be evicted ones */
	__u32 contention; /* the sender's own that other CPUs were in the way of */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ask_back_vector);
} back_vector SEC(".maps");

static __always_inline struct ask_back_vector *find_back_vector(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&back_vector, &zero);
}
