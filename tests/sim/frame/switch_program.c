// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/frame/switch_program.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Constants of a load, of which each switch has its own: the reads below mean these. */
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

/* The CPU that runs. */
static struct sim_cpu* here;

#define ask_memory here->plane->memory
#define ask_dedupe here->plane->dedupe_way
#define ask_switch_id here->plane->switch_id
#define ask_mark_incarnation here->plane->mark_incarnation

#include "bpf/engine/kernel.bpf.h"

static inline __attribute__((always_inline)) void* sim_lookup(const void* map, const void* key);
#undef bpf_map_lookup_elem
#define bpf_map_lookup_elem(map, key) sim_lookup(map, key)

#include "bpf/engine/fan_out.bpf.h"
#include "bpf/engine/maps.bpf.h"
#include "bpf/engine/packet.bpf.h"
#include "bpf/tuples/back_vector.bpf.h"
#include "bpf/tuples/maps.bpf.h"
#include "bpf/values/maps.bpf.h"

ASK_STATIC_ASSERT(sizeof(struct ask_packet) <= SIM_PHV_WORDS * sizeof(__u64), "the packet vector fits");

static inline void pause_before(const char* what) {
    if (here->countdown && --here->countdown == 0) {
        sim_suspend(here, what);
    }
}

static inline void* entry_of(void* entries, size_t size, __u32 index, __u32 count) {
    return index < count ? (char*)entries + index * size : NULL;
}

/* `map` is a constant in most calls, so that one branch is left of this. */
static inline __attribute__((always_inline)) void* sim_lookup(const void* map, const void* key) {
    struct sim_plane* plane = here->plane;
    __u32 index;

    if (map == &packet_vector) {
        return here->phv;
    }
    if (map == &back_vector) {
        return here->back_vector;
    }
    if (map == &channel_ids) {
        pause_before("channel_ids");
        return sim_ids_find(&plane->channel_ids, key, sizeof(struct ask_channel_id));
    }
    if (map == &flow_ids) {
        pause_before("flow_ids");
        return sim_ids_find(&plane->flow_ids, key, sizeof(struct ask_flow_id));
    }
    if (map == &hosts) {
        pause_before("hosts");
        return sim_ids_find(&plane->hosts, key, sizeof(struct ask_ipv6));
    }
    if (map == &six_at_hand) {
        return &here->six;
    }
    memcpy(&index, key, sizeof(index));
    if (map == &counters) {
        return entry_of(&plane->counters[here->number * ASK_CNT_COUNT], sizeof(__u64), index, ASK_CNT_COUNT);
    }
    if (map == &ports) {
        return here; /* all that routes lead to */
    }
    if (map == &bridges || map == &vlan_in || map == &vlan_out || map == &came_by_vlan ||
        map == &port_kinds) {
        return NULL;
    }
    if (map == &channels) {
        return entry_of(plane->channels, sizeof(*plane->channels), index, plane->max_channels);
    }
    if (map == &dedupe) {
        pause_before("dedupe");
        return entry_of(plane->dedupe, sizeof(*plane->dedupe), index, plane->max_channels);
    }
    if (map == &pkt_state) {
        pause_before("pkt_state");
        return entry_of(plane->pkt_state, sizeof(*plane->pkt_state), index, plane->max_channels);
    }
    if (map == &flows) {
        pause_before("flows");
        return entry_of(plane->flows, sizeof(*plane->flows), index, plane->max_flows);
    }
    if (map == &flow_stats) {
        return entry_of(&plane->flow_stats[(size_t)here->number * plane->max_flows],
                        sizeof(*plane->flow_stats), index, plane->max_flows);
    }
    if (map == &tasks) {
        pause_before("tasks");
        return entry_of(plane->tasks, sizeof(*plane->tasks), index, plane->max_tasks);
    }
    if (map == &buckets) {
        pause_before("buckets");
        return entry_of(plane->buckets, sizeof(*plane->buckets), index, plane->max_tasks + 1);
    }
    if (map == &presence) {
        pause_before("presence");
        return entry_of(plane->presence, sizeof(*plane->presence), index, plane->cpus);
    }
    if (map == &backs) {
        return entry_of(plane->backs, sizeof(*plane->backs), index, plane->max_tasks);
    }
    if (map == &back8 || map == &back16 || map == &back32 || map == &back64) {
        struct sim_inner* outer = plane->back[map == &back8    ? ASK_BACK_8
                                              : map == &back16 ? ASK_BACK_16
                                              : map == &back32 ? ASK_BACK_32
                                                               : ASK_BACK_64];

        return index < plane->max_tasks && outer[index].words ? &outer[index] : NULL;
    }
    if (map == &groups) {
        pause_before("groups");
        return entry_of(plane->groups, sizeof(*plane->groups), index, plane->groups ? plane->max_tasks : 0);
    }
    if (map == &value_slots) {
        pause_before("value_slots");
        return entry_of(plane->value_slots, sizeof(*plane->value_slots), index, plane->max_value_slots);
    }
    if (map == &fans) {
        here->fan = index;
        return here; /* all that are named */
    }
    if (map == &fan_members) {
        return entry_of(plane->fan_members, sizeof(*plane->fan_members), index, plane->max_fan_members);
    }
    if (map == &regions || map == &heats || map == &carried) {
        struct sim_inner* outer = map == &regions ? plane->regions
                                  : map == &heats ? plane->heats
                                                  : plane->carried;
        const __u32 count = map == &carried ? plane->max_flows : plane->max_tasks;

        pause_before(map == &regions ? "regions" : map == &heats ? "heats" : "carried");
        return index < count && outer[index].words ? &outer[index] : NULL;
    }
    {
        const struct sim_inner* inner = map;

        pause_before("a word of a region, of heats, of what is carried, or a bucket");
        return index < inner->count ? &inner->words[(size_t)index * inner->stride] : NULL;
    }
}

