/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replacement: a packet takes an aggregator from a colder key and carries the evicted tuple on, in its own slot. What
 * it carries is kept, so that a repeated packet leaves with the same, and nothing is lost or doubled.
 *
 * Code: bpf/tuples/replace.bpf.h, bpf/tuples/carried.bpf.h, record_state(), restore_state() and handle_data() in bpf/tuples/data.bpf.h.
 *
 * The network loses, repeats and delays without bound, as in dedupe.pml. What a packet does to an aggregator is
 * anybody's guess: take it (blank), add to it, replace what it holds, or leave it. A tuple, added to or not, is the
 * set of the packets whose tuples are in it, so whoever's it is does not matter, nor which channel brought it.
 *
 * Abstracted: one slot a packet (dedupe.pml has the rows); the slot's words are kept in one step; tags are whole seqs.
 * A shared aggregator changes in one step (compare-and-swap), one of the CPU's own in pipelines.
 *
 * Checked: when all packets are acknowledged, each tuple is in an aggregator or at the receiver, once; a packet is
 * dropped as in flight only while its first copy is on its way.
 *
 * Bounds: SEQS packets over W places, 2 CPUs, -DSHARED: one aggregator, or -DPIPELINES: one a CPU.
 *
 * holds  shared: -DSHARED
 * holds  pipelines: -DPIPELINES
 * holds  window_of_one: -DSHARED -DW=1
 * holds  without_second_look_at_head: -DSHARED -DNO_RECHECK
 * full   shared_longer: -DSHARED -DSEQS=5
 * full   pipelines_longer: -DPIPELINES -DSEQS=5
 *
 * breaks seen_sends_the_original: -DSHARED -DORIGINAL ! (aggregator[0]&aggregator[1])
 * breaks carried_is_not_kept: -DSHARED -DNOT_KEPT -DNO_TAG ! (aggregator[0]&aggregator[1])
 * breaks pkt_state_before_carried: -DSHARED -DRECORD_FIRST ! (aggregator[0]&aggregator[1])
 * breaks carried_loaded_before_pkt_state: -DSHARED -DLOAD_EARLY ! (aggregator[0]&aggregator[1])
 * breaks replaced_bit_cleared: -DSHARED -DCLEAR_BIT ! (aggregator[0]&aggregator[1])
 * breaks replace_without_cas: -DSHARED -DTWO_STEPS ! (aggregator[0]&aggregator[1])
 * breaks receiver_takes_all: -DSHARED -DTAKE_ALL ! (aggregator[0]&aggregator[1])
 * breaks record_after_leaving: -DSHARED -DLEAVE_FIRST ! under_way[s]||acked[s]
 */

#ifndef W
#define W 2
#endif
#ifndef SEQS
#define SEQS 4
#endif
#define CPUS 2
#define ALL ((1 << SEQS) - 1)

/* An alternative for each seq, by what TAKE() is where it stands. */
#if SEQS == 3
#define ANY_SEQ TAKE(1) TAKE(2) TAKE(3)
#elif SEQS == 4
#define ANY_SEQ TAKE(1) TAKE(2) TAKE(3) TAKE(4)
#elif SEQS == 5
#define ANY_SEQ TAKE(1) TAKE(2) TAKE(3) TAKE(4) TAKE(5)
#endif

/* Sets of tuples: bit seq - 1. */
#define tuple_of(seq) (1 << ((seq) - 1))

/* On the switch. Aggregator 0 for all CPUs, or one for each. */
byte aggregator[CPUS];
byte place_seq[W];
/* PktState and the head of what is kept: tag * 2 + bit. */
byte pkt_state[W];
byte head[W];
byte kept[W];

byte sent;
byte base = 1;
bool ack_given[SEQS + 1];
bool acked[SEQS + 1];
/* What has been forwarded of a packet: its slot, and another if a repetition had another. */
byte forwarded[SEQS + 1];
byte another[SEQS + 1];
bool received[SEQS + 1];
byte result;
/* Some tuple was counted that was there already. */
bool doubled;

/* What the checker knows. */
bool under_way[SEQS + 1];

#define on_its_way(seq) (under_way[seq] || acked[seq])
#define held (aggregator[0] | aggregator[1])
#define once_each (!doubled && !(aggregator[0] & aggregator[1]) && !(result & held) && (result | held) == ALL)
#define give_ack(seq) ack_given[seq] = !acked[seq]

/* ACK, or forward what the slot holds. */
inline leave() {
	if
	:: slot == 0 -> give_ack(s)
#ifndef TAKE_ALL
	:: slot != 0 && received[s] -> give_ack(s)
	:: slot != 0 && !received[s] ->
#else
	:: slot != 0 ->
#endif
		if
		:: forwarded[s] == 0 || forwarded[s] == slot -> forwarded[s] = slot
		:: else -> another[s] = slot
		fi
	fi
}

