/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shadow-copy swap, from flip to blanking, while packets pass, requests are repeated or come late, replies are
 * lost, and ask-switchd dies at any point.
 *
 * Code: loader/controller_swap.cpp, open_copy() and aggregate_packet() in bpf/tuples/data.bpf.h, and what the receiver's
 * agent does with a copy: stage its stream, merge it whole, confirm.
 *
 * What outlives ask-switchd: the task's word (epoch and phase), the copy index, the aggregators. Its threads
 * (HANDLERS) go through the steps of a request one at a time, but for the stream, which is read without the task's
 * lock. The receiver gives up on a call whenever it likes, TRIES times in all; the request that it gave up on is
 * still carried out, whenever that may be. It may ask for the next swap before it knows that the last is confirmed,
 * and for the last copy although it does not know whether the epoch was closed.
 *
 * Abstracted: the barrier waits for every run that was inside when it began (barrier.pml); adding to an aggregator
 * is one step (memory.pml); a call's replies come in order or not at all (TCP); the receiver does not die (if it
 * does, the task is over).
 *
 * Checked: at the last merge the result is exactly what was added; no request is refused that the receiver is
 * entitled to (assert(unsure)); nobody waits for ever.
 *
 * Bounds: CPUS CPUs with PACKETS packets of two tuples each, up to SWAPS swaps, CRASHES deaths of ask-switchd.
 *
 * holds  repeated: -DTRIES=2 -DCRASHES=0
 * holds  restarted: -DTRIES=0 -DCRASHES=2
 * holds  both: -DSWAPS=1
 * holds  two_cpus: -DCPUS=2 -DPACKETS=1 -DSWAPS=1
 * holds  without_phase_confirmed: -DNO_CONFIRMED -DTRIES=0
 * full   swaps: -DSWAPS=2
 * full   more_repeated: -DTRIES=3 -DCRASHES=0
 * full   more_restarted: -DTRIES=0 -DCRASHES=3
 * full   more_cpus: -DCPUS=2 -DSWAPS=1
 * full   more_of_both: -DTRIES=2 -DCRASHES=1 -DSWAPS=1
 *
 * breaks flip_before_word: -DFLIP_FIRST ! result==added
 * breaks flip_toggles: -DTOGGLE ! result==added
 * breaks repeated_request_flips_again: -DFLIP_TWICE ! result==added
 * breaks read_before_barrier: -DNO_BARRIER ! result==added
 * breaks read_the_copy_in_use: -DREAD_CURRENT ! result==added
 * breaks blank_before_confirmation: -DBLANK_EARLY ! result==added
 * breaks forget_to_blank: -DNO_BLANK ! result==added
 * breaks next_swap_does_not_wait: -DNO_REFUSAL ! result==added
 * breaks confirm_without_epoch: -DCONFIRM_ANY ! unsure
 * breaks threads_without_lock: -DUNLOCKED ! unsure
 * breaks merge_as_it_streams: -DMERGE_CHUNKS ! result==added
 * breaks merge_half_a_stream: -DMERGE_HALF ! result==added
 * breaks successor_repeats_nothing: -DNO_ADOPT ! result==added
 * breaks successor_does_not_flip: -DADOPT_NO_FLIP ! result==added
 * breaks successor_does_not_wait: -DADOPT_NO_BARRIER ! result==added
 * breaks successor_does_not_blank: -DADOPT_NO_BLANK ! result==added
 */

#ifndef CPUS
#define CPUS 1
#endif
#ifndef PACKETS
#define PACKETS 2
#endif
#ifndef SWAPS
#define SWAPS 2
#endif
#ifndef TRIES
#define TRIES 1
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef HANDLERS
#define HANDLERS 2
#endif

#define AGGREGATORS 2
#define STARTUP (HANDLERS + 1)
#define COPY_OF(epoch) ((epoch) % 2)

/* Phases, in the low bits of the word. */
#define BLANK 0
#define FLIPPED 1
#define PASSED 2
#define CONFIRMED 3
#define WORD(epoch, phase) ((epoch) * 4 + (phase))
#define epoch_of(word) ((word) / 4)
#define phase_of(word) ((word) % 4)

mtype = { close, last, confirm };
mtype = { none, whole, done, refused };

/* On the switch, outliving ask-switchd. */
byte word;
byte copy;
byte aggregator[2 * AGGREGATORS];
bool inside[CPUS];
byte passed[CPUS];

/* ask-switchd. */
bool up;
bool swapping;
byte crashes;
/* Which of its processes starts over next. */
byte dying;
chan requests = [2] of { mtype, byte, byte };