#include "bpf/switch.bpf.c"

long native_fib_lookup(struct bpf_fib_lookup* fib) {
    struct sim_hop hop;
    const int found = fib->family == ASK_AF_INET6 ? sim_route_six(here->plane, fib->ipv6_dst, &hop)
                                                  : sim_route(here->plane, fib->ipv4_dst, &hop);

    if (!found) {
        return BPF_FIB_LKUP_RET_NOT_FWDED;
    }
    fib->ifindex = hop.ifindex;
    memcpy(fib->dmac, hop.dmac, sizeof(hop.dmac));
    memcpy(fib->smac, hop.smac, sizeof(hop.smac));
    return BPF_FIB_LKUP_RET_SUCCESS;
}

long native_redirect_map(__u32 ifindex, __u64 flags) {
    here->redirected = flags & BPF_F_BROADCAST ? SIM_FAN_OUT : ifindex;
    here->but_ingress = (flags & BPF_F_EXCLUDE_INGRESS) != 0;
    return XDP_REDIRECT;
}

long native_adjust_tail(struct xdp_md* ctx, int delta) {
    ctx->data_end = (__u64)((__s64)ctx->data_end + delta);
    return 0;
}

/* No port here is a VLAN: there is room for what was taken off a frame. */
long native_adjust_head(struct xdp_md* ctx, int delta) {
    const __u64 data = (__u64)((__s64)ctx->data + delta);

    if (data < here->begin || data > ctx->data_end) {
        return -1;
    }
    ctx->data = data;
    return 0;
}

__u64 native_now(void) {
    return sim_clock();
}

__u32 native_cpu(void) {
    return here->number;
}

__u64 native_cas(__u64* at, __u64 old, __u64 val) {
    pause_before("compare-and-swap");
    return __sync_val_compare_and_swap(at, old, val);
}

void native_pause(void) {
    pause_before("atomic");
}

void native_touch(__u32 array, __u32 number, __u32 index) {
    static const char* const names[] = {"seen", "max_seq",     "copy index", "AA",  "PktState row",
                                        "heat", "carried row", "bucket",     "slot"};

    (void)number;
    (void)index;
    pause_before(names[array]);
}

size_t sim_back_vector_bytes(void) {
    return sizeof(struct ask_back_vector);
}

void sim_switch_to(struct sim_cpu* cpu) {
    here = cpu;
}

int sim_run(struct sim_cpu* cpu, unsigned char* frame, size_t* size, __u32 ifindex) {
    struct xdp_md ctx = {(__u64)(size_t)frame, (__u64)(size_t)(frame + *size), ifindex, 0, 0};
    int action;

    here = cpu;
    cpu->begin = ctx.data;
    action = ask_switch(&ctx);
    *size = (size_t)(ctx.data_end - cpu->begin);
    return action;
}

int sim_run_copy(struct sim_cpu* cpu, unsigned char* frame, size_t* size, __u32 egress) {
    struct xdp_md ctx = {(__u64)(size_t)frame, (__u64)(size_t)(frame + *size), 0, 0, egress};

    here = cpu;
    return ask_fan_copy(&ctx);
}

static struct sim_id pack(const void* key, size_t bytes) {
    struct sim_id id = {{0, 0}, 0, SIM_ID_USED};

    memcpy(id.key, key, bytes);
    return id;
}

static __u32 place_of(const struct sim_ids* ids, const struct sim_id* id) {
    __u64 hash = (id->key[0] ^ (id->key[1] << 1)) * 0x9e3779b97f4a7c15ull;

    return (__u32)(hash >> 32) & ids->mask;
}

static struct sim_id* find_id(const struct sim_ids* ids, const struct sim_id* id) {
    for (__u32 i = place_of(ids, id), n = 0; n <= ids->mask; i = (i + 1) & ids->mask, n++) {
        struct sim_id* entry = &ids->entries[i];

        if (entry->state == SIM_ID_FREE) {
            return NULL;
        }
        if (entry->state == SIM_ID_USED && entry->key[0] == id->key[0] && entry->key[1] == id->key[1]) {
            return entry;
        }
    }
    return NULL;
}

__u32* sim_ids_find(const struct sim_ids* ids, const void* key, size_t bytes) {
    const struct sim_id id = pack(key, bytes);
    struct sim_id* entry = find_id(ids, &id);

    return entry ? &entry->index : NULL;
}

void sim_ids_set(struct sim_ids* ids, const void* key, size_t bytes, __u32 index) {
    struct sim_id id = pack(key, bytes);
    struct sim_id* entry = find_id(ids, &id);

    id.index = index;
    for (__u32 i = place_of(ids, &id), n = 0; !entry && n <= ids->mask; i = (i + 1) & ids->mask, n++) {
        if (ids->entries[i].state != SIM_ID_USED) {
            entry = &ids->entries[i];
        }
    }
    if (!entry) {
        abort(); /* the caller keeps to the map's size */
    }
    *entry = id;
}

void sim_ids_erase(struct sim_ids* ids, const void* key, size_t bytes) {
    const struct sim_id id = pack(key, bytes);
    struct sim_id* entry = find_id(ids, &id);

    if (entry) {
        entry->state = SIM_ID_ERASED;
    }
}
