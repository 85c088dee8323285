/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Value streams: groups of members reduce dense vectors through the switches. The packet on the wire, and
 * what a switch keeps of a group and of a chunk. docs/protocol.md says what each field means.
 *
 * A partial is a set of members and the fold of their values. The value of (instance, stream, member,
 * seq) never changes, and no seq is used again within an instance.
 */
#pragma once
#ifdef __cplusplus
#pragma GCC system_header /* C, which C++ warnings do not understand */
#endif

#include <linux/types.h>

#include "lib/abi/check.h"
#include "lib/abi/consts.h"
#include "lib/abi/hosts.h"
#include "lib/abi/map_types.h"
#include "lib/abi/wire.h"

/*
 * ask_hdr of these types: rows is ASK_VALUES_EXTENSION, the next three bytes are the payload in blocks,
 * the stream and the level, op is enum ask_values_op, and the mark is 0.
 *   VALUE, HAVE  host, port, incarnation: the sending member's channel. Channel's port -> ASK_UDP_PORT
 *   RESULT       host, port, incarnation: 0, so its flow is the group's own. ASK_RESULT_PORT + stream ->
 *                ASK_UDP_PORT, from the collector's address, whoever made it
 *   NEED, HELD   those of the member they go to. ASK_UDP_PORT -> channel's port; no payload, blocks 0
 * Behind it: struct ask_values_ext, then the payload, lanes little-endian. The check takes the extension
 * as ASK_VALUES_EXTENSION words, and the payload in lines of ASK_VALUES_LINE_WORDS.
 */
static inline int ask_type_is_values(__u8 type)
{
	return type >= ASK_VALUE && type <= ASK_HAVE;
}

enum ask_values_op {
	ASK_VALUES_ADD64 = 0,
	ASK_VALUES_ADD32 = 1, /* wraps, as ADD64 does */
	ASK_VALUES_MIN32 = 2, /* of int32 */
	ASK_VALUES_MAX32 = 3,
	ASK_VALUES_AND64 = 4,
	ASK_VALUES_OR64 = 5,
	ASK_VALUES_XOR64 = 6,
	ASK_VALUES_OPS,
};

/* ask_hdr.flags, beside ASK_F_ECE: a partial or result has every contributor's. */
#define ASK_F_RESEND 0x02u   /* a repeat: who has the chunk says so */
#define ASK_F_ALONE 0x04u    /* not for switches: to the collector as it is */
#define ASK_F_GROUP 0x08u    /* RESULT: to all members */
#define ASK_F_COLLIDED 0x10u /* found a slot that was another's */
#define ASK_F_RANGE 0x20u    /* a value was out of range: part of the value, as all sticky ones */
#define ASK_F_STICKY ASK_F_RANGE
/* Those that a fold ORs together. */
#define ASK_F_FOLDED (ASK_F_ECE | ASK_F_COLLIDED | ASK_F_STICKY)
/* Those that VALUE and HAVE may have. */
#define ASK_F_OF_VALUE (ASK_F_FOLDED | ASK_F_RESEND | ASK_F_ALONE)

/* ask_hdr.m: how far a partial has come. */
#define ASK_LEVEL_MEMBER 0u
#define ASK_LEVEL_PARTIAL 1u /* after a switch that had all it waits for */
#define ASK_LEVEL_RESULT 2u

#define ASK_VALUES_EXTENSION 4u
#define ASK_VALUES_LINE_WORDS 64u
#define ASK_VALUES_BLOCK_BYTES 64u
#define ASK_VALUES_BLOCK_WORDS 8u
#define ASK_VALUES_MAX_BLOCKS 53u
#define ASK_VALUES_STREAMS 8u
#define ASK_MAX_MEMBERS 64u
/* A RESULT comes from this port + its stream. */
#define ASK_RESULT_PORT 49152u

ASK_STATIC_ASSERT(ASK_RESULT_PORT + ASK_VALUES_STREAMS <= 65536u, "a port for each stream");
ASK_STATIC_ASSERT(ASK_VALUES_EXTENSION <= ASK_MAX_EXTENSION,
		  "the check has keys for the extension");
ASK_STATIC_ASSERT(ASK_VALUES_MAX_BLOCKS *ASK_VALUES_BLOCK_WORDS <=
			  ASK_VALUES_LINE_WORDS * ASK_MAX_CHECK_LINES,
		  "the check has keys for the payload");

struct ask_values_ext {
	__be64 bits;  /* the set: bit i is member i; HELD, NEED: those that are missing */
	__be32 shape; /* hash of the operation, equal at all members */
	__be32 count; /* bits in the set */
};

ASK_STATIC_ASSERT(sizeof(struct ask_values_ext) == ASK_VALUES_EXTENSION * 4, "the extension");

#define ASK_VALUES_FRONT (sizeof(struct ask_hdr) + sizeof(struct ask_values_ext))

ASK_STATIC_ASSERT(ASK_VALUES_FRONT + ASK_VALUES_MAX_BLOCKS * ASK_VALUES_BLOCK_BYTES <=
			  ASK_MAX_PAYLOAD,
		  "the largest payload fits a packet");

ASK_ABI_INLINE __u8 ask_values_blocks(const struct ask_hdr *hdr)
{
	return hdr->short_slots;
}

ASK_ABI_INLINE __u8 ask_values_stream(const struct ask_hdr *hdr)
{
	return hdr->groups;
}

