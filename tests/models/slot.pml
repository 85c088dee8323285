/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slot of a value stream: CPUs take it, fold partials into it and find it complete, while a daemon empties it.
 *
 * Code: own_slot(), offer_value() and release_slot() in bpf/values/; the collector is lib/values/collector.cpp's.
 *
 * Memory: only who owns a slot looks at it, and an exchange gives it back, so stores are taken to be in order here;
 * a fold is two words, each read and written back in steps of its own.
 *
 * Abstracted: a member's value is its own bit, so the fold of a set is the set, in both words. A switch that has no
 * slot to give forwards; what is forwarded may also be lost, since the collector is asked again.
 *
 * Checked: a partial that leaves, and a result, have in each word exactly their set (V1); once all have ended, the
 * slot, if it is not empty, does.
 *
 * Bounds: MEMBERS members, each of which sends its value REPEATS times, by either of CPUS CPUs; WIPES wipes, of which
 * any may be a taking-over by another chunk.
 *
 * holds  folds:
 * holds  not_wiped: -DWIPES=0
 * full   wiped_more: -DWIPES=2
 * full   three_cpus: -DCPUS=3 -DREPEATS=1
 *
 * breaks not_owned: -DNO_OWNER ! word
 * breaks wiped_by_store: -DWIPE_ANYHOW ! word
 * breaks repeat_folded: -DFOLD_REPEAT ! word
 * breaks any_new: -DFOLD_ANY_NEW ! word
 * breaks blanked: -DBLANK_AND_ADD ! word
 * breaks given_back_early: -DRELEASE_FIRST ! word
 */

#ifndef CPUS
#define CPUS 2
#endif
#ifndef MEMBERS
#define MEMBERS 3
#endif
#ifndef REPEATS
#define REPEATS 2
#endif
#ifndef WIPES
#define WIPES 1
#endif

#define ALL ((1 << MEMBERS) - 1)
#define EMPTY 0
#define OPEN 1
#define DONE 2

/* Counts of each member in a word, two bits each, so that who is in twice shows. */
#define part_of(m) (1 << (2 * (m)))
#define counts_of(set) \
	(((set) & 1) + (((set) >> 1 & 1) << 2) + (((set) >> 2 & 1) << 4))

bool owned;
byte phase;
byte set;
byte word[2];
byte left[MEMBERS]; /* sends to come */
bool up;	    /* a partial of members 0 and 1 comes too, from a switch below */
byte ended;

inline own() {
#ifdef NO_OWNER
	skip
#else
	atomic { !owned -> owned = true }
#endif
}

inline release() {
#ifdef NO_OWNER
	skip
#else
	owned = false
#endif
}

/* One word after the other, each a read and a write. */
inline add_words() {
	x = word[0];
	word[0] = x + counts_of(mine);
	x = word[1];
	word[1] = x + counts_of(mine)
}

inline copy_words() {
#ifdef BLANK_AND_ADD
	/* The words may be a former owner's: blanked by a second step, after the slot is given out. */
	add_words()
#else
	word[0] = counts_of(mine);
	word[1] = counts_of(mine)
#endif
}

inline check_slot() {
	assert(word[0] == counts_of(set) && word[1] == counts_of(set))
}

inline offer() {
	own();
	if
	:: phase == EMPTY ->
		set = mine;
		phase = OPEN;
		copy_words()
	:: phase == OPEN ->
		if
#ifdef FOLD_ANY_NEW
		:: (mine & ~set) != 0 -> set = set | mine; add_words()
		:: else -> skip
#else
#ifdef FOLD_REPEAT
		:: (set & mine) == mine -> add_words()
#else
		:: (set & mine) == mine -> skip
#endif
		:: (set & mine) != mine && (set & mine) == set ->
			set = mine;
			copy_words()
		:: (set & mine) == 0 ->
			set = set | mine;
#ifdef RELEASE_FIRST
			release();
#endif
			add_words()
		:: (set & mine) != 0 && (set & mine) != mine && (set & mine) != set ->
			skip /* crosses: forwarded */
#endif
		fi
	:: phase == DONE -> skip
	fi;
	if
	:: phase == OPEN && set == ALL ->
		phase = DONE;
		check_slot() /* the result leaves */
	:: else -> skip
	fi;
	release()
}

proctype cpu() {
	byte mine, x;
	byte m;
	do
	:: atomic { left[0] > 0 -> left[0]--; mine = 1 }
		offer()
	:: atomic { left[1] > 0 -> left[1]--; mine = 2 }
		offer()
	:: atomic { left[2] > 0 -> left[2]--; mine = 4 }
		offer()
	:: atomic { up -> up = false; mine = 3 }
		offer()
	:: atomic { up -> up = false; mine = 6 }
		offer()
	:: else -> break
	od;
	ended++
}

/* A daemon, or another chunk that takes the slot over: it leaves words behind that are not this chunk's. */
proctype wiper() {
	byte wipes = WIPES;
	do
	:: wipes > 0 ->
		wipes--;
#ifndef WIPE_ANYHOW
		own();
#endif
		phase = EMPTY;
		word[0] = 1;
		word[1] = 3;
#ifndef WIPE_ANYHOW
		release()
#endif
	:: break
	od;
	ended++
}

init {
	byte i;
	atomic {
		left[0] = REPEATS;
		left[1] = REPEATS;
		left[2] = REPEATS;
		up = true;
		i = 0;
		do
		:: i < CPUS -> run cpu(); i++
		:: else -> break
		od;
		run wiper()
	}
	ended == CPUS + 1;
	if
	:: phase != EMPTY -> check_slot()
	:: else -> skip
	fi
}
