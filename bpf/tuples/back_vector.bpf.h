/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What a program run keeps of the tuples that it offers to the back level (bpf/tuples/back.bpf.h).
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "lib/abi/back.h"
#include "lib/abi/consts.h"

/* Those groups whose keys slots have. */
#define ASK_DATA_GROUPS 2u

struct ask_back_key16 {
	__u64 word[2];
};

struct ask_back_key64 {
	__u64 word[8];
};

struct ask_back_item {
	struct ask_back_key16 key;
	__u64 hash;
	__s32 value;
	__u32 place; /* row * ASK_MAX_SLOTS + slot */
};

/* Tuples of the packet at hand, by group. Per CPU, as the packet's vector. */
struct ask_back_vector {
	struct ask_back_item item[ASK_DATA_GROUPS][ASK_MAX_TUPLES];
	__u32 count[ASK_DATA_GROUPS];
	__u32 replaces;	  /* whether some of them may be evicted ones */
	__u32 contention; /* the sender's own that other CPUs were in the way of */
	/* Of VAR, which has no other items: the key of the record at hand. */
	struct ask_back_key64 key;
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
