/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The switch program, bpf/switch.bpf.c compiled natively, for the simulator: any number of switches, each
 * with several CPUs, of which one runs at a time and may be suspended before any access to a map. One thread.
 */
#pragma once

#include <linux/types.h>
#include <stddef.h>

#include "lib/abi/back.h"
#include "lib/abi/hosts.h"
#include "lib/abi/map_types.h"
#include "lib/abi/values.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A hash map from an id of up to 16 bytes to an index. Open addressing; `entries` is mask + 1 long. */
struct sim_id {
    __u64 key[2];
    __u32 index;
    __u32 state; /* enum sim_id_state */
};
enum sim_id_state { SIM_ID_FREE = 0, SIM_ID_USED = 1, SIM_ID_ERASED = 2 };
struct sim_ids {
    struct sim_id* entries;
    __u32 mask;
};

/* An inner map: stands for itself, the program hands its address back. */
struct sim_inner {
    __u64* words;
    __u32 count;  /* entries */
    __u32 stride; /* words of an entry */
};

#define SIM_PHV_WORDS 32u

/* The maps of one switch, in memory of the caller's. */
struct sim_plane {
    __u32 memory;     /* enum ask_memory */
    __u32 dedupe_way; /* enum ask_dedupe */
    __u32 switch_id;
    __u32 mark_incarnation;
    __u32 cpus;
    __u32 max_channels;
    __u32 max_flows;
    __u32 max_tasks;
    struct sim_ids channel_ids;
    struct sim_ids flow_ids;
    struct sim_ids hosts; /* numbers by IPv6 address, network order */
    struct ask_channel* channels;
    struct ask_dedupe_state* dedupe;
    struct ask_pkt_state* pkt_state;
    struct ask_flow* flows;
    struct ask_flow_stats* flow_stats; /* [cpu][flow] */
    struct ask_task* tasks;
    struct ask_bucket* buckets; /* max_tasks + 1 */
    struct ask_presence* presence;
    __u64* counters; /* [cpu][ASK_CNT_COUNT] */
    struct sim_inner* regions;
    struct sim_inner* heats;
    struct sim_inner* carried;
    struct ask_back* backs;
    struct sim_inner* back[ASK_BACK_GROUPS];
    /* Of value streams; without groups, none of their tasks is there. */
    struct ask_group* groups; /* max_tasks, or NULL */
    struct ask_value_slot* value_slots;
    struct ask_fan_member* fan_members; /* by ifindex */
    __u32 max_value_slots;
    __u32 max_fan_members;
};

/* sim_cpu.redirected of a packet that a copy leaves of by each port of fan number sim_cpu.fan. */
#define SIM_FAN_OUT 0xffffffffu

struct sim_cpu {
    struct sim_plane* plane;
    __u32 number;
    __u32 countdown;  /* accesses until the run is suspended; 0: it is not */
    __u32 redirected; /* port that the packet was redirected to, or SIM_FAN_OUT */
    __u32 fan;
    __u32 but_ingress; /* none leaves by the port it came in on */
    __u32 pad;
    __u64 begin; /* of the frame */
    struct ask_six six;
    __u32 pad_of_six;
    __u64 phv[SIM_PHV_WORDS];
    void* back_vector; /* of sim_back_vector_bytes() */
};

struct sim_hop {
    __u32 ifindex;
    __u8 dmac[6];
    __u8 smac[6];
};

/* Provided by the simulator. Suspends the run before an access named `what`; returns once it goes on. */
void sim_suspend(struct sim_cpu* cpu, const char* what);
/* Nanoseconds. */
__u64 sim_clock(void);
/* What bpf_fib_lookup says: 0 when there is no route. */
int sim_route(const struct sim_plane* plane, __u32 daddr_be, struct sim_hop* hop);
int sim_route_six(const struct sim_plane* plane, const void* daddr, struct sim_hop* hop);

/* What a CPU needs for the tuples that it offers to a back level. */
size_t sim_back_vector_bytes(void);

/* Whose accesses the next ones are: before a run starts and before one goes on. */
void sim_switch_to(struct sim_cpu* cpu);
/* Runs the program; returns the action. What does not leave may lack its first bytes, which are as they were
 * then. */
int sim_run(struct sim_cpu* cpu, unsigned char* frame, size_t* size, __u32 ifindex);

/* Runs the program that stands behind a port of a fan, on a copy of a frame: XDP_PASS if it leaves. */
int sim_run_copy(struct sim_cpu* cpu, unsigned char* frame, size_t* size, __u32 egress);

__u32* sim_ids_find(const struct sim_ids* ids, const void* key, size_t bytes);
void sim_ids_set(struct sim_ids* ids, const void* key, size_t bytes, __u32 index);
void sim_ids_erase(struct sim_ids* ids, const void* key, size_t bytes);

#ifdef __cplusplus
}
#endif
