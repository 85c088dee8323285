/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Maps of the switch program. Sizes that depend on the machine or the configuration
 * are set by the loader between open and load (bpf_map__set_max_entries): the
 * numbers here are the defaults.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "lib/abi/map_types.h"

#define ASK_DEFAULT_CHANNELS 256
#define ASK_DEFAULT_FLOWS 1024
#define ASK_DEFAULT_TASKS 64
#define ASK_DEFAULT_CPUS 64

/*
 * What a program run keeps of its packet, per CPU (a Tofino's packet header vector).
 * Off the stack, which is too small, and read back from memory, so that the verifier
 * forgets the constants of each path instead of following all their combinations.
 */
#define ASK_OUTCOMES 6 /* enum ask_outcome */

struct ask_phv {
	__u32 left[ASK_MAX_ROWS];     /* bitmaps, host order: what is left of each row */
	__u32 replaced[ASK_MAX_ROWS]; /* bitmaps: which of those have an evicted tuple now */
	__u64 sums[ASK_MAX_ROWS];     /* each row's part of the check */
	__u32 rows;		      /* of the packet; at most the task's */
	__u32 aas;		      /* of the task's geometry */
	__u32 present;		      /* rows up to the last with something left */
	__u32 offered;		      /* tuples of a new packet */
	__u32 kept;		      /* of those, left in the packet */
	__u32 overflow;		      /* of those, because of int32 */
	__u32 contention;	      /* of those, because of other CPUs */
	__u32 evicted;		      /* tuples taken out of aggregators */
	__u32 heats;		      /* first heat of this CPU's set, in a task that replaces */
	__u32 bits;		      /* of all rows' bitmaps as they came */
	/* Of the row at hand, bitmaps of the slots by what became of them; those of
	 * ASK_AGGREGATED are the ones that are neither left nor here. */
	__u32 became[ASK_OUTCOMES];
	__u32 weighed; /* of those, whose outcome changes a heat or hangs on it */
	__u32 task;    /* the packet's, in `tasks` */
	/* For the program that takes over: the packet's flow, and whether it is new. */
	__u32 flow;
	__u32 is_new;
};

/* Numbers of rows and AAs: read anew at each use, so that leaving a loop over them
 * early does not tell the verifier anything that it then carries along. */
#define ASK_ROWS(phv) ASK_READ_ONCE((phv)->rows)
#define ASK_AAS(phv) ASK_READ_ONCE((phv)->aas)
#define ASK_PRESENT(phv) ASK_READ_ONCE((phv)->present)

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ask_phv);
} packet_vector SEC(".maps");

/* Whose pins these are; written once by the loader. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ask_meta);
} meta SEC(".maps");

/* One counter for every way out: enum ask_counter. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ASK_CNT_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

/* Ports that packets may be redirected to, by ifindex: those that the program is
 * attached to. Anything else goes up to the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u32);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ASK_DEFAULT_CHANNELS);
	__type(key, struct ask_channel_id);
	__type(value, __u32);
} channel_ids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ASK_DEFAULT_CHANNELS);
	__type(key, __u32);
	__type(value, struct ask_channel);
} channels SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ASK_DEFAULT_CHANNELS);
	__type(key, __u32);
	__type(value, struct ask_dedupe_state);
} dedupe SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ASK_DEFAULT_CHANNELS);
	__type(key, __u32);
	__type(value, struct ask_pkt_state);
} pkt_state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ASK_DEFAULT_FLOWS);
	__type(key, struct ask_flow_id);
	__type(value, __u32);
} flow_ids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ASK_DEFAULT_FLOWS);
	__type(key, __u32);
	__type(value, struct ask_flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ASK_DEFAULT_FLOWS);
	__type(key, __u32);
	__type(value, struct ask_flow_stats);
} flow_stats SEC(".maps");

/* Memory-mapped: flipping a copy index is one store. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ASK_DEFAULT_TASKS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ask_task);
} tasks SEC(".maps");

/* Memory-mapped: who flips a copy index sees here when the old copy is still. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ASK_DEFAULT_CPUS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ask_presence);
} presence SEC(".maps");

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
