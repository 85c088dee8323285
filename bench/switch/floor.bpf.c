// SPDX-License-Identifier: Apache-2.0
//
// What the switch cannot do without: the straight line of map accesses, atomics, sums and stores that a
// packet of short slots needs when every tuple finds its key, and no decision. Geometry is fixed, loops are
// unrolled, nothing is compared. It answers the same packets in the same maps as the switch program, so that
// its cost is a floor.
#include "bpf/engine/answer.bpf.h"
#include "bpf/engine/check.bpf.h"
#include "bpf/engine/config.bpf.h"
#include "bpf/engine/dedupe.bpf.h"
#include "bpf/engine/flow.bpf.h"
#include "bpf/engine/maps.bpf.h"
#include "bpf/tuples/word.bpf.h"

#define FLOOR_SLOTS 32u

/* Parts that can be left out, to see what they cost. */
const volatile __u32 floor_check = 1;
const volatile __u32 floor_dedupe = 1;

/* Keeps an unrolled turn's loads where they stand: clang would collect those of all turns on a stack of 512
 * bytes. */
#define FLOOR_TURN(var) asm volatile("" : "+r"(var) : : "memory")

static __always_inline __u64 sum_row(const struct ask_check_key* key, const __u32* words, const __u32 slots) {
    __u64 sum = slots;

#pragma unroll
    for (__u32 w = 0; w < slots; w++) {
        sum += ask_check_nh(key->nh[2 * w], key->nh[2 * w + 1], words[2 * w], words[2 * w + 1]);
        FLOOR_TURN(sum);
    }
    return sum;
}

static __always_inline __u64 sum_packet(const struct ask_frame* frame, const struct ask_check_key* key,
                                        const __u32* bitmaps, const __u32 rows) {
    const __u32* words = bitmaps + rows;
    __u64 sum = sum_head(frame, key);

#pragma unroll
    for (__u32 r = 0; r < rows; r++) {
        sum += key->head[ASK_CHECK_EXTENSION_WORD + r] * bitmaps[r];
        sum += ask_check_line(key->line + 2 * r, sum_row(key, words + r * FLOOR_SLOTS * 2, FLOOR_SLOTS));
    }
    return ask_siphash_u64(key->sip[0], key->sip[1], sum);
}

/* Adds a tuple where the switch does, without looking whose it is. */
static __always_inline void add(__u64* at, __s32 value) {
    union ask_word word = {.whole = ASK_READ_ONCE(*at)};
    const __u64 old = word.whole;

    word.half.vpart += value;
    if (ask_memory == ASK_MEMORY_SHARED)
        ask_cas64(at, old, word.whole);
    else
        ASK_WRITE_ONCE(*at, word.whole);
}

static __always_inline int add_rows(const struct ask_copy* copy, const struct ask_slot* slots,
                                    const __u32 count) {
#pragma unroll
    for (__u32 i = 0; i < count; i++) {
        struct ask_aggregator* word;
        __u32 kpart;

        __builtin_memcpy(&kpart, slots[i].kpart, sizeof(kpart));
        word = find_aggregator(copy, i % FLOOR_SLOTS, index_of_short(copy, kpart));
        if (!word)
            return -1;
        add((__u64*)word, (__s32)bpf_ntohl(slots[i].vpart));
        FLOOR_TURN(slots);
    }
    return 0;
}

/* Look-ups that the verifier wants compared with NULL. */
struct floor_state {
    struct ask_dedupe_state* dedupe;
    struct ask_pkt_state* pkt;
    struct ask_flow_stats* stats;
    struct ask_phv* phv;
};

static __always_inline bool find_state(const struct ask_claim* claim, struct floor_state* state) {
    __u32 channel = claim->flow->channel;
    __u32 flow = claim->flow_index;

    state->dedupe = bpf_map_lookup_elem(&dedupe, &channel);
    state->pkt = bpf_map_lookup_elem(&pkt_state, &channel);
    state->stats = bpf_map_lookup_elem(&flow_stats, &flow);
    state->phv = find_phv();
    return state->dedupe && state->pkt && state->stats && state->phv;
}

static __always_inline int answer(struct xdp_md* ctx, const __u32 rows) {
    const __u32 bytes = rows * ((__u32)sizeof(__be32) + FLOOR_SLOTS * ASK_SLOT_BYTES);
    struct ask_frame frame = {};
    struct ask_claim claim = {};
    struct floor_state state;
    struct ask_copy copy;
    const __u32* bitmaps;
    __u32 set = 0;
    __u64 seq;

    if (!parse_udp(ctx, &frame) || !frame.hdr || frame.data + ASK_BODY_OFFSET + bytes > frame.end)
        return XDP_ABORTED;
    bitmaps = frame.data + ASK_BODY_OFFSET;
    find_flow(frame.hdr, &claim);
    if (!claim.flow || !claim.task || !claim.channel || !find_state(&claim, &state))
        return XDP_ABORTED;
    if (floor_check)
        state.phv->sums[0] = sum_packet(&frame, &claim.flow->key, bitmaps, rows);
    seq = bpf_be64_to_cpu(frame.hdr->seq);
    if (floor_dedupe)
        ask_cas64(&state.dedupe->seen[seq % ASK_WINDOW], state.dedupe->seen[seq % ASK_WINDOW], seq);
    if (ask_memory == ASK_MEMORY_PIPELINES)
        set = bpf_get_smp_processor_id();
    if (!find_copy(claim.flow->task, claim.task, set * FLOOR_SLOTS * claim.task->aggregators, &copy))
        return XDP_ABORTED;
    if (add_rows(&copy, (const struct ask_slot*)(bitmaps + rows), rows * FLOOR_SLOTS))
        return XDP_ABORTED;
#pragma unroll
    for (__u32 r = 0; r < rows; r++) {
        ASK_WRITE_ONCE(state.pkt->row[seq % ASK_WINDOW][r], seq << 32);
    }
    state.stats->packets_acked++;
    return leave_ack(ctx, &frame, &claim.flow->key, ASK_CNT_ack_new);
}

SEC("xdp.frags")
int floor_1(struct xdp_md* ctx) {
    return answer(ctx, 1);
}

SEC("xdp.frags")
int floor_4(struct xdp_md* ctx) {
    return answer(ctx, 4);
}

/* What feeding costs: the packet becomes an ACK in one store. */
SEC("xdp.frags")
int reflector(struct xdp_md* ctx) {
    struct ask_hdr* hdr = (void*)(long)ctx->data + ASK_HDR_OFFSET;

    if ((void*)(hdr + 1) > (void*)(long)ctx->data_end)
        return XDP_ABORTED;
    hdr->type = ASK_ACK;
    return XDP_TX;
}

char _license[] SEC("license") = "GPL";
