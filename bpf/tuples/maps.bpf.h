/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Maps of the tuples' service, beside the engine's (bpf/engine/maps.bpf.h), which also has the
 * numbers here from the loader.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/maps.bpf.h"
#include "lib/abi/back.h"
#include "lib/abi/map_types.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ASK_DEFAULT_CHANNELS);
	__type(key, __u32);
	__type(value, struct ask_pkt_state);
} pkt_state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ASK_DEFAULT_FLOWS);
	__type(key, __u32);
	__type(value, struct ask_flow_stats);
} flow_stats SEC(".maps");

/* Never read. clang describes in BTF only what a variable holds, and without this the
 * value type of regions would be a forward declaration. */
const volatile struct ask_aggregator ask_blank = {};

/* A region of any size: inner maps may differ in max_entries, and every look-up in them is a
 * call. The loader gives programs for one size inner maps of that size, in which the kernel
 * inlines look-ups (loader/sized_programs.h). */
struct ask_region_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__type(key, __u32);
	__type(value, struct ask_aggregator);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, ASK_DEFAULT_TASKS);
	__type(key, __u32);
	__array(values, struct ask_region_map);
} regions SEC(".maps");

/* Never read, as ask_blank. */
const volatile struct ask_heats ask_cold = {};

struct ask_heat_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_INNER_MAP);
	__type(key, __u32);
	__type(value, struct ask_heats);
};

/* Of the tasks that replace. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, ASK_DEFAULT_TASKS);
	__type(key, __u32);
	__array(values, struct ask_heat_map);
} heats SEC(".maps");

struct ask_carried_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_INNER_MAP);
	__type(key, __u32);
	__type(value, __u64);
};

/* Of the flows of those tasks. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, ASK_DEFAULT_FLOWS);
	__type(key, __u32);
	__array(values, struct ask_carried_map);
} carried SEC(".maps");

/* Of the tasks with a back level (lib/abi/back.h), by task as the next: its own maps, of any size. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ASK_DEFAULT_TASKS);
	__type(key, __u32);
	__type(value, struct ask_back);
} backs SEC(".maps");

/* Never read, as ask_blank. */
const volatile struct ask_back8 ask_blank8 = {};
const volatile struct ask_back16 ask_blank16 = {};
const volatile struct ask_back32 ask_blank32 = {};
const volatile struct ask_back64 ask_blank64 = {};

struct ask_back8_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__type(key, __u32);
	__type(value, struct ask_back8);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, ASK_DEFAULT_TASKS);
	__type(key, __u32);
	__array(values, struct ask_back8_map);
} back8 SEC(".maps");

struct ask_back16_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__type(key, __u32);
	__type(value, struct ask_back16);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, ASK_DEFAULT_TASKS);
	__type(key, __u32);
	__array(values, struct ask_back16_map);
} back16 SEC(".maps");

struct ask_back32_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__type(key, __u32);
	__type(value, struct ask_back32);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, ASK_DEFAULT_TASKS);
	__type(key, __u32);
	__array(values, struct ask_back32_map);
} back32 SEC(".maps");

struct ask_back64_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__type(key, __u32);
	__type(value, struct ask_back64);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, ASK_DEFAULT_TASKS);
	__type(key, __u32);
	__array(values, struct ask_back64_map);
} back64 SEC(".maps");

/* Programs that offer tuples to the back level: put in where they are (bpf/tuples/back_programs.bpf.h), and shared
 * by the programs that are loaded later. */
#define ASK_BACK_PROGRAM 0 /* goes on with a packet of which the aggregators left something */
#define ASK_VAR_PROGRAM 1  /* takes VAR from the dispatcher */

struct ask_back_programs {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 2);
	__uint(key_size, sizeof(__u32));
	__array(values, int(struct xdp_md *));
};

struct ask_back_programs back_programs SEC(".maps");
