/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Maps of the switch program. Sizes that depend on the machine or the configuration
 * are set by the loader between open and load (bpf_map__set_max_entries): the
 * numbers here are the defaults.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "lib/abi/hosts.h"
#include "lib/abi/map_types.h"
#include "lib/abi/vlan.h"

#define ASK_DEFAULT_CHANNELS 256
#define ASK_DEFAULT_FLOWS 1024
#define ASK_DEFAULT_TASKS 64
#define ASK_DEFAULT_CPUS 64

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
	__uint(max_entries, ASK_MAX_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} ports SEC(".maps");

/* Of ports that are a bridge's, the bridge; and that bridge itself: all by ifindex. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2 * ASK_MAX_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} bridges SEC(".maps");

/* Ports that are VLANs: which one a tag means, and which tag one has. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ASK_MAX_PORTS);
	__type(key, struct ask_vlan);
	__type(value, __u32);
} vlan_in SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ASK_MAX_PORTS);
	__type(key, __u32);
	__type(value, struct ask_vlan);
} vlan_out SEC(".maps");

/* The VLAN by which the packet at hand came in; 0: by none. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} came_by_vlan SEC(".maps");

/* One entry: ASK_PORTS_*. An array's element costs next to nothing, and most switches have none of these ports. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} port_kinds SEC(".maps");

/* Numbers of the hosts with IPv6 that channels and tasks have. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ASK_DEFAULT_CHANNELS + ASK_DEFAULT_TASKS);
	__type(key, struct ask_ipv6);
	__type(value, __be32);
} hosts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ask_six);
} six_at_hand SEC(".maps");

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

/* Memory-mapped: flipping a copy index is one store. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ASK_DEFAULT_TASKS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ask_task);
} tasks SEC(".maps");

/* By number, from 1: as many as there may be tasks. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ASK_DEFAULT_TASKS + 1);
	__type(key, __u32);
	__type(value, struct ask_bucket);
} buckets SEC(".maps");

/* Memory-mapped: who flips a copy index sees here when the old copy is still. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ASK_DEFAULT_CPUS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ask_presence);
} presence SEC(".maps");
