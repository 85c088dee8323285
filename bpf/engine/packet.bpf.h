/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What a program run keeps of its packet, per CPU (a Tofino's packet header vector).
 * Off the stack, which is too small, and read back from memory, so that the verifier
 * forgets the constants of each path instead of following all their combinations.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "lib/abi/consts.h"

/* Lines of the body whose part of the check is kept. */
#define ASK_KEPT_SUMS 8u

/*
 * A service lays a structure of its own over this: what is said to be its own, and everything once
 * the packet is its. Where something lies stays as it is: programs that a successor loads run
 * behind the dispatcher that a predecessor loaded.
 */
struct ask_packet {
	__u32 extension[ASK_MAX_EXTENSION]; /* words between header and body, host order */
	__u32 own[8];			    /* the service's */
	__u64 sums[ASK_KEPT_SUMS];	    /* each line's part of the check */
	__u64 body;			    /* of all lines, their part of it */
	__u32 extensions;		    /* how many words of them the packet has */
	__u32 line_words;		    /* words of 8 bytes that a line of the body has */
	__u32 bits;			    /* that are set in any extension word */
	__u32 more[15];			    /* the service's */
	/* For the service's program: the packet's flow, and whether it is new. */
	__u32 flow;
	__u32 is_new;
};

/* is_new of a packet that the dispatcher has found no more of than its flow. */
#define ASK_UNPROVED 2u

ASK_STATIC_ASSERT(sizeof(struct ask_packet) == 216, "a predecessor's dispatcher has this size");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ask_packet);
} packet_vector SEC(".maps");

static __always_inline struct ask_packet *find_packet(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&packet_vector, &zero);
}
