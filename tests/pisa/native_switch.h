/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The switch program as a plain function: bpf/switch.bpf.c compiled natively. One instance per process, one
 * thread.
 */
#pragma once

#include <linux/types.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct native_config {
    __u32 memory; /* enum ask_memory */
    __u32 dedupe; /* enum ask_dedupe */
    __u32 switch_id;
    __u32 mark_incarnation;
    __u32 cpu;         /* that the program believes to run on */
    __u32 ports[2];    /* interfaces that packets may be redirected to */
    int refuse_resize; /* the kernel refuses to cut packets */
};

/* What bpf_fib_lookup says: 0 when `daddr` has no route. */
struct native_hop {
    __u32 ifindex;
    __u8 dmac[6];
    __u8 smac[6];
};
typedef int (*native_router)(__u32 daddr_be, struct native_hop* hop);
/* Called before every compare-and-swap; may change the word, as another CPU would. */
typedef void (*native_rival)(__u64* at);

enum native_kind {
    NATIVE_TOUCH,  /* the program's own ask_touch() */
    NATIVE_LOOKUP, /* a register array looked up: array says which, index where */
    NATIVE_CAS,
};

struct native_event {
    enum native_kind kind;
    __u32 array; /* enum ask_array */
    __u32 number;
    __u32 index;
};

#define NATIVE_TABLE_ENTRIES 16u

/* Blanks all maps. */
void native_load(const struct native_config* config, native_router router);
void native_set_cpu(__u32 cpu);
void native_set_rival(native_rival rival);
/* Writes an entry: arrays by index, hashes by key. */
void native_set(const char* map, const void* key, const void* value);
/* Memory of all entries of an array, `bytes` long. */
void* native_memory(const char* map, size_t* bytes);
/* An inner map in a map of maps ("regions", "heats", "carried", "back8" to "back64"), of `count` entries of
 * `stride` 64-bit words each; the caller keeps the memory. */
void native_set_inner(const char* map, __u32 index, void* words, __u32 count, __u32 stride);
/* Runs the program on `*size` bytes behind `front` of room, as a driver gives; what comes out stands at
 * `room`. Returns the action. */
int native_run(unsigned char* room, size_t front, size_t* size, __u32 ifindex);
const struct native_event* native_events(size_t* count);

#ifdef __cplusplus
}
#endif
