/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The packet vector (bpf/engine/packet.bpf.h) as the tuples' service has it: extension words are
 * bitmaps, lines of the body are rows.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/packet.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "lib/abi/consts.h"

#define ASK_OUTCOMES 6 /* enum ask_outcome */

struct ask_phv {
	__u32 left[ASK_MAX_ROWS];     /* bitmaps, host order: what is left of each row */
	__u32 replaced[ASK_MAX_ROWS]; /* bitmaps: which of those have an evicted tuple now */
	__u64 sums[ASK_MAX_ROWS];     /* each row's part of the check */
	__u64 body;		      /* that of all rows as they came */
	__u32 rows;		      /* of the packet; at most the task's */
	__u32 aas;		      /* of the task's geometry */
	__u32 bits;		      /* of all rows' bitmaps as they came */
	__u32 offered;		      /* tuples of a new packet */
	__u32 kept;		      /* of those, left in the packet */
	__u32 overflow;		      /* of those, because of int32 */
	__u32 contention;	      /* of those, because of other CPUs */
	__u32 evicted;		      /* tuples taken out of aggregators */
	__u32 heats;		      /* first heat of this CPU's set, in a task that replaces */
	__u32 present;		      /* rows up to the last with something left */
	/* Of the row at hand, bitmaps of the slots by what became of them; those of
	 * ASK_AGGREGATED are the ones that are neither left nor here. */
	__u32 became[ASK_OUTCOMES];
	__u32 weighed; /* of those, whose outcome changes a heat or hangs on it */
	__u32 task;    /* the packet's, in `tasks` */
	/* From the dispatcher: the packet's flow, and whether it is new. */
	__u32 flow;
	__u32 is_new;
};

#define ASK_SAME_PLACE(ours, engines)                                             \
	ASK_STATIC_ASSERT(__builtin_offsetof(struct ask_phv, ours) ==             \
				  __builtin_offsetof(struct ask_packet, engines), \
			  "the vector's " #ours " is the engine's")

ASK_STATIC_ASSERT(sizeof(struct ask_phv) == sizeof(struct ask_packet), "one vector");
ASK_SAME_PLACE(left, extension);
ASK_SAME_PLACE(replaced, own);
ASK_SAME_PLACE(sums, sums);
ASK_SAME_PLACE(body, body);
ASK_SAME_PLACE(rows, extensions);
ASK_SAME_PLACE(aas, line_words);
ASK_SAME_PLACE(bits, bits);
ASK_SAME_PLACE(offered, more);
ASK_SAME_PLACE(flow, flow);
ASK_SAME_PLACE(is_new, is_new);
ASK_STATIC_ASSERT(ASK_MAX_ROWS == ASK_MAX_EXTENSION && ASK_MAX_ROWS == ASK_KEPT_SUMS,
		  "a bitmap and a sum for each row");
ASK_STATIC_ASSERT(ASK_MAX_AAS == ASK_MAX_LINE_WORDS && ASK_LONG_ROW_WORDS <= ASK_MAX_LINE_WORDS,
		  "a row is a line");

/* Numbers of rows and AAs: read anew at each use, so that leaving a loop over them
 * early does not tell the verifier anything that it then carries along. */
#define ASK_ROWS(phv) ASK_READ_ONCE((phv)->rows)
#define ASK_AAS(phv) ASK_READ_ONCE((phv)->aas)
#define ASK_PRESENT(phv) ASK_READ_ONCE((phv)->present)

static __always_inline struct ask_phv *find_phv(void)
{
	return (struct ask_phv *)find_packet();
}

/* Frame offset of a row of the packet. */
static __always_inline __u32 row_offset(const struct ask_phv *phv, __u32 r)
{
	return ASK_BODY_OFFSET + ASK_ROWS(phv) * (__u32)sizeof(__be32) +
	       r * ASK_AAS(phv) * ASK_SLOT_BYTES;
}

/* Register arrays of a task, as the native build counts their accesses. */
enum ask_tuples_array {
	ASK_ARRAY_COPY = ASK_ARRAY_SERVICE, /* the task's copy index */
	ASK_ARRAY_AA,			    /* number: which AA */
	ASK_ARRAY_PKT_STATE,		    /* number: which row */
	ASK_ARRAY_HEAT,	   /* number: which AA; tasks that replace only, as the next */
	ASK_ARRAY_CARRIED, /* number: which row */
	ASK_ARRAY_BACK,	   /* number: which group; tasks with a back level only */
	ASK_ARRAY_TUPLES_END,
};
