/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Values of the BPF maps, as user space and the programs see them. Fixed width,
 * explicit padding; tests/bpf compares them with the BTF of the object.
 *
 * Life of an index: channels, flows and tasks are found through a hash map that
 * holds nothing but an index into an array. An array entry is written while no
 * hash entry leads to it, and written again only after the hash entry is gone
 * and an RCU grace period has passed, so a program never sees one half-changed.
 */
#pragma once
#ifdef __cplusplus
#pragma GCC system_header /* C, which C++ warnings do not understand */
#endif

#include <linux/types.h>

#include "lib/abi/check.h"
#include "lib/abi/consts.h"

/*
 * The paper's aggregator (section 3.2.1): key half, value half, one 64-bit word.
 * Blank is kpart = 0, whatever vpart says. Of a medium key, the leading words
 * have vpart 0 and mean nothing while the group's last word is blank.
 */
struct ask_aggregator {
	char kpart[ASK_KPART_BYTES];
	__s32 vpart; /* host order */
} __attribute__((aligned(8)));

ASK_STATIC_ASSERT(sizeof(struct ask_aggregator) == 8, "an aggregator is one word");

/* Key of map `channel_ids`: a channel's name on the wire, network order. */
struct ask_channel_id {
	__be32 host;
	__be16 port;
	__u16 pad;
};

/*
 * The ports of the switch that a host is behind: several if paths are (ECMP, a bond's members).
 * As its route says now. The usual one first, 0 behind the last; no packet comes in by ifindex
 * 0. Words change one by one under programs that read them.
 */
struct ask_ports {
	__u32 ifindex[ASK_CHANNEL_PORTS];
};

/* Map `channels`: a channel registered on this switch. */
struct ask_channel {
	__be32 host; /* its host's address, which its packets come from */
	__be16 port; /* its UDP source port */
	__u16 pad;
	__be32 incarnation;
	struct ask_ports ports; /* by which its packets may come in */
};

ASK_STATIC_ASSERT(sizeof(struct ask_channel) == 44, "ask_channel has no holes");

/*
 * Map `dedupe`: what the switch remembers of a channel's packets (section 3.3).
 * tagged: seen[seq % W] holds the highest seq that came to that place.
 * compact: seen[0 .. W/64) is the bit array, seen[W - 1] is max_seq.
 */
struct ask_dedupe_state {
	__u64 seen[ASK_WINDOW];
};

/*
 * Map `pkt_state`: what was left of a packet, one 64-bit word a row:
 * low 32 bits of its seq << 32 | bitmap of the slots not aggregated. Rows of one
 * window place lie side by side.
 */
struct ask_pkt_state {
	__u64 row[ASK_WINDOW][ASK_MAX_ROWS];
};

/* Key of map `flow_ids`: a task instance on a channel, network order. */
struct ask_flow_id {
	__be64 task;
	__be32 host;
	__be16 port;
	__u16 pad;
};

/* The channel of a flow whose header says host 0, port 0: RESULTs of a group. */
#define ASK_NO_CHANNEL 0xffffffffu

/* Map `flows`: a task instance on a channel. */
struct ask_flow {
	__be64 task_instance;
	__u32 channel; /* index in `channels`, `dedupe`, `pkt_state`; ASK_NO_CHANNEL: of none */
	__u32 task;    /* index in `tasks`, `regions` */
	struct ask_check_key key;
	/*
	 * The controller's own, for its successors. A flow whose channel is gone is cut: no hash
	 * entry leads to it any more, and what it has counted is its task's until that closes. The
	 * one change of an entry that programs may be reading, since they do not read these.
	 */
	__be32 host; /* channel */
	__be16 port;
	__u16 cut;
	__be32 incarnation;
	__u32 member; /* values: its bit number; of the flow of RESULTs, which no channel has, nothing */
	__u64 nonce; /* drawn when it was joined, so that it is told from one that was joined anew */
};

/* Map `tasks`: geometry and memory of a task on this switch. */
struct ask_task {
	__be64 instance;
	/*
	 * Epoch and phase of the shadow swap, one word, stored before each step
	 * is acted on: epoch << 8 | enum ask_swap_phase (design section 8).
	 */
	__u64 swap;
	__u32 copy;	   /* which copy is aggregated into: ASK_EPOCH_COPY() of the epoch */
	__u32 copies;	   /* 1, or 2 if the task may swap; 0: no region */
	__u32 aggregators; /* of an AA in one copy */
	__u32 sets;	   /* register sets: CPUs (pipelines) or 1 (shared) */
	__u8 short_slots;
	__u8 groups;
	__u8 m;
	__u8 rows;	 /* most rows a packet may have */
	__u8 op;	 /* enum ask_wire_op */
	__u8 policy;	 /* enum ask_policy */
	__u8 program;	 /* which of its service's in `data_programs` takes its packets */
	__u8 service;	 /* ASK_SERVICE_* */
	__be32 receiver; /* where its packets go to, and its ACKs come from */
	__u32 bucket;	 /* which of `buckets` its packets are taken from; 0: of none */
	__u32 back;	 /* whether it has a back level that takes tuples (lib/abi/back.h) */
	__u32 pad;
};

ASK_STATIC_ASSERT(sizeof(struct ask_task) == 56, "ask_task has no holes");

/*
 * Map `buckets`: how many packets the tasks of one tenant may bring, by a clock of nanoseconds: each
 * puts `due` off by `cost`, and one that would have it more than `burst` ahead of now is too many.
 * Whose a bucket is the controller knows. A cache line of its own.
 */
struct ask_bucket {
	__u64 due;
	__u64 cost;
	__u64 burst;
	__u64 pad[5];
} __attribute__((aligned(64)));

