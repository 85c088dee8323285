/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The ASK packet on the wire: Ethernet, IPv4 without options or IPv6 without
 * extension headers, UDP, ask_hdr, one bitmap per row, then the rows (DATA) or
 * the records (LONG). Everything in network order, at fixed offsets. docs/protocol.md says what each field means.
 *
 * Nothing here is packed: fields are naturally aligned within ask_hdr, which
 * itself starts at frame offset 42, or 62 over IPv6. User space reads it through memcpy.
 */
#pragma once

#include <linux/types.h>

#include "lib/abi/consts.h"

/* Of everything here and of the check (lib/abi/check.h). Agents and switches tell each other theirs. */
#define ASK_WIRE_VERSION 0xA5u

enum ask_type {
	ASK_DATA = 1, /* rows of slots, aggregated on the switch */
	ASK_LONG = 2, /* length-prefixed keys, 64-bit values; receiver only */
	ASK_ACK = 3,  /* of one seq, by the switch or the receiver */
	ASK_FIN = 4,  /* its seq is the task's last on this channel */
	ASK_VAR =
		5, /* keys of up to 64 bytes, 64-bit values; taken by the switch's back level (lib/abi/var.h) */
	/* Value streams (lib/abi/values.h). */
	ASK_VALUE = 16,	 /* a member's part of a chunk, or the fold of several */
	ASK_RESULT = 17, /* the fold of all members' */
	ASK_NEED = 18,	 /* to a member: the collector lacks its part */
	ASK_HELD = 19,	 /* to a member: its part is kept, others' are missing */
	ASK_HAVE = 20,	 /* to the collector: a result that it lacks */
};

/* Whether the switch may take some of what is in such a packet: it has bitmaps then, and a mark when it is sent on. */
static inline int ask_type_aggregates(__u8 type)
{
	return type == ASK_DATA || type == ASK_VAR;
}

/* ask_hdr.flags */
#define ASK_F_ECE 0x01u /* in an ACK: the packet it answers had ECN CE set */

enum ask_wire_op {
#define ASK_OPERATOR(NAME, Name, number, text) ASK_OP_##NAME = (number),
#include "lib/abi/operators.def"
};

struct ask_hdr {
	__u8 version;		 /*  0 */
	__u8 type;		 /*  1: enum ask_type */
	__u8 flags;		 /*  2: ASK_F_* */
	__u8 rows;		 /*  3: bitmaps that follow; 0 in LONG, ACK, FIN */
	__u8 short_slots;	 /*  4: geometry: short slots a row */
	__u8 groups;		 /*  5: geometry: medium groups a row */
	__u8 m;			 /*  6: geometry: AAs of a medium group */
	__u8 op;		 /*  7: enum ask_wire_op */
	__be64 task;		 /*  8: task instance, never used twice */
	__be32 host;		 /* 16: channel: number of the sending host */
	__be16 port;		 /* 20: channel: its UDP port there */
	__be16 mark_switch;	 /* 22: the mark: switch that aggregated, 0 none */
	__be32 incarnation;	 /* 24: of the channel */
	__be32 mark_incarnation; /* 28: the mark: incarnation of that switch */
	__be64 seq;		 /* 32: from 1 */
	__be64 check;		 /* 40: keyed check, lib/abi/check.h */
	/* __be32 bitmap[rows];	   48: bit i: slot i of that row is present */
	/* struct ask_slot[present][aas] */
};

/*
 * present: the rows that a DATA packet carries, up to the last one whose bitmap is
 * not 0. A sender's packet carries all of its rows (its last bitmap is not 0). The
 * switch moves what it leaves up into the first rows, each tuple in its own slot, cuts
 * the rows behind and leaves their bitmaps, as 0. Any other length is malformed. A trailing row that is
 * there although its bitmap is 0 is so to hosts only: the switch finds no tuple in
 * it and saves itself the look.
 */

ASK_STATIC_ASSERT(sizeof(struct ask_hdr) == 48, "ask_hdr is 48 bytes");

/* One AA's part of a row. A short tuple is one of these; a medium tuple is m of
 * them, the value in the last, 0 in the others. */
struct ask_slot {
	__u8 kpart[ASK_KPART_BYTES];
	__be32 vpart;
};

ASK_STATIC_ASSERT(sizeof(struct ask_slot) == ASK_SLOT_BYTES, "ask_slot is 8 bytes");

/*
 * LONG: ask_hdr, ask_long_hdr, then `count` records
 *   __be64 value; __be16 key_len; __u8 key[key_len];
 * back to back without alignment. A key too long for one packet travels in
 * `pieces` packets of consecutive seqs, each with count = 1 and one
 *   __be64 value; __be16 key_len; __be16 offset; __be16 piece_len; __u8 [piece_len]
 * The payload is padded with zeros to a multiple of 8 bytes, so that the switch
 * can check it word by word.
 */
struct ask_long_hdr {
	__be16 count;	 /* records in this packet */
	__be16 piece;	 /* which piece this is, from 0 */
	__be16 pieces;	 /* pieces of this key; 0: whole records */
	__be16 reserved; /* 0 */
};

ASK_STATIC_ASSERT(sizeof(struct ask_long_hdr) == 8, "ask_long_hdr is 8 bytes");

/* FIN: ask_hdr, then how much its flow has carried, of what its service counts: tuples. */
struct ask_fin {
	__be64 items;
};

ASK_STATIC_ASSERT(sizeof(struct ask_fin) == 8, "ask_fin is a word of the check");

#define ASK_LONG_RECORD_BYTES 10u
#define ASK_LONG_PIECE_BYTES 14u