/* The call that the receiver waits for, and what has come of it. */
byte call;
byte crashes_before;
mtype reply = none;
byte staged;

byte added;
byte result;

#define all_sent (added == CPUS * PACKETS * AGGREGATORS)

/* A CPU of the switch: reads the copy index once a packet, then adds its tuples. */
proctype Cpu(byte cpu) provided (!dying) {
	byte k, n;
	do
	:: n < PACKETS ->
		atomic { inside[cpu] = true; k = copy };
		d_step { aggregator[k * AGGREGATORS] = aggregator[k * AGGREGATORS] + 1; added++ };
		d_step {
			aggregator[k * AGGREGATORS + 1] = aggregator[k * AGGREGATORS + 1] + 1;
			added++;
			inside[cpu] = false;
			passed[cpu] = passed[cpu] + 1;
			k = 0;
			n++
		}
	:: n == PACKETS -> break
	od
}

/* Whoever is inside now comes out. */
inline wait_for(cpu) {
	atomic {
		if
		:: inside[cpu] -> n = passed[cpu]
		:: else -> n = passed[cpu] + 1
		fi
	};
	atomic { passed[cpu] != n || !inside[cpu] -> n = 0 }
}

inline barrier() {
	wait_for(0)
#if CPUS > 1
	; wait_for(1)
#endif
}

inline blank(epoch) {
	aggregator[COPY_OF(epoch) * AGGREGATORS] = 0;
	aggregator[COPY_OF(epoch) * AGGREGATORS + 1] = 0
}

inline flip(epoch) {
#ifdef TOGGLE
	copy = 1 - copy
#else
	copy = COPY_OF(epoch)
#endif
}

/* The successor, before it serves anybody. */
proctype Startup() provided (!dying || dying == STARTUP) {
	byte n;
restart:
	{
#ifndef NO_ADOPT
		if
		:: phase_of(word) == FLIPPED ->
#ifndef ADOPT_NO_FLIP
			flip(epoch_of(word));
#endif
#ifndef ADOPT_NO_BARRIER
			barrier();
#endif
			atomic { word = WORD(epoch_of(word), PASSED); up = true }
		:: phase_of(word) == CONFIRMED ->
#ifndef ADOPT_NO_BLANK
			blank(epoch_of(word) - 1);
#endif
			atomic { word = WORD(epoch_of(word), BLANK); up = true }
		:: phase_of(word) == BLANK || phase_of(word) == PASSED -> up = true
		fi;
#else
		up = true;
#endif
end:
		false
	} unless {
		atomic { dying == STARTUP -> n = 0; dying = 0; goto restart }
	}
}

/* Ends ask-switchd with whatever it was doing: its processes start over, one after the other, before anything else
 * happens. */
proctype Crash() {
end:
	do
	:: d_step {
		crashes < CRASHES && !dying ->
		crashes++;
		up = false;
		swapping = false;
		dying = 1
	   }
	od
}

#ifdef UNLOCKED
#define LOCK true
#else
#define LOCK !swapping -> swapping = true
#endif

/* To a call that the receiver still waits for. */
inline answer(what) {
	reply = (call == mine_call -> what : reply)
}

#ifdef READ_CURRENT
#define READ_COPY copy
#else
#define READ_COPY COPY_OF(e)
#endif

#ifdef MERGE_CHUNKS
#define STAGED result
#else
#define STAGED staged
#endif

inline read(at) {
	STAGED = STAGED + (call == mine_call -> aggregator[READ_COPY * AGGREGATORS + at] : 0)
}

/* Streams the copy of epoch e, as long as the caller listens and the word stays what it was. */
inline stream() {
	read(0);
	read(1);
#ifdef BLANK_EARLY
	blank(e);
#endif
	atomic {
		if
		:: word == n -> answer(whole)
		:: word != n -> answer(refused)
		fi;
		n = 0
	}
}

#ifdef NO_REFUSAL
#define MAY_CLOSE (epoch_of(word) == e && phase_of(word) != FLIPPED)
#else
#define MAY_CLOSE (word == WORD(e, BLANK))
#endif

inline close_epoch() {
	atomic {
		LOCK;
		if
		:: MAY_CLOSE ->
#ifdef FLIP_FIRST
			flip(e + 1)
#else
			word = WORD(e + 1, FLIPPED)
#endif
#ifdef FLIP_TWICE
		:: word == WORD(e + 1, PASSED) -> copy = 1 - copy; goto settled
#endif
		:: word == WORD(e + 1, FLIPPED) -> goto flipped
		:: else -> goto settled
		fi
	};
#ifdef FLIP_FIRST
	word = WORD(e + 1, FLIPPED);
#else
	flip(e + 1);
#endif
flipped:
#ifndef NO_BARRIER
	barrier();
#endif
	word = WORD(e + 1, PASSED);
settled:
	atomic {
		n = word;
		swapping = false;
		if
		:: n == WORD(e + 1, PASSED)
		:: else -> answer(refused); n = 0; goto served
		fi
	};
	stream()
}

