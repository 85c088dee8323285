/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two ways to keep aggregators exact, with keys of one word and of two.
 *
 * Code: update_plain(), ask_update_shared(), offer_short() and ask_offer_medium() in bpf/, change_places() and
 * change_group() in bpf/tuples/replace.bpf.h, CopyWalker in lib/tuples/fetch_codec.cpp.
 *
 * -DSHARED: all writers have one register set and change a word by compare-and-swap, TRIES times at most.
 * -DPIPELINES: a set per CPU, changed by load and store; writers on one CPU come one after the other.
 * All keys fall on one index. A medium key is a leading word without value and a last word with it; two of the four
 * keys share each half. -DSHORT: one word. -DREPLACE: who meets another key takes its place, and takes its tuples along.
 *
 * Abstracted: a value is the set of the tuples in it, so that a sum shows what it was made of, and never overflows; a
 * word is loaded and stored whole (64 bits).
 *
 * Checked: after all writers have ended, each tuple is found under its own key, or has been left to the receiver,
 * once. Words of a leading half without a last one are nobody's.
 *
 * Bounds: WRITERS writers, in pipelines on 2 CPUs, TUPLES tuples each, of any key.
 *
 * holds  shared: -DSHARED
 * holds  shared_short: -DSHARED -DSHORT -DTUPLES=3
 * holds  shared_short_replaces: -DSHARED -DSHORT -DREPLACE
 * holds  pipelines: -DPIPELINES
 * holds  pipelines_replaces: -DPIPELINES -DREPLACE
 * holds  pipelines_in_turn: -DPIPELINES -DWRITERS=3 -DTUPLES=1
 * holds  shared_three: -DSHARED -DWRITERS=3 -DTUPLES=1
 * full   shared_more: -DSHARED -DTUPLES=3
 * full   pipelines_more: -DPIPELINES -DREPLACE -DTUPLES=3
 *
 * What pipelines promises, and no more: nothing else that aggregates runs on the CPU between load and store.
 * breaks pipelines_interrupted: -DPIPELINES -DINTERRUPTED ! !(lost)
 * What replacing a medium key would come to in shared: the program does not.
 * breaks shared_medium_replaces: -DSHARED -DREPLACE ! !(lost)
 *
 * breaks shared_without_cas: -DSHARED -DPLAIN ! !(lost)
 * breaks value_word_first: -DSHARED -DLAST_FIRST ! !(lost)
 * breaks leading_word_is_the_key: -DSHARED -DLEADING_ONLY ! !(lost)
 * breaks last_word_is_the_key: -DSHARED -DLAST_ONLY ! !(lost)
 * breaks giving_up_counts_as_done: -DSHARED -DTUPLES=3 -DGIVE_UP_DONE ! !(lost)
 * breaks pipelines_share_a_set: -DPIPELINES -DONE_SET ! !(lost)
 */

#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef TUPLES
#define TUPLES 2
#endif
#define TRIES 2
#define KEYS 4

#if defined(SHARED) || defined(ONE_SET)
#define SET 0
#else
#define SET cpu
#endif

/* Halves of keys are 1 and 2, 0 is blank. A leading word is its half; a last one has its tuples beside it. */
byte leading[2];
byte last[2];
byte value[2];
bool busy[2];

#define KEY(a, b) (((a) - 1) * 2 + (b) - 1)

byte offered[KEYS];
byte left[KEYS];
byte found[KEYS];
byte ended;
bool lost;

/* A set of tuples joins another, in which none of them is yet. */
inline put(where, tuples) {
	lost = lost || (where & (tuples));
	where = where | (tuples)
}

#if defined(SHARED) && !defined(PLAIN)
#define STILL(condition) (condition)
#else
#define STILL(condition) true
#endif

/* One CAS each, or one store. `held`, `held_value`: what was loaded. */
#define leading_is_held STILL(leading[SET] == held)
#define last_is_held STILL(last[SET] == held && value[SET] == held_value)

inline load_last() {
	d_step { held = last[SET]; held_value = value[SET] }
}