inline judge() {
	atomic {
		slot = tuple_of(s);
		if
		:: place_seq[s % W] == s
		:: place_seq[s % W] > s -> assert(acked[s]); goto gone
		:: place_seq[s % W] < s ->
			place_seq[s % W] = s;
			under_way[s] = true;
			is_new = true
		fi
	}
}

#ifdef SHARED
#define MINE aggregator[0]
#else
#define MINE aggregator[_pid - 1]
#endif

#ifdef CLEAR_BIT
#define EVICTED 0
#else
#define EVICTED was
#endif

/* What becomes of the slot: 0, the tuple itself, or an evicted one. */
inline aggregate() {
#ifdef TWO_STEPS
	was = MINE;
#endif
	atomic {
#ifndef TWO_STEPS
		was = MINE;
#endif
		if
		:: was == 0 -> MINE = slot; slot = 0
		:: MINE != 0 -> doubled = doubled || (MINE & slot); MINE = MINE | slot; slot = 0
		:: was != 0 -> MINE = slot; slot = EVICTED; replaced = true
		:: true
		fi;
		was = 0
	}
}

inline keep() {
#ifndef NOT_KEPT
	head[s % W] = s * 2 + replaced;
	if
	:: replaced -> kept[s % W] = slot
	:: else
	fi
#else
	skip
#endif
}

#define RECORD pkt_state[s % W] = s * 2 + (slot != 0)

inline pass_new() {
	aggregate();
#if defined(RECORD_FIRST)
	RECORD;
	keep();
	atomic { under_way[s] = false; leave() }
#elif defined(LEAVE_FIRST)
	keep();
	atomic { leave() };
	atomic { RECORD; under_way[s] = false }
#else
	keep();
	atomic { RECORD; under_way[s] = false };
	atomic { leave() }
#endif
}

#ifdef NO_TAG
#define HEAD_FITS true
#else
#define HEAD_FITS head[s % W] / 2 == s
#endif

inline pass_seen() {
#ifdef LOAD_EARLY
	was = kept[s % W];
#endif
	atomic {
		if
		:: pkt_state[s % W] == s * 2 -> slot = 0; leave(); goto gone
		:: pkt_state[s % W] == s * 2 + 1
		:: else -> assert(on_its_way(s)); goto gone
		fi
	};
#ifndef ORIGINAL
	atomic {
		if
		:: HEAD_FITS -> replaced = head[s % W] % 2
		:: else -> assert(on_its_way(s)); goto gone
		fi
	};
	if
	:: replaced ->
#ifdef LOAD_EARLY
		slot = was;
#else
		slot = kept[s % W];
#endif
#ifndef NO_RECHECK
		atomic {
			if
			:: HEAD_FITS
			:: else -> assert(on_its_way(s)); goto gone
			fi
		}
#endif
	:: else
	fi;
#endif
	atomic { leave() }
}

/* A CPU of the switch: any packet that was ever sent. */
proctype Cpu() {
	byte s, slot, was;
	bool is_new, replaced;
end:
	do
	:: atomic {
		if
#define TAKE(seq) :: sent >= seq -> s = seq
		ANY_SEQ
#undef TAKE
		fi
	   };
	   judge();
	   if
	   :: is_new -> pass_new()
	   :: !is_new -> pass_seen()
	   fi;
gone:
	   atomic { s = 0; slot = 0; was = 0; is_new = false; replaced = false }
	od
}

/* Any packet that was ever forwarded. */
proctype Receiver() {
	byte s, slot;
end:
	do
	:: atomic {
		if
#define TAKE(seq) :: forwarded[seq] -> s = seq
		ANY_SEQ
#undef TAKE
		fi;
		if
		:: slot = forwarded[s]
		:: another[s] -> slot = another[s]
		fi;
		doubled = doubled || (result & slot);
		result = result | slot;
		received[s] = true;
		give_ack(s);
#ifndef TAKE_ALL
		forwarded[s] = 0;
		another[s] = 0;
#endif
		s = 0;
		slot = 0
	   }
	od
}

/* The sender's window, and the question whether all is well once it is done. */
proctype Sender() {
	byte s;
end:
	do
	:: atomic { sent < SEQS && sent + 1 < base + W -> sent++ }
	:: atomic {
		if
#define TAKE(seq) :: ack_given[seq] -> s = seq
		ANY_SEQ
#undef TAKE
		fi;
		ack_given[s] = false;
		acked[s] = true;
		s = 0;
		do
		:: base <= sent && acked[base] -> base++
		:: else -> break
		od;
		assert(base <= SEQS || once_each)
	   }
	od
}

init {
	atomic {
		run Cpu();
		run Cpu();
		run Receiver();
		run Sender()
	}
}