/* Nobody writes any more: no flip. */
inline last_copy() {
	atomic {
		LOCK;
		n = word;
		swapping = false;
		if
		:: n == WORD(e, BLANK)
		:: else -> answer(refused); n = 0; goto served
		fi
	};
	stream()
}

#ifdef CONFIRM_ANY
#define IS_CLOSED (phase_of(word) == PASSED || phase_of(word) == CONFIRMED)
#define OLD_EPOCH (epoch_of(word) - 1)
#else
#define IS_CLOSED (word == WORD(e + 1, PASSED) || word == WORD(e + 1, CONFIRMED))
#define OLD_EPOCH e
#endif

inline confirm_epoch() {
	atomic {
		LOCK;
		if
		:: IS_CLOSED ->
#ifndef NO_CONFIRMED
			word = WORD(epoch_of(word), CONFIRMED)
#endif
		:: !(IS_CLOSED) && (epoch_of(word) > e + 1 || word == WORD(e + 1, BLANK)) ->
			swapping = false;
			answer(done);
			goto served
		:: else ->
			swapping = false;
			answer(refused);
			goto served
		fi
	};
#ifndef NO_BLANK
	blank(OLD_EPOCH);
#endif
	atomic { word = WORD(epoch_of(word), BLANK); swapping = false };
	answer(done)
}

/* A thread of ask-switchd. */
proctype Handler() provided (!dying || dying == _pid - CPUS) {
	byte mine_call, e, n;
	mtype kind = none;
restart:
	{
end:
		do
		:: atomic { up -> requests?kind, e, mine_call };
			if
			:: kind == close -> close_epoch()
			:: kind == last -> last_copy()
			:: kind == confirm -> confirm_epoch()
			fi;
served:
			atomic { kind = none; e = 0; mine_call = 0 }
		od
	} unless {
		atomic {
			dying == _pid - CPUS ->
			mine_call = 0; e = 0; n = 0; kind = none;
			dying++;
			goto restart
		}
	}
}

inline ask(what, epoch) {
	atomic {
		nfull(requests) ->
		call++;
		crashes_before = crashes;
		reply = none;
		staged = 0;
		requests!what(epoch, call)
	}
}

#define broken (reply == none && crashes_before != crashes)

#ifdef MERGE_HALF
#define TAKE_HALF (staged > 0 -> whole : none)
#else
#define TAKE_HALF none
#endif

/* Gives up on a call: it broke, or took too long. Its replies go nowhere from now on. */
inline give_up() {
	if
	:: broken
	:: reply != whole && tries < TRIES -> tries++
	fi;
	call++;
	reply = TAKE_HALF
}

#define MERGE result = result + staged; staged = 0; reply = none

/* The receiver's agent. */
proctype Receiver() provided (!dying) {
	byte e, tries;
	/* It does not know whether the epoch before has been confirmed. */
	bool unsure;
next:
	if
	:: e < SWAPS -> goto closing
	:: all_sent -> goto ending
	fi;
closing:
	ask(close, e);
waiting:
	atomic {
		if
		:: reply == whole -> MERGE; unsure = false; goto confirming
		:: reply == refused -> assert(unsure); unsure = false; e--; goto confirming
		:: give_up();
		   if
		   :: reply == whole -> goto waiting
		   :: reply != whole -> goto closing
		   :: reply != whole && all_sent -> goto ending
		   fi
		fi
	};
confirming:
	ask(confirm, e);
	atomic {
		if
		:: reply == done -> e++; goto next
		:: reply == refused -> assert(reply != refused)
		:: give_up();
		   if
		   :: goto confirming
		   :: e + 1 < SWAPS -> e++; unsure = true; goto closing
		   fi
		fi
	};
ending:
	ask(last, e);
	atomic {
		if
		:: reply == whole -> MERGE
		:: reply == refused ->
		   if
		   :: unsure -> unsure = false; e--; goto confirming
		   :: !unsure -> goto closing
		   fi
		:: give_up(); goto ending
		fi;
		assert(result == added)
	}
}

init {
	byte i;
	atomic {
		do
		:: i < CPUS -> run Cpu(i); i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < HANDLERS -> run Handler(); i++
		:: else -> break
		od;
		i = 0;
		run Crash();
		run Startup();
		run Receiver()
	}
}
