// SPDX-License-Identifier: Apache-2.0
#include "tests/pisa/native_switch.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Constants of a load, made variables: the reads below mean these. */
#define ask_memory unused_memory
#define ask_dedupe unused_dedupe
#define ask_switch_id unused_switch_id
#define ask_mark_incarnation unused_mark_incarnation
#include "bpf/engine/config.bpf.h"
#include "bpf/tuples/config.bpf.h"
#undef ask_memory
#undef ask_dedupe
#undef ask_switch_id
#undef ask_mark_incarnation

static struct native_config config;
#define ask_memory config.memory
#define ask_dedupe config.dedupe
#define ask_switch_id config.switch_id
#define ask_mark_incarnation config.mark_incarnation

#include "bpf/switch.bpf.c"

#define MAX_EVENTS 4096u
#define NATIVE_SLOTS 16u

struct map {
    const void* map;
    const char* name;
    __u32 key_size;
    __u32 value_size;
    __u32 entries;
    bool hash;
    unsigned char* values;
    unsigned char* keys;
    bool used[ASK_CNT_COUNT > NATIVE_TABLE_ENTRIES ? ASK_CNT_COUNT : NATIVE_TABLE_ENTRIES];
};

/* An inner map stands for itself: the program hands its address back. */
struct inner {
    __u64* words;
    __u32 count;  /* entries */
    __u32 stride; /* words of an entry */
};

struct outer {
    const void* map;
    const char* name;
    struct inner inner[NATIVE_TABLE_ENTRIES];
};

#define ARRAY_MAP(name, count)                                                            \
    {                                                                                     \
        &name, #name, sizeof(*name.key), sizeof(*name.value), count, false, NULL, NULL, { \
            false                                                                         \
        }                                                                                 \
    }
#define HASH_MAP(name, count)                                                            \
    {                                                                                    \
        &name, #name, sizeof(*name.key), sizeof(*name.value), count, true, NULL, NULL, { \
            false                                                                        \
        }                                                                                \
    }

static struct map maps[] = {
    ARRAY_MAP(packet_vector, 1),
    ARRAY_MAP(counters, ASK_CNT_COUNT),
    HASH_MAP(ports, NATIVE_TABLE_ENTRIES),
    HASH_MAP(bridges, NATIVE_TABLE_ENTRIES),
    ARRAY_MAP(port_kinds, 1),
    HASH_MAP(vlan_in, NATIVE_TABLE_ENTRIES),
    HASH_MAP(vlan_out, NATIVE_TABLE_ENTRIES),
    ARRAY_MAP(came_by_vlan, 1),
    HASH_MAP(hosts, NATIVE_TABLE_ENTRIES),
    ARRAY_MAP(six_at_hand, 1),
    HASH_MAP(channel_ids, NATIVE_TABLE_ENTRIES),
    ARRAY_MAP(channels, NATIVE_TABLE_ENTRIES),
    ARRAY_MAP(dedupe, NATIVE_TABLE_ENTRIES),
    ARRAY_MAP(pkt_state, NATIVE_TABLE_ENTRIES),
    HASH_MAP(flow_ids, NATIVE_TABLE_ENTRIES),
    ARRAY_MAP(flows, NATIVE_TABLE_ENTRIES),
    ARRAY_MAP(flow_stats, NATIVE_TABLE_ENTRIES),
    ARRAY_MAP(tasks, NATIVE_TABLE_ENTRIES),
    ARRAY_MAP(presence, ASK_DEFAULT_CPUS),
    ARRAY_MAP(buckets, NATIVE_TABLE_ENTRIES),
    ARRAY_MAP(backs, NATIVE_TABLE_ENTRIES),
    ARRAY_MAP(back_vector, 1),
    ARRAY_MAP(groups, NATIVE_TABLE_ENTRIES),
    ARRAY_MAP(value_slots, NATIVE_SLOTS),
    HASH_MAP(fan_members, NATIVE_TABLE_ENTRIES),
};
#define MAPS (sizeof(maps) / sizeof(maps[0]))