ASK_STATIC_ASSERT(sizeof(struct ask_bucket) == 64, "an ask_bucket is a cache line");

enum ask_swap_phase {
	ASK_SWAP_BLANK = 0,	/* the inactive copy is blank; rest state */
	ASK_SWAP_FLIPPED = 1,	/* index flipped, writers may still be in the old copy */
	ASK_SWAP_PASSED = 2,	/* barrier passed: the old copy is still */
	ASK_SWAP_CONFIRMED = 3, /* receiver has it: the old copy may be blanked */
};

/*
 * Map `presence`, one entry per possible CPU: whether a program is between reading a
 * task's copy index and its last store to an aggregator. Low 32 bits: how many are (one,
 * or nested ones where programs interrupt each other); high 32 bits: how often the
 * number has come back to 0. A cache line of its own.
 */
struct ask_presence {
	__u64 word;
	__u64 pad[7];
} __attribute__((aligned(64)));

ASK_STATIC_ASSERT(sizeof(struct ask_presence) == 64, "an ask_presence is a cache line");

#define ASK_PRESENCE_DEPTH 0xffffffffull
#define ASK_PRESENCE_ENTER 1ull
/* Added on leaving the outermost, and an inner one. */
#define ASK_PRESENCE_LEAVE_LAST ((1ull << 32) - 1)
#define ASK_PRESENCE_LEAVE_INNER (~0ull)

/* The swap word of a task: epoch and phase. */
#define ASK_SWAP_WORD(epoch, phase) ((__u64)(epoch) << 8 | (phase))
#define ASK_SWAP_EPOCH(word) ((word) >> 8)
#define ASK_SWAP_PHASE(word) ((__u32)((word) & 0xff))
/* Which copy an epoch aggregates into: so that repeating a flip changes nothing. */
#define ASK_EPOCH_COPY(epoch) ((__u32)((epoch) & 1))

/*
 * Place of an aggregator in its region, an array of ask_aggregator laid out set
 * by set, copy by copy, AA by AA:
 *   ((set * copies + copy) * aas + aa) * aggregators + index
 */

/*
 * Tasks that replace (ASK_POLICY_REPLACE) have two maps more.
 *
 * Map `heats`, by task: a heat for every place of a set, whichever copy is in use, eight in
 * a word: word at / 8, byte at % 8, at = (set * aas + aa) * aggregators + index. A group's
 * heat is that of its first AA. No answer depends on it: races on it are harmless.
 */
struct ask_heats {
	__u8 heat[8];
} __attribute__((aligned(8)));

/*
 * Map `carried`, by flow: what a packet took out of aggregators, so that its retransmission,
 * which has the sender's own tuples, leaves as the packet did. Words of 64 bits, for each
 * place of the window (seq % W) and row:
 *   a head:        low 32 bits of seq << 32 | bitmap of the slots that were replaced
 *   a word an AA:  of replaced slots, as struct ask_slot in the packet
 * All heads come first. They and the words are written before PktState says that the row is
 * done, and read after it has.
 */
ASK_ABI_INLINE __u32 ask_carried_head(__u32 rows, __u32 place, __u32 row)
{
	return place * rows + row;
}

ASK_ABI_INLINE __u32 ask_carried_word(__u32 rows, __u32 aas, __u32 place, __u32 row, __u32 aa)
{
	return ASK_WINDOW * rows + (place * rows + row) * aas + aa;
}

ASK_ABI_INLINE __u32 ask_carried_words(__u32 rows, __u32 aas)
{
	return ASK_WINDOW * rows * (1 + aas);
}

/* Map `flow_stats`, per CPU: where a flow's packets and tuples went. */
struct ask_flow_stats {
#define ASK_PROGRAM_STAT(name, text) __u64 name;
#define ASK_TAKEN_STAT(name, field, text) __u64 name;
#define ASK_LEFT_STAT(cause, text) __u64 tuples_##cause;
#define ASK_BESIDE_STAT(name, text) __u64 name;
#define ASK_PART_STAT(name, text) __u64 name;
#include "lib/abi/stats.def"
};

/* Map `meta`, one entry: whose pins these are. */
struct ask_meta {
	__u32 abi_version;
	__u32 switch_id;
	__u32 incarnation; /* of the switch: drawn at load, never 0 */
	__u32 memory;	   /* enum ask_memory */
	__u32 dedupe;	   /* enum ask_dedupe */
	__u32 max_channels;
	__u32 max_flows;
	__u32 max_tasks;
	__u32 possible_cpus;
	__u32 wire_version; /* ASK_WIRE_VERSION of the programs; 0: of a time before 0xA2 */
	char boot_id[40];
};

/* Map `tasks/<instance>/meta`, one entry: what a successor must know of a task. */
struct ask_task_meta {
	__be64 instance;
	__u32 index;		  /* in `tasks` */
	__u32 region_aggregators; /* of an AA, both copies */
	char id[64];
	char receiver[64]; /* control address of the receiver's agent */
	/* Whose it is: nobody else's calls change it. */
	__be32 owner;	 /* the receiver's host */
	char tenant[64]; /* empty: none */
	__u32 pad;
	__u64 nonce; /* of its region, drawn when the task was opened; never 0 */
};

enum ask_counter {
#define ASK_COUNTER(name, class, text) ASK_CNT_##name,
#include "lib/abi/counters.def"
#undef ASK_COUNTER
	ASK_CNT_COUNT,
};

enum ask_host_counter {
#define ASK_HOST_COUNTER(name, class, text) ASK_HOST_CNT_##name,
#include "lib/abi/counters.def"
#undef ASK_HOST_COUNTER
	ASK_HOST_CNT_COUNT,
};
