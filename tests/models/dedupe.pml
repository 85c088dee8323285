/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New, seen or stale, and what is sent on for a packet that was seen: a channel's packets, their duplicates and
 * delayed duplicates on several CPUs at once.
 *
 * Code: bpf/engine/dedupe.bpf.h, record_state() and restore_state() in bpf/tuples/data.bpf.h, the window of
 * lib/engine/sender_channel.cpp, the dedupe of lib/engine/receiver.cpp.
 *
 * The network may lose, repeat and delay without bound: a CPU takes any packet that was ever sent, at any time; the
 * receiver any that was ever forwarded; the sender any ACK that was ever given. The window has W places, and a seq is
 * sent only once the seq W below it is acknowledged, with all before it.
 *
 * Abstracted: one tuple a row; whether its aggregator takes it is anybody's guess (memory.pml); a tag is the whole
 * seq (the code's 32 bits repeat after 2^32 packets, of which the window lets no two be about). compact: raising
 * max_seq is one step.
 *
 * Checked: each tuple is counted once, on the switch or at the receiver, before its packet is acknowledged at the
 * sender; a packet is dropped as in flight only while its first copy is on its way, and as stale only once
 * acknowledged: so that a sender which repeats itself comes through.
 *
 * Bounds: SEQS packets of two rows over W places, CPUS CPUs.
 *
 * holds  tagged: -DTAGGED
 * holds  tagged_long: -DTAGGED -DLONG=3
 * holds  tagged_seq_never_sent: -DTAGGED -DNEVER_SENT=2
 * holds  compact_on_one_cpu: -DCOMPACT -DCPUS=1
 * full   tagged_longer: -DTAGGED -DSEQS=5
 * full   tagged_wider: -DTAGGED -DW=3
 * full   compact_wider: -DCOMPACT -DCPUS=1 -DW=3 -DSEQS=6
 *
 * What compact promises, and no more:
 * breaks compact_on_two_cpus: -DCOMPACT ! counted[s]&
 * breaks compact_seq_never_sent: -DCOMPACT -DCPUS=1 -DNEVER_SENT=2 ! under_way[s]||acked[s]
 * What tagged asks of the sender: a seq that was sent is acknowledged, or the channel takes a new incarnation.
 * breaks tagged_seq_given_up: -DTAGGED -DGIVEN_UP=2 ! under_way[s]||acked[s]
 *
 * breaks no_dedupe: -DTAGGED -DNO_DEDUPE ! counted[s]&
 * breaks dedupe_in_two_steps: -DTAGGED -DTWO_STEPS ! counted[s]&
 * breaks stale_is_new: -DTAGGED -DSTALE_IS_NEW ! counted[s]&
 * breaks seen_goes_on_whole: -DTAGGED -DSEEN_WHOLE ! counted[s]&
 * breaks guess_what_is_not_recorded: -DTAGGED -DGUESS ! counted[s]==3
 * breaks one_tag_for_all_rows: -DTAGGED -DONE_TAG ! counted[s]==3
 * breaks leave_before_recording: -DTAGGED -DLEAVE_FIRST ! under_way[s]||acked[s]
 * breaks ack_before_aggregating: -DTAGGED -DACK_FIRST ! counted[s]==3
 * breaks seen_long_from_pkt_state: -DTAGGED -DLONG=3 -DRESTORE_LONG ! under_way[s]||acked[s]
 * breaks receiver_takes_all: -DTAGGED -DTAKE_ALL ! counted[s]&
 * breaks window_too_wide: -DTAGGED -DSENDER_W=3 ! acked
 */

#ifndef CPUS
#define CPUS 2
#endif
#ifndef W
#define W 2
#endif
#ifndef SENDER_W
#define SENDER_W W
#endif
#ifndef SEQS
#define SEQS 4
#endif
/* Seqs with something special about them; 0: none. */
#ifndef LONG
#define LONG 0
#endif
#ifndef NEVER_SENT
#define NEVER_SENT 0
#endif
#ifndef GIVEN_UP
#define GIVEN_UP 0
#endif

/* An alternative for each seq, by what TAKE() is where it stands. */
#if SEQS == 3
#define ANY_SEQ TAKE(1) TAKE(2) TAKE(3)
#elif SEQS == 4
#define ANY_SEQ TAKE(1) TAKE(2) TAKE(3) TAKE(4)
#elif SEQS == 5
#define ANY_SEQ TAKE(1) TAKE(2) TAKE(3) TAKE(4) TAKE(5)
#elif SEQS == 6
#define ANY_SEQ TAKE(1) TAKE(2) TAKE(3) TAKE(4) TAKE(5) TAKE(6)
#endif

#define ROWS 2
#define WHOLE 3

mtype = { new, seen, stale };

/* On the switch: the channel's dedupe state, and PktState as tag * 2 + bit of the row. */
byte place_seq[W];
byte max_seq;
bool place_bit[W];
byte pkt_state[W * ROWS];

/* Seqs 1 to `sent` are or were on the network. */
byte sent;
byte base = 1;
bool ack_given[SEQS + 1];
bool acked[SEQS + 1];
/* Which bitmaps of a packet have been sent on: bit b - 1 for bitmap b. */
byte forwarded[SEQS + 1];
bool received[SEQS + 1];

/* What the checker knows: where the first copy is, and which rows' tuples have been counted. */
bool under_way[SEQS + 1];
byte counted[SEQS + 1];

#define on_its_way(seq) (under_way[seq] || acked[seq])
#define all_counted(seq) (counted[seq] == WHOLE)
#define no_ack_needed(seq) (seq == NEVER_SENT || seq == GIVEN_UP)

/* The first ACK counts. */
#define give_ack(seq) ack_given[seq] = !acked[seq]

/* Rows of a packet become part of the answer. */
inline count(seq, rows) {
	assert(!(counted[seq] & (rows)));
	counted[seq] = counted[seq] | (rows)
}

inline send_on(seq, bitmap) {
	if
#ifndef TAKE_ALL
	/* The receiver has it: one more changes nothing. */
	:: received[seq] -> give_ack(seq)
	:: !received[seq] ->
#else
	:: true ->
#endif
		forwarded[seq] = forwarded[seq] | (1 << ((bitmap) - 1))
	fi
}

/* ACK, or what is left. */
inline leave(seq, bitmap) {
	if
	:: bitmap == 0 -> give_ack(seq)
	:: else -> send_on(seq, bitmap)
	fi
}

#if defined(NO_DEDUPE)
inline judge() {
	verdict = new
}
#elif defined(TAGGED)
inline judge() {
#ifdef TWO_STEPS
	left = place_seq[s % W];
#endif
	atomic {
#ifndef TWO_STEPS
		left = place_seq[s % W];
#endif
		if
		:: left == s -> verdict = seen
#ifdef STALE_IS_NEW
		:: left > s -> verdict = new
#else
		:: left > s -> verdict = stale
#endif
		:: left < s -> verdict = new; place_seq[s % W] = s
		fi;
		under_way[s] = under_way[s] || verdict == new;
		left = 0
	}
}
#else
/* Even passes over the places set bits, odd ones clear them. */
inline judge() {
	atomic {
		max_seq = (s > max_seq -> s : max_seq);
		verdict = (max_seq >= s + W -> stale : new)
	};
	atomic {
		if
		:: verdict == stale
		:: else ->
			verdict = (place_bit[(s - 1) % W] == (((s - 1) / W) % 2 == 0) -> seen : new);
			place_bit[(s - 1) % W] = ((s - 1) / W) % 2 == 0;
			under_way[s] = under_way[s] || verdict == new
		fi
	}
}
#endif

/* Each row's tuple finds an aggregator, or stays. */
inline aggregate() {
	atomic {
		if
		:: left = 0
		:: left = 1
		:: left = 2
		:: left = 3
		fi;
		count(s, WHOLE - left)
	}
}

#define TAG(row) (pkt_state[(s % W) * ROWS + row] / 2)
#define BIT(row) (pkt_state[(s % W) * ROWS + row] % 2)

inline record(row) {
	pkt_state[(s % W) * ROWS + row] = s * 2 + ((left >> row) & 1)
}

/* Done with the first copy. */
#define PASSED under_way[s] = false

inline pass_new() {
#ifdef ACK_FIRST
	give_ack(s);
#endif
	aggregate();
#ifdef LEAVE_FIRST
	atomic { leave(s, left) };
	record(0);
	atomic { record(1); PASSED }
#else
	record(0);
	atomic { record(1); PASSED };
	atomic { leave(s, left) }
#endif
}

/* The row as it was recorded, or the first copy is still on its way. */
inline restore(row) {
	atomic {
		if
#if defined(GUESS)
		:: true -> left = left + (BIT(row) << row)
#elif defined(ONE_TAG)
		:: TAG(row) == s || row == 1 -> left = left + (BIT(row) << row)
#else
		:: TAG(row) == s -> left = left + (BIT(row) << row)
#endif
		:: else -> assert(on_its_way(s)); goto gone
		fi
	}
}

inline pass_seen() {
#ifdef SEEN_WHOLE
	atomic { leave(s, WHOLE) }
#else
	restore(0);
	restore(1);
	atomic { leave(s, left) }
#endif
}

/* LONG is deduped, and goes on as it is. */
inline pass_long() {
#ifdef RESTORE_LONG
	if
	:: verdict == seen -> pass_seen()
	:: verdict == new -> atomic { leave(s, WHOLE); PASSED }
	fi
#else
	atomic { leave(s, WHOLE); PASSED }
#endif
}

/* A CPU of the switch. */
proctype Cpu() {
	byte s, left;
	mtype verdict = stale;
end:
	do
	:: atomic {
		if
#define TAKE(seq) :: sent >= seq && seq != NEVER_SENT -> s = seq
		ANY_SEQ
#undef TAKE
		fi
	   };
	   judge();
	   if
	   :: atomic { verdict == stale -> assert(acked[s]) }
	   :: verdict != stale && s == LONG -> pass_long()
	   :: verdict == new && s != LONG -> pass_new()
	   :: verdict == seen && s != LONG -> pass_seen()
	   fi;
gone:
	   atomic { s = 0; left = 0; verdict = stale }
	od
}

/* Takes any packet that was ever forwarded. */
proctype Receiver() {
	byte s, bitmap;
end:
	do
	:: atomic {
		if
#define TAKE(seq) :: forwarded[seq] -> s = seq
		ANY_SEQ
#undef TAKE
		fi;
		if
		:: forwarded[s] & 1 -> bitmap = 1
		:: forwarded[s] & 2 -> bitmap = 2
		:: forwarded[s] & 4 -> bitmap = 3
		fi;
		count(s, bitmap);
		received[s] = true;
		give_ack(s);
#ifndef TAKE_ALL
		forwarded[s] = 0;
#endif
		s = 0;
		bitmap = 0
	   }
	od
}

/* The sender's window. Repetition is the network's business here. */
proctype Sender() {
	byte s;
end:
	do
	:: atomic { sent < SEQS && sent + 1 < base + SENDER_W -> sent++ }
	:: atomic {
		if
#define TAKE(seq) :: sent >= seq && (ack_given[seq] || (!acked[seq] && no_ack_needed(seq))) -> s = seq
		ANY_SEQ
#undef TAKE
		fi;
		assert(all_counted(s) || no_ack_needed(s));
		ack_given[s] = false;
		acked[s] = true;
		s = 0;
		do
		:: base <= sent && acked[base] -> base++
		:: else -> break
		od
	   }
	od
}

init {
	byte i;
	atomic {
		do
		:: i < CPUS -> run Cpu(); i++
		:: else -> break
		od;
		i = 0;
		run Receiver();
		run Sender()
	}
}