static struct outer outers[] = {
    {&regions, "regions", {{NULL, 0, 0}}}, {&heats, "heats", {{NULL, 0, 0}}},
    {&carried, "carried", {{NULL, 0, 0}}}, {&back8, "back8", {{NULL, 0, 0}}},
    {&back16, "back16", {{NULL, 0, 0}}},   {&back32, "back32", {{NULL, 0, 0}}},
    {&back64, "back64", {{NULL, 0, 0}}},   {&fans, "fans", {{NULL, 0, 0}}},
};
#define OUTERS (sizeof(outers) / sizeof(outers[0]))
static native_router route;
static native_rival rival_hook;
static struct native_event events[MAX_EVENTS];
static size_t event_count;
static __u64 room_begin;

static void record(enum native_kind kind, __u32 array, __u32 number, __u32 index) {
    if (event_count == MAX_EVENTS) {
        abort();
    }
    events[event_count++] = (struct native_event){kind, array, number, index};
}

static struct map* find_map(const char* name) {
    for (size_t i = 0; i < MAPS; i++) {
        if (strcmp(maps[i].name, name) == 0) {
            return &maps[i];
        }
    }
    abort();
}

static void* find_hashed(struct map* map, const void* key) {
    for (__u32 i = 0; i < map->entries; i++) {
        if (map->used[i] && memcmp(map->keys + (size_t)i * map->key_size, key, map->key_size) == 0) {
            return map->values + (size_t)i * map->value_size;
        }
    }
    return NULL;
}

static void* look_up(struct map* map, const void* key) {
    __u32 index;

    if (map->hash) {
        return find_hashed(map, key);
    }
    memcpy(&index, key, sizeof(index));
    if (map->map == &dedupe) {
        record(NATIVE_LOOKUP, ASK_ARRAY_DEDUPE, 0, index);
    }
    if (map->map == &pkt_state) {
        record(NATIVE_LOOKUP, ASK_ARRAY_PKT_STATE, 0, index);
    }
    return index < map->entries ? map->values + (size_t)index * map->value_size : NULL;
}

static void* look_up_inner(const void* map, __u32 index) {
    for (size_t i = 0; i < OUTERS; i++) {
        struct inner* inner = outers[i].inner;

        if (map == outers[i].map) {
            return index < NATIVE_TABLE_ENTRIES && inner[index].words ? &inner[index] : NULL;
        }
        for (__u32 j = 0; j < NATIVE_TABLE_ENTRIES; j++) {
            if (map == &inner[j]) {
                if (outers[i].map == &regions) {
                    record(NATIVE_LOOKUP, ASK_ARRAY_AA, 0, index);
                }
                return index < inner[j].count ? &inner[j].words[(size_t)index * inner[j].stride] : NULL;
            }
        }
    }
    abort();
}

void* native_map_lookup(const void* map, const void* key) {
    __u32 index;

    for (size_t i = 0; i < MAPS; i++) {
        if (maps[i].map == map) {
            return look_up(&maps[i], key);
        }
    }
    memcpy(&index, key, sizeof(index));
    return look_up_inner(map, index);
}

/* The number that the program finds for an IPv6 address is what leads there, too. */
static __u32 routed_address(const struct bpf_fib_lookup* fib) {
    const __u32* number = NULL;

    if (fib->family != ASK_AF_INET6) {
        return fib->ipv4_dst;
    }
    number = find_hashed(find_map("hosts"), fib->ipv6_dst);
    return number ? *number : 0;
}

long native_fib_lookup(struct bpf_fib_lookup* fib) {
    struct native_hop hop;

    if (!route(routed_address(fib), &hop)) {
        return BPF_FIB_LKUP_RET_NOT_FWDED;
    }
    fib->ifindex = hop.ifindex;
    memcpy(fib->dmac, hop.dmac, sizeof(hop.dmac));
    memcpy(fib->smac, hop.smac, sizeof(hop.smac));
    return BPF_FIB_LKUP_RET_SUCCESS;
}

