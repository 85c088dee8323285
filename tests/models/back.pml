/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bucket of the back level: CPUs claim entries, store keys and add values, all at once.
 *
 * Code: offer_tagged() and ask_back_add() in bpf/tuples/bucket.bpf.h; with -DGROUP8, ask_back_offer8(); the walk is
 * lib/tuples/back.cpp's.
 *
 * Memory: plain stores wait in a buffer of their CPU's and leave it in any order; a load may so be served from before
 * any of them. An atomic that returns a value is fully ordered (the kernel's rule, LKMM): it waits for the buffer.
 *
 * Abstracted: keys are two words, as in the group of 16; more of them are more of the second, each of which is looked at and
 * none of which is 0. They are A = (1, 1) and B = (1, 2), which have one tag; every tuple is 1, and the operator SUM; the
 * next candidate is where a tuple goes that finds the bucket full, so it travels on here.
 *
 * Checked, once all have ended: each key's live entries hold together what was added of it, less what travels on; there
 * is no live entry of another key. With GROUP8: no key has two entries.
 *
 * Bounds: CPUS CPUs with TUPLES tuples each, of any of the two keys; ENTRIES entries; TRIES tries at a value.
 *
 * holds  group16:
 * holds  group16_crowded: -DENTRIES=1
 * holds  group8: -DGROUP8
 * full   group16_three_cpus: -DCPUS=3 -DTUPLES=1 -DENTRIES=3
 * full   group16_more: -DTUPLES=3
 *
 * breaks claim_by_store: -DPLAIN_CLAIM ! held
 * breaks value_by_store: -DPLAIN_ADD ! held
 * breaks key_by_tag: -DTAG_ONLY ! held
 * breaks zero_word: -DZERO_WORD ! held
 * breaks group8_claim_by_store: -DGROUP8 -DPLAIN_CLAIM ! held
 * breaks group8_free_is_anothers: -DGROUP8 -DFORGET_RIVAL ! entries
 */

#ifndef CPUS
#define CPUS 2
#endif
#ifndef TUPLES
#define TUPLES 2
#endif
#ifndef ENTRIES
#define ENTRIES 2
#endif
#ifndef TRIES
#define TRIES 2
#endif

#define KEYS 2
#define FIRST 1
/* The second word of key A, B; a padding that is 0 is what the model's ZERO_WORD has. */
#ifdef ZERO_WORD
#define second(key) (key)
#else
#define second(key) ((key) + 1)
#endif

#define BUFFER 2

bool tag[ENTRIES]; /* the header: all of it changes at once */
byte word[ENTRIES * 2];
byte value[ENTRIES]; /* 0: not live, else 1 + the sum */

byte at[CPUS * BUFFER];
byte what[CPUS * BUFFER];
byte buffered[CPUS];

byte offered[KEYS];
byte travels[KEYS];
byte ended;

#define fence(cpu) (buffered[cpu] == 0)

/* What the CPU sees: its own store if that is still on its way. */
inline load(place, result) {
	d_step {
		result = word[place];
		i = 0;
		do
		:: i < buffered[cpu] ->
			if
			:: at[cpu * BUFFER + i] == (place) -> result = what[cpu * BUFFER + i]
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0
	}
}

inline store(place, it) {
	d_step {
		at[cpu * BUFFER + buffered[cpu]] = place;
		what[cpu * BUFFER + buffered[cpu]] = it;
		buffered[cpu]++
	}
}

/* Stores of a CPU reach memory, in any order. */
proctype Memory(byte cpu) {
end:
	do
	:: d_step {
		buffered[cpu] > 0 ->
		word[at[cpu * BUFFER]] = what[cpu * BUFFER];
		at[cpu * BUFFER] = at[cpu * BUFFER + 1];
		what[cpu * BUFFER] = what[cpu * BUFFER + 1];
		buffered[cpu]--;
		at[cpu * BUFFER + buffered[cpu]] = 0;
		what[cpu * BUFFER + buffered[cpu]] = 0
	   }
	:: d_step {
		buffered[cpu] > 1 ->
		word[at[cpu * BUFFER + 1]] = what[cpu * BUFFER + 1];
		buffered[cpu]--;
		at[cpu * BUFFER + 1] = 0;
		what[cpu * BUFFER + 1] = 0
	   }
	od
}

/* ask_back_add() */
inline add() {
#ifdef PLAIN_ADD
	old = value[e];
	value[e] = (old == 0 -> 2 : old + 1);
	done = true
#else
	old = value[e];
	tries = 0;
	do
	:: done || tries == TRIES -> break
	:: else ->
		d_step {
			fence(cpu) ->
			if
			:: value[e] == old -> value[e] = (old == 0 -> 2 : old + 1); done = true
			:: else -> old = value[e]; tries++
			fi
		}
	od
#endif
}

#ifdef GROUP8
/* The key is the claim: word 0 of an entry, 0 free. */
inline offer() {
	do
	:: e == ENTRIES -> break
	:: e < ENTRIES ->
		held = word[e * 2];
		if
		:: held == 0 ->
#ifdef PLAIN_CLAIM
			word[e * 2] = key + 1;
			held = key + 1
#else
			d_step {
				fence(cpu) ->
				held = word[e * 2];
				if
				:: held == 0 -> word[e * 2] = key + 1; held = key + 1
#ifdef FORGET_RIVAL
				:: else -> held = KEYS + 1
#else
				:: else
#endif
				fi
			}
#endif
		:: else
		fi;
		if
		:: held == key + 1 -> add(); break
		:: else -> e++
		fi
	od
}
#else
inline claim() {
#ifdef PLAIN_CLAIM
	tag[e] = true;
	claimed = true
#else
	atomic {
		fence(cpu) ->
		i = 0;
		claimed = true;
		do
		:: i < ENTRIES ->
			claimed = claimed && (tag[i] == seen[i]);
			i++
		:: else -> break
		od;
		i = 0;
		if
		:: claimed -> tag[e] = true
		:: else -> look()
		fi
	}
#endif
}

inline look() {
	i = 0;
	do
	:: i < ENTRIES -> seen[i] = tag[i]; i++
	:: else -> break
	od;
	i = 0
}

inline offer() {
	atomic { look() };
	do
	:: e == ENTRIES -> break
	:: e < ENTRIES && !seen[e] ->
		claim();
		if
		:: claimed ->
			store(e * 2, FIRST);
			store(e * 2 + 1, second(key));
			add();
			break
		:: !claimed && !seen[e] -> break
		:: else
		fi
	:: e < ENTRIES && seen[e] ->
#ifdef TAG_ONLY
		add();
		break
#else
		load(e * 2, held);
		if
		:: held == FIRST ->
			load(e * 2 + 1, held);
			if
			:: held == second(key) -> add(); break
			:: else -> e++
			fi
		:: else -> e++
		fi
#endif
	od
}
#endif

proctype Cpu(byte cpu) {
	byte n, key, e, i, held, old, tries;
	bool done, claimed;
	bool seen[ENTRIES];
	do
	:: n < TUPLES ->
		if
		:: key = 0
		:: key = 1
		fi;
		offered[key]++;
		offer();
		/* What a loop ends with may not be a d_step. */
		skip;
		d_step {
			travels[key] = travels[key] + !done;
			n++;
			e = 0;
			held = 0;
			old = 0;
			tries = 0;
			done = false;
			claimed = false;
			key = 0
		}
	:: n == TUPLES -> break
	od;
	ended++
}

#ifdef GROUP8
#define is_of(e, key) (word[(e) * 2] == (key) + 1)
#else
#define is_of(e, key) (word[(e) * 2] == FIRST && word[(e) * 2 + 1] == second(key))
#endif
#define is_live(e) (value[e] != 0)

proctype Check() {
	byte e, c, key, held, entries;
	atomic {
		ended == CPUS ->
		do
		:: c < CPUS -> fence(c); c++
		:: else -> break
		od;
		do
		:: key < KEYS ->
			held = 0;
			entries = 0;
			e = 0;
			do
			:: e < ENTRIES ->
				if
				:: is_live(e) && is_of(e, key) ->
					entries++;
					held = held + value[e] - 1
				:: else
				fi;
				e++
			:: else -> break
			od;
			assert(held == offered[key] - travels[key]);
#ifdef GROUP8
			assert(entries <= 1);
#endif
			key++
		:: else -> break
		od
	}
}

init {
	byte c;
	atomic {
		do
		:: c < CPUS -> run Memory(c); run Cpu(c); c++
		:: else -> break
		od;
		c = 0;
		run Check()
	}
}