/* outcome 1: aggregated, 2: collision, 3: contention */
inline offer_leading() {
	held = leading[SET];
	do
	:: held == a -> outcome = 1; break
#ifdef LAST_ONLY
	:: held != a && held -> outcome = 1; break
#else
	:: held != a && held -> outcome = 2; break
#endif
	:: !held && tries < TRIES ->
		atomic {
			if
			:: leading_is_held -> leading[SET] = a; outcome = 1; break
			:: else -> held = leading[SET]; tries++
			fi
		}
	:: !held && tries == TRIES -> outcome = 3; break
	od;
	atomic { tries = 0; held = 0 }
}

#ifdef LEADING_ONLY
#define LAST_FITS (held == b || held)
#else
#define LAST_FITS (held == b)
#endif

inline offer_last() {
	load_last();
	do
	:: held && !LAST_FITS -> outcome = 2; break
	:: (!held || LAST_FITS) && tries < TRIES ->
		atomic {
			if
			:: last_is_held ->
				lost = lost || (held_value & tuple);
				last[SET] = (held -> held : b);
				value[SET] = held_value | tuple;
				outcome = 1;
				break
			:: else -> held = last[SET]; held_value = value[SET]; tries++
			fi
		}
	:: (!held || LAST_FITS) && tries == TRIES -> outcome = 3; break
	od;
	atomic { tries = 0; held = 0; held_value = 0 }
}

/* Changes places with what is there; the evicted tuples travel on to the receiver under their key. */
inline replace() {
#ifndef SHORT
	atomic { held_leading = leading[SET] };
	atomic {
		if
		:: held_leading && STILL(leading[SET] == held_leading) -> leading[SET] = a
		:: else -> goto replaced
		fi
	};
#endif
	load_last();
	atomic {
		if
		:: held && last_is_held ->
			last[SET] = b;
			value[SET] = tuple;
#ifdef SHORT
			put(left[KEY(1, held)], held_value);
#else
			put(left[KEY(held_leading, held)], held_value);
#endif
			outcome = 1
		:: else
		fi
	};
replaced:
	atomic { held = 0; held_value = 0; held_leading = 0 }
}

inline offer() {
#if defined(SHORT)
	offer_last();
#elif defined(LAST_FIRST)
	offer_last();
	if
	:: outcome == 1 -> offer_leading()
	:: else
	fi;
#else
	offer_leading();
	if
	:: outcome == 1 -> offer_last()
	:: else
	fi;
#endif
#ifdef REPLACE
	if
	:: outcome == 2 -> replace()
	:: else
	fi;
#endif
}

#ifdef GIVE_UP_DONE
#define IS_LEFT (outcome == 2)
#else
#define IS_LEFT (outcome != 1)
#endif

proctype Writer(byte id) {
	byte cpu, a, b, tuple, n, outcome, tries, held, held_value, held_leading;
	do
	:: n < TUPLES ->
		atomic {
#if defined(PIPELINES) && !defined(INTERRUPTED)
			cpu = id % 2;
			!busy[cpu] -> busy[cpu] = true;
#endif
			tuple = 1 << (id * TUPLES + n);
			if
#ifndef SHORT
			:: a = 2
#endif
			:: a = 1
			fi;
			if
			:: b = 1
			:: b = 2
			fi;
			offered[KEY(a, b)] = offered[KEY(a, b)] | tuple
		};
		offer();
		atomic {
			if
			:: IS_LEFT -> put(left[KEY(a, b)], tuple)
			:: else
			fi;
			busy[cpu] = false;
			tuple = 0; outcome = 0; a = 0; b = 0;
			n++;
			ended = ended + (n == TUPLES)
		}
	:: n == TUPLES -> break
	od
}

/* Reads all sets, and adds up what they have of one key. */
proctype Fetch() {
	byte set, key;
	atomic {
		ended == WRITERS ->
		do
		:: set < 2 ->
#ifdef SHORT
			key = KEY(1, last[set]);
#else
			key = KEY(leading[set], last[set]);
#endif
			if
			:: last[set] -> put(found[key], value[set])
			:: else
			fi;
			set++
		:: else -> break
		od;
		key = 0;
		do
		:: key < KEYS ->
			lost = lost || (found[key] & left[key]) || (found[key] | left[key]) != offered[key];
			key++
		:: else -> break
		od;
		assert(!lost)
	}
}

init {
	byte i;
	atomic {
		do
		:: i < WRITERS -> run Writer(i); i++
		:: else -> break
		od;
		i = 0;
		run Fetch()
	}
}