ASK_ABI_INLINE __u8 ask_values_level(const struct ask_hdr *hdr)
{
	return hdr->m;
}

ASK_ABI_INLINE void ask_values_set(struct ask_hdr *hdr, __u8 blocks, __u8 stream, __u8 level)
{
	hdr->rows = ASK_VALUES_EXTENSION;
	hdr->short_slots = blocks;
	hdr->groups = stream;
	hdr->m = level;
}

/*
 * Map `groups`, by the task's index: a group open here. Written while `instance` is 0, which it is again once
 * the group is closed: what slots hold of it is anybody's then.
 */
struct ask_group {
	/* The one part that programs write: the highest seq seen of each stream. 0: none, so that a group that
	 * is opened anew goes on where its members are. */
	__u64 highest[ASK_VALUES_STREAMS];
	__be64 instance;
	__u64 all;		/* its members */
	__u64 want;		/* those whose values make a chunk complete here */
	__u64 local;		/* those of whom no switch below sends partials */
	struct ask_ports above; /* by which RESULT|GROUP may come in: the collector's, or uplinks */
	__be32 collector;	/* its address: task.receiver */
	__u32 fan;		/* in `fans`, if has_fan */
	__u32 window;		/* W: seqs of a stream in flight */
	__u32 pool_first;	/* its slots in `value_slots` */
	__u32 pool_slots;	/* a power of two; 0: none, all is forwarded */
	__u8 has_fan;
	__u8 last_level; /* no switch is above: a complete chunk is a result */
	__u8 direct; /* which goes to all members from here, not by the collector; asks for a fan */
	__u8 flush; /* ATP's rule in place of HELD: what is asked for goes up as far as it has come, and its slot is free */
	__u8 pad[40];
} __attribute__((aligned(64)));

ASK_STATIC_ASSERT(sizeof(struct ask_group) == 192, "an ask_group is three cache lines");

/* ask_value_slot.own: only its owner looks at or changes the rest of a slot. Taken by a compare-and-swap,
 * given back by an exchange. A daemon that died as owner is freed by its successor. */
#define ASK_SLOT_FREE 0ull
#define ASK_SLOT_PROGRAM 1ull
#define ASK_SLOT_DAEMON 2ull

enum ask_slot_phase {
	ASK_SLOT_EMPTY = 0, /* nothing but the phase means anything */
	ASK_SLOT_OPEN = 1,  /* some of the members */
	ASK_SLOT_DONE = 2,  /* all: kept for who lost it until the slot is needed */
};

/* Map `value_slots`: one pool for all groups. Soft state: emptied by an owner at any time, it costs time and
 * never an answer. */
struct ask_value_slot {
	__u64 own;
	/* The tag, compared whole; the stream is below. */
	__be64 instance;
	__u64 seq;
	__u64 bits;    /* the set */
	__u64 touched; /* when a packet of the chunk came last, to a tick, ns of the coarse clock */
	__be32 shape;
	__u32 group; /* in `groups`: whether it still is, and its window */
	__u8 stream;
	__u8 blocks;
	__u8 op;
	__u8 flags; /* ASK_F_FOLDED ones of all that was folded */
	__u8 phase; /* enum ask_slot_phase */
	__u8 pad[3];
	__u32 tick; /* the kernel's, when `touched` was written: read once in each */
	__u32 pad2;
	__u64 words[ASK_VALUES_MAX_BLOCKS * ASK_VALUES_BLOCK_WORDS];
};

ASK_STATIC_ASSERT(sizeof(struct ask_value_slot) ==
			  64 + ASK_VALUES_MAX_BLOCKS * ASK_VALUES_BLOCK_BYTES,
		  "a slot is cache lines, and no multiple of a page");

#define ASK_DEFAULT_VALUE_SLOTS 4096u
/* An open slot that no packet of its chunk has come to for so long is anybody's, ns. */
#define ASK_SLOT_STALE 1000000000ull
/* Reads of a slot's owner before it is given up: about 10 us, several times of what a hold takes. */
#define ASK_SLOT_SPINS 4096u

/* Which of the group's slots a seq of a stream uses: a + b * seq with b odd, so no stream meets itself within
 * its slots, and two groups cross at scattered seqs. */
ASK_ABI_INLINE __u32 ask_value_place(__be64 instance, __u8 stream, __u64 seq, __u32 slots)
{
	__u64 mix = (instance ^ stream) * 0x9e3779b97f4a7c15ull;

	mix ^= mix >> 32;
	mix *= 0xd6e8feb86659fd93ull;
	return ((__u32)(mix >> 32) + ((__u32)mix | 1) * (__u32)seq) & (slots - 1);
}

/*
 * Fan-out. Map `fans`: by number, a device map of the ports that a copy leaves by, each with ask_fan_copy as
 * its program. Map `fan_members`, by ifindex: who is behind a port, a member or the next switch.
 */
#define ASK_MAX_FANS 64
#define ASK_MAX_FAN_PORTS 64

struct ask_fan_member {
	__u8 mac[6];	     /* the member's */
	__u8 port_mac[6];    /* the port's own */
	__be32 address;	     /* or number */
	struct ask_ipv6 six; /* of one with a number: its address */
};

ASK_STATIC_ASSERT(sizeof(struct ask_fan_member) == 32, "ask_fan_member has no holes");
