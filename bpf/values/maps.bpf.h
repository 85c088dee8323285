/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Maps of the values' service: sizes as in bpf/engine/maps.bpf.h.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/maps.bpf.h"
#include "lib/abi/values.h"

/* By task. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ASK_DEFAULT_TASKS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ask_group);
} groups SEC(".maps");

/* Memory-mapped: a daemon that empties a slot owns it first, as programs do. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ASK_DEFAULT_VALUE_SLOTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ask_value_slot);
} value_slots SEC(".maps");

static __always_inline struct ask_group *find_group(__u32 task)
{
	return bpf_map_lookup_elem(&groups, &task);
}
