/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The microsecond barrier of a swap: a word per CPU says whether a run of the switch program is under way there;
 * after the flip, the flipper waits until every CPU has been outside once.
 *
 * Code: bpf/engine/presence.bpf.h, loader/copy_barrier.cpp, flip() and blank() in loader/controller_swap.cpp.
 *
 * Memory: -DTSO: x86. Each CPU has a first-in first-out store buffer and sees its own stores in it; atomics drain it.
 * -DWEAK: stores to different places leave the buffer in any order, and a load may be served early, down to the last
 * fence: as arm64 does, for the orders that matter here. An atomic that returns a value is fully ordered (the
 * kernel's rule, LKMM); one that does not return a value orders nothing under -DWEAK.
 *
 * Abstracted: a run adds one tuple, to an aggregator of its CPU, in one step as that CPU sees it (what runs on one
 * CPU do to each other's aggregators is memory.pml's matter); the hardware keeps address dependencies (aggregator
 * after copy index). Runs on a CPU nest strictly, as interrupts do.
 *
 * Checked: what the flipper fetched and what lies in memory at the end are together exactly what was added; the
 * flipper gets through.
 *
 * Bounds: CPUS CPUs with RUNS runs each, NESTED more in the middle of these or between them; SWAPS swaps. CPUs share
 * nothing but the copy index, which they only read, and the flipper waits for one after the other.
 *
 * holds  tso: -DTSO
 * holds  weak: -DWEAK
 * holds  tso_two_cpus: -DTSO -DCPUS=2 -DRUNS=2 -DNESTED=0 -DSWAPS=2
 * holds  weak_two_cpus: -DWEAK -DCPUS=2 -DRUNS=2 -DNESTED=0 -DSWAPS=2
 * full   tso_two_cpus_nested: -DTSO -DCPUS=2 -DRUNS=1 -DNESTED=1 -DSWAPS=2
 * full   weak_two_cpus_nested: -DWEAK -DCPUS=2 -DRUNS=1 -DNESTED=1 -DSWAPS=2
 * full   tso_longer: -DTSO -DRUNS=4 -DNESTED=2 -DSWAPS=4
 * full   weak_longer: -DWEAK -DRUNS=4 -DNESTED=2 -DSWAPS=4
 *
 * breaks tso_plain_entry: -DTSO -DENTRY_PLAIN ! ==added
 * breaks weak_plain_entry: -DWEAK -DENTRY_PLAIN ! ==added
 * breaks weak_entry_returns_nothing: -DWEAK -DENTRY_RELAXED ! ==added
 * breaks weak_exit_returns_nothing: -DWEAK -DEXIT_RELAXED ! ==added
 * breaks tso_exit_before_last_store: -DTSO -DEXIT_EARLY ! ==added
 * breaks tso_flip_without_fence: -DTSO -DFLIP_NO_FENCE ! ==added
 * breaks tso_flip_after_looking: -DTSO -DFLIP_LATE ! ==added
 * breaks tso_wait_for_passes_only: -DTSO -DPASSES_ONLY ! invalid end state
 * breaks tso_flag_instead_of_depth: -DTSO -DFLAG ! ==added
 * breaks tso_nested_exit_is_a_pass: -DTSO -DNESTED_PASSES ! ==added
 * breaks tso_no_wait: -DTSO -DNO_WAIT ! ==added
 * breaks weak_read_without_acquire: -DWEAK -DREAD_EARLY ! ==added
 * breaks weak_flip_without_release: -DWEAK -DBLANK_NO_RELEASE ! ==added
 *
 * Not a defect of the code but the edge of what it promises: runs that one CPU may take turns in (programs run from
 * preemptible context).
 * breaks tso_runs_that_do_not_nest: -DTSO -DPREEMPTIBLE ! ==added
 */

#ifndef CPUS
#define CPUS 1
#endif
#ifndef RUNS
#define RUNS 3
#endif
#ifndef NESTED
#define NESTED 2
#endif
#ifndef SWAPS
#define SWAPS 3
#endif

#define FLIPPER CPUS
#define OWNERS (CPUS + 1)
#define BUFFER 3

/* Places in memory. */
#define COPY 0
#define WORD(cpu) (1 + (cpu))
#define CELL(cpu, k) (1 + CPUS + (cpu) * 2 + (k))
#define PLACES (1 + CPUS * 3)

/* A word: nesting depth in the low bits, passes above. */
#define PASS 4
#define depth(word) ((word) % PASS)
#define passes(word) ((word) / PASS)

byte mem[PLACES];
byte buffer_place[OWNERS * BUFFER];
byte buffer_value[OWNERS * BUFFER];
byte buffered[OWNERS];
bool interrupted[CPUS];

/* What the checker knows and the program does not. */
byte added;
byte fetched;
byte ended;

#define place_at(owner, at) buffer_place[(owner) * BUFFER + at]
#define value_at(owner, at) buffer_value[(owner) * BUFFER + at]
#define fence(owner) (buffered[owner] == 0)
#define has_room(owner) (buffered[owner] < BUFFER)

/* What the owner sees at a place: its own last store, if that is still on its way. */
inline load(owner, place, value) {
	d_step {
		value = mem[place];
		i = 0;
		do
		:: i < buffered[owner] ->
			if
			:: place_at(owner, i) == (place) -> value = value_at(owner, i)
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0
	}
}

/* Only where has_room() */
inline store(owner, place, value) {
	place_at(owner, buffered[owner]) = place;
	value_at(owner, buffered[owner]) = value;
	buffered[owner]++
}

/* Entry `at` of the owner's buffer reaches memory. */
inline commit(owner, at) {
	mem[place_at(owner, at)] = value_at(owner, at);
	i = at;
	do
	:: i + 1 < buffered[owner] ->
		place_at(owner, i) = place_at(owner, i + 1);
		value_at(owner, i) = value_at(owner, i + 1);
		i++
	:: else -> break
	od;
	place_at(owner, i) = 0;
	value_at(owner, i) = 0;
	buffered[owner]--;
	i = 0
}

/* Empties an owner's store buffer, at any moment. */
proctype Memory(byte owner) {
	byte i;
end:
	do
	:: d_step { buffered[owner] > 0 -> commit(owner, 0) }
#ifdef WEAK
	:: d_step {
		buffered[owner] > 1 && place_at(owner, 1) != place_at(owner, 0) ->
		commit(owner, 1)
	   }
	:: d_step {
		buffered[owner] > 2 && place_at(owner, 2) != place_at(owner, 0) &&
		place_at(owner, 2) != place_at(owner, 1) ->
		commit(owner, 2)
	   }
#endif
	od
}

/* An atomic on the CPU's word in memory. */
inline count_in(cpu) {
#ifdef FLAG
	mem[WORD(cpu)] = 1
#else
	mem[WORD(cpu)] = mem[WORD(cpu)] + 1
#endif
}

inline count_out(cpu) {
#if defined(FLAG)
	mem[WORD(cpu)] = 0
#elif defined(NESTED_PASSES)
	mem[WORD(cpu)] = mem[WORD(cpu)] + PASS - 1
#else
	mem[WORD(cpu)] = mem[WORD(cpu)] + (outer -> PASS - 1 : -1)
#endif
}

/* The run announces itself and then reads the copy index. */
inline enter(cpu, level) {
#if defined(ENTRY_PLAIN)
	atomic { has_room(cpu) -> interrupted[cpu] = level };
	load(cpu, WORD(cpu), k);
	d_step { has_room(cpu) -> store(cpu, WORD(cpu), k + 1) };
	load(cpu, COPY, k)
#elif defined(ENTRY_RELAXED)
	if
	:: d_step { interrupted[cpu] = level; count_in(cpu) };
	   load(cpu, COPY, k)
	:: atomic { interrupted[cpu] = level; load(cpu, COPY, k) };
	   d_step { count_in(cpu) }
	fi
#else
	d_step { fence(cpu) -> interrupted[cpu] = level; count_in(cpu) };
	load(cpu, COPY, k)
#endif
}

/* Looks whether it is the outermost run, then says so. */
inline leave(cpu) {
	atomic { load(cpu, WORD(cpu), v); outer = depth(v) == 1; v = 0 };
#ifdef EXIT_RELAXED
	d_step { count_out(cpu) }
#else
	d_step { fence(cpu) -> count_out(cpu) }
#endif
}

/* Adds a tuple to the copy that the run has read. */
inline add(cpu) {
	atomic {
		has_room(cpu) ->
		load(cpu, CELL(cpu, k), v);
		store(cpu, CELL(cpu, k), v + 1);
		added++;
		v = 0;
		k = 0
	}
}

/* A packet. */
inline pass(cpu, level) {
	enter(cpu, level);
#ifdef EXIT_EARLY
	leave(cpu);
	add(cpu);
#else
	add(cpu);
	leave(cpu);
#endif
	d_step {
		interrupted[cpu] = false;
		outer = false;
		n++;
		ended = ended + (n == (level -> NESTED : RUNS))
	}
}

#ifdef PREEMPTIBLE
proctype Cpu(byte cpu) {
#else
proctype Cpu(byte cpu) provided (!interrupted[cpu]) {
#endif
	byte i, n, k, v;
	bool outer;
	do
	:: n < RUNS -> pass(cpu, 0)
	:: n == RUNS -> break
	od
}

/* Runs that come in the middle of another. */
proctype Interrupt(byte cpu) {
	byte i, n, k, v;
	bool outer;
	do
	:: n < NESTED -> pass(cpu, 1)
	:: n == NESTED -> break
	od
}

/* Waits until the CPU has been outside once since now. */
inline wait_for(cpu) {
#if defined(NO_WAIT)
	skip
#elif defined(PASSES_ONLY)
	v = mem[WORD(cpu)];
	passes(mem[WORD(cpu)]) != passes(v)
#else
	v = mem[WORD(cpu)];
	if
	:: depth(v) == 0
	:: depth(v) != 0 -> (passes(mem[WORD(cpu)]) != passes(v) || depth(mem[WORD(cpu)]) == 0)
	fi
#endif
}

inline wait_for_all() {
	do
	:: c < CPUS -> wait_for(c); atomic { c++; v = 0 }
	:: c == CPUS -> c = 0; break
	od
}

/* Reads the copy, aggregator by aggregator. */
inline fetch(copy) {
	do
	:: d_step { c < CPUS -> fetched = fetched + mem[CELL(c, copy)]; c++ }
	:: c == CPUS -> c = 0; break
	od
}

inline blank(copy) {
	do
	:: d_step { c < CPUS && has_room(FLIPPER) -> store(FLIPPER, CELL(c, copy), 0); c++ }
	:: c == CPUS -> c = 0; break
	od
}

inline flip(copy) {
	d_step { has_room(FLIPPER) -> store(FLIPPER, COPY, 1 - (copy)) };
#ifndef FLIP_NO_FENCE
	fence(FLIPPER)
#endif
}

inline swap(copy) {
#if defined(FLIP_LATE)
	wait_for_all();
	flip(copy);
	fetch(copy);
#elif defined(READ_EARLY)
	flip(copy);
	/* The loads of the copy may be served before those that end the wait. */
	if
	:: fetch(copy); wait_for_all()
	:: wait_for_all(); fetch(copy)
	fi;
#else
	flip(copy);
	wait_for_all();
	fetch(copy);
#endif
	blank(copy);
#ifndef BLANK_NO_RELEASE
	fence(FLIPPER)
#endif
}

proctype Flipper() {
	byte epoch, c, v;
	do
	:: epoch < SWAPS -> swap(epoch % 2); epoch++
	:: epoch == SWAPS -> ended++; break
	od
}

/* Once everything has ended and reached memory. */
proctype Check() {
	byte rest, c;
	atomic {
		ended == CPUS * (NESTED -> 2 : 1) + 1 ->
		do
		:: c < OWNERS -> fence(c); c++
		:: else -> break
		od;
		c = CELL(0, 0);
		do
		:: c < PLACES -> rest = rest + mem[c]; c++
		:: else -> break
		od;
		assert(fetched + rest == added)
	}
}

init {
	byte c;
	atomic {
		do
		:: c < OWNERS -> run Memory(c); c++
		:: else -> break
		od;
		c = 0;
		do
		:: c < CPUS -> run Cpu(c); run Interrupt(c); c++
		:: else -> break
		od;
		c = 0;
		run Flipper();
		run Check()
	}
}