long native_redirect_map(__u32 ifindex, __u64 flags) {
    if (flags & BPF_F_BROADCAST) {
        return XDP_REDIRECT;
    }
    return find_hashed(find_map("ports"), &ifindex) ? XDP_REDIRECT : (long)flags;
}

long native_adjust_tail(struct xdp_md* ctx, int delta) {
    if (config.refuse_resize) {
        return -1;
    }
    ctx->data_end = (__u64)((__s64)ctx->data_end + delta);
    return 0;
}

/* An Ethernet header is what the kernel leaves of a frame, at least. */
long native_adjust_head(struct xdp_md* ctx, int delta) {
    const __u64 data = (__u64)((__s64)ctx->data + delta);

    if (data < room_begin || data + sizeof(struct ethhdr) > ctx->data_end) {
        return -1;
    }
    ctx->data = data;
    return 0;
}

__u32 native_cpu(void) {
    return config.cpu;
}

__u64 native_now(void) {
    return 0;
}

__u64 native_cas(__u64* at, __u64 old, __u64 val) {
    record(NATIVE_CAS, 0, 0, 0);
    if (rival_hook) {
        rival_hook(at);
    }
    return __sync_val_compare_and_swap(at, old, val);
}

void native_pause(void) {}

void native_touch(__u32 array, __u32 number, __u32 index) {
    record(NATIVE_TOUCH, array, number, index);
}

void native_load(const struct native_config* chosen, native_router router) {
    config = *chosen;
    route = router;
    rival_hook = NULL;
    for (size_t i = 0; i < MAPS; i++) {
        struct map* map = &maps[i];

        free(map->values);
        free(map->keys);
        map->values = calloc(map->entries, map->value_size);
        map->keys = calloc(map->entries, map->key_size);
        memset(map->used, 0, sizeof(map->used));
        if (!map->values || !map->keys) {
            abort();
        }
    }
    for (size_t i = 0; i < OUTERS; i++) {
        memset(outers[i].inner, 0, sizeof(outers[i].inner));
    }
    for (size_t i = 0; i < 2; i++) {
        native_set("ports", &chosen->ports[i], &chosen->ports[i]);
    }
}

void native_set_cpu(__u32 cpu) {
    config.cpu = cpu;
}

void native_set_rival(native_rival rival) {
    rival_hook = rival;
}

void native_set(const char* name, const void* key, const void* value) {
    struct map* map = find_map(name);
    __u32 index = 0;

    if (map->hash) {
        while (index < map->entries && map->used[index]) {
            index++;
        }
    } else {
        memcpy(&index, key, sizeof(index));
    }
    if (index >= map->entries) {
        abort();
    }
    map->used[index] = true;
    memcpy(map->keys + (size_t)index * map->key_size, key, map->key_size);
    memcpy(map->values + (size_t)index * map->value_size, value, map->value_size);
}

void* native_memory(const char* name, size_t* bytes) {
    struct map* map = find_map(name);

    *bytes = (size_t)map->entries * map->value_size;
    return map->values;
}

void native_set_inner(const char* name, __u32 index, void* words, __u32 count, __u32 stride) {
    for (size_t i = 0; i < OUTERS; i++) {
        if (strcmp(outers[i].name, name) == 0) {
            outers[i].inner[index] = (struct inner){words, count, stride};
            return;
        }
    }
    abort();
}

int native_run(unsigned char* room, size_t front, size_t* size, __u32 ifindex) {
    struct xdp_md ctx = {(__u64)(size_t)(room + front), (__u64)(size_t)(room + front + *size), ifindex, 0, 0};
    int action;

    event_count = 0;
    room_begin = (__u64)(size_t)room;
    action = ask_switch(&ctx);
    *size = (size_t)(ctx.data_end - ctx.data);
    memmove(room, (void*)(size_t)ctx.data, *size);
    return action;
}

const struct native_event* native_events(size_t* count) {
    *count = event_count;
    return events;
}
