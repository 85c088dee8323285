/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Numbers that both the BPF programs and user space must agree on. Sizes that a
 * user may choose (slots, groups, m, rows, aggregators) are not here: they come
 * with each task; here are only their upper limits.
 */
#pragma once

/* C and C++ spell it differently. */
#ifdef __cplusplus
#define ASK_STATIC_ASSERT static_assert
#else
#define ASK_STATIC_ASSERT _Static_assert
#endif

#define ASK_ABI_VERSION 13u

/* UDP destination port of DATA, VAR, LONG and FIN, source port of ACK. */
#define ASK_UDP_PORT 4790u
/* A channel's UDP port is ASK_CHANNEL_PORT_BASE + its number on its host. */
#define ASK_CHANNEL_PORT_BASE 49152u
#define ASK_MAX_CHANNELS_PER_HOST 1024u

/* Ports that a switch may have. */
#define ASK_MAX_PORTS 1024u

/* Ports of a switch that one channel's packets may come in by. */
#define ASK_CHANNEL_PORTS 8u

/* W of the paper (section 3.3): packets in flight per channel, and places in
 * the dedupe state. A power of two. The simulator also runs with a small one. */
#ifndef ASK_WINDOW
#define ASK_WINDOW 256u
#endif

#define ASK_MAX_ROWS 8u		       /* rows a packet may carry */
#define ASK_MAX_SLOTS 32u	       /* slots a row may have: one 32-bit bitmap */
#define ASK_MAX_AAS 64u		       /* aggregator arrays a row may feed */
#define ASK_MAX_M 4u		       /* AAs of a medium group */
#define ASK_MAX_TUPLES 128u	       /* slots x rows */
#define ASK_KPART_BYTES 4u	       /* key bytes an aggregator holds */
#define ASK_SLOT_BYTES 8u	       /* kPart and vPart on the wire, per AA */
#define ASK_MAX_AGGREGATORS (1u << 24) /* per AA */

/* Longest key, in bytes: its length travels in 16 bits. */
#define ASK_MAX_KEY 65535u

/* Longest UDP payload of any ASK packet: what is one piece of a page for native XDP (MTU 3506). */
#define ASK_MAX_PAYLOAD 3478u
/* The same where links carry more than that: with its headers within the shortest first buffer that
 * drivers have for long frames (3072 bytes: i40e, ice). */
#define ASK_MAX_JUMBO_PAYLOAD 3030u
/* Words (8 bytes) that are a line of a LONG packet. */
#define ASK_LONG_ROW_WORDS 32u

/* The keyed check (lib/abi/check.h) has keys for so many 32-bit words between header and body, and
 * for a body of so many lines of so many 8-byte words. */
#define ASK_MAX_EXTENSION 8u
#define ASK_MAX_CHECK_LINES 16u
#define ASK_MAX_LINE_WORDS 64u

/* kPart of a medium word that is all padding: bytes 00 00 00 01, which no
 * medium key can contain because keys with a zero byte travel LONG. */
#define ASK_PAD_LAST_BYTE 1u

/* How aggregators are kept exact (design section 5). */
enum ask_memory {
	ASK_MEMORY_PIPELINES = 0, /* a register set per CPU, plain updates */
	ASK_MEMORY_SHARED = 1,	  /* one set, compare-and-swap */
};

/* How the switch tells new, seen and stale apart (design section 5). */
enum ask_dedupe {
	ASK_DEDUPE_TAGGED = 0,	/* a word per window place: highest seq */
	ASK_DEDUPE_COMPACT = 1, /* the paper's one-bit seen and max_seq */
};

enum ask_policy {
#define ASK_POLICY(NAME, Name, number, text, meaning) ASK_POLICY_##NAME = (number),
#include "lib/abi/policies.def"
};

/* Services of a switch: ask_task.service. Each has so many programs that take its packets, of which
 * the first is always there; the tuples' others are for regions of one size each. */
#define ASK_SERVICE_TUPLES 0u
#define ASK_SERVICE_VALUES 1u
#define ASK_SERVICE_PROGRAMS 16u

/*
 * ASK_POLICY_REPLACE: an aggregator is as hot as its key was busy lately. Taken, its heat is
 * 1; a tuple of its key, in one row of ASK_HEAT_EVERY, makes it as hot as can be; a tuple of
 * another key takes 1 off, and who finds 0 takes the place. docs/decisions/0004 has what this
 * was chosen from.
 */
#define ASK_HEAT_TAKEN 1u
#define ASK_HEAT_HIT 15u
#define ASK_HEAT_EVERY 4u

/* Whether the tuples of a packet's row heat their aggregators. */
#define ASK_ROW_HEATS(seq, row) (((seq) + (row)) % ASK_HEAT_EVERY == 0)

/* Compare-and-swap tries before a slot is left to the receiver. */
#define ASK_CAS_TRIES 8u
