/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * New, seen or stale (ASK section 3.3, design section 5). One state per channel,
 * whatever the CPU.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/config.bpf.h"
#include "bpf/engine/maps.bpf.h"
#include "lib/abi/map_types.h"

enum ask_verdict {
	ASK_NEW,
	ASK_SEEN,
	ASK_STALE,
};

/*
 * tagged: a place of the window holds the highest seq that came to it. Raising it
 * and learning what it was are one compare-and-swap, so of several CPUs with the
 * same seq exactly one finds it new. A place is lost to another seq at most once
 * per try, and only to a higher one, which makes ours stale; giving up after the
 * tries is therefore never reached by a sender that keeps to its window, and says
 * stale, which the sender answers by sending again.
 */
static __always_inline enum ask_verdict dedupe_tagged(struct ask_dedupe_state *state, __u32 channel,
						      __u64 seq)
{
	__u64 *place = &state->seen[seq % ASK_WINDOW];
	__u64 old = ASK_READ_ONCE(*place);
	__u32 i;

	ask_touch(ASK_ARRAY_DEDUPE, channel, seq % ASK_WINDOW);
#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_CAS_TRIES; i++) {
		__u64 was;

		if (old == seq)
			return ASK_SEEN;
		if (old > seq)
			return ASK_STALE;
		was = ask_cas64(place, old, seq);
		if (was == old)
			return ASK_NEW;
		old = was;
	}
	return ASK_STALE;
}

/* Raises max_seq to at least seq; returns what it is then. */
static __always_inline __u64 raise_max_seq(__u64 *max_seq, __u64 seq)
{
	__u64 old = ASK_READ_ONCE(*max_seq);
	__u32 i;

#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_CAS_TRIES; i++) {
		__u64 was;

		if (old >= seq)
			return old;
		was = ask_cas64(max_seq, old, seq);
		if (was == old)
			return seq;
		old = was;
	}
	return old;
}

/*
 * compact: the paper's W bits, meaning turned over every W packets (equation 8), and
 * max_seq. Exact only while a channel's packets pass on one CPU and every seq does
 * pass: two steps, between which a delayed duplicate can slip.
 */
static __always_inline enum ask_verdict dedupe_compact(struct ask_dedupe_state *state,
						       __u32 channel, __u64 seq)
{
	__u64 *max_seq = &state->seen[ASK_WINDOW - 1];
	/* Counted from 0, so that a state of zeros has seen nothing. */
	const __u64 place = seq - 1;
	const __u64 index = place % ASK_WINDOW;
	__u64 *word = &state->seen[index / 64];
	const __u64 bit = 1ull << (index % 64);

	ask_touch(ASK_ARRAY_MAX_SEQ, channel, 0);
	if (raise_max_seq(max_seq, seq) >= seq + ASK_WINDOW)
		return ASK_STALE;
	ask_touch(ASK_ARRAY_DEDUPE, channel, index / 64);
	if ((place / ASK_WINDOW) % 2 == 0)
		return ask_fetch_or64(word, bit) & bit ? ASK_SEEN : ASK_NEW;
	return ask_fetch_and64(word, ~bit) & bit ? ASK_NEW : ASK_SEEN;
}

/* The channel's verdict on a seq; negative if the channel has no state. A global function,
 * so that what follows is verified once and not once per way through the tries. */
__noinline int ask_dedupe_packet(__u32 channel, __u64 seq)
{
	struct ask_dedupe_state *state = bpf_map_lookup_elem(&dedupe, &channel);

	if (!state)
		return -1;
	if (ask_dedupe == ASK_DEDUPE_COMPACT)
		return (int)dedupe_compact(state, channel, seq);
	return (int)dedupe_tagged(state, channel, seq);
}
