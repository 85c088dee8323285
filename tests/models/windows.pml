/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream without an end whose windows are tasks, of a design (docs/decisions/0034): which window a tuple is in, whatever dies.
 *
 * Code: lib/control/receive/stream.cpp, lib/client/stream_send.cpp, tools/cli/stream_dir.cpp and every.cpp.
 *
 * Two senders have TUPLES tuples each. A sender gives each to the window that it is in, keeps what it has given to
 * windows that are not committed, and cuts when it likes, if the next window is open and it keeps fewer than KEPT. A window is a run of a task: whoever is a
 * member of the window joins it once and sends what it keeps of that window, some of it before the cut; the run is over when all
 * have ended, and its table is what came. The application gives the table its name in a directory, which is the commit, and confirms,
 * so that senders are told. AHEAD windows are open at a time, of which the first two have runs. The directory survives: the tables, who is a member of which window, and
 * nothing else does. Runs fail; the receiver's application dies, and a result that it had not confirmed is kept by its agent;
 * the agent dies; a sender loses its session; a sender dies with what it has kept; one that is silent is left out of a window, and
 * comes back.
 *
 * Abstracted: a run takes each tuple of a session once (dedupe.pml, swap.pml), from a tree of relays, too (relay.pml); clocks: a window is cut at any time.
 *
 * Checked: no tuple is in two windows, or twice in one; whoever lets go what it has kept of a window finds all of it there, or
 * is named there; so is a sender that died with what is not; nobody waits for ever.
 *
 * holds  no_fault:
 * holds  one_leaves: -DLEAVES=1
 * holds  receiver_dies: -DKILLS=1
 * holds  agent_dies: -DAGENTS=1
 * holds  run_fails: -DLOSSES=1
 * holds  session_lost: -DSESSIONS=1
 * holds  sender_dies: -DDEATHS=1
 * holds  left_out: -DLEFT_OUT=1
 * full   one_leaves_and_run_fails: -DLEAVES=1 -DLOSSES=1
 * full   left_out_and_run_fails: -DLEFT_OUT=1 -DLOSSES=1
 * full   both_come: -DBOTH_COME
 * full   three_windows: -DWINDOWS=3
 * full   two_tuples: -DTUPLES=2
 * full   comes_back: -DWINDOWS=3 -DLEFT_OUT=1
 * full   left_out_and_receiver_dies: -DLEFT_OUT=1 -DKILLS=1
 * full   sender_and_receiver_die: -DDEATHS=1 -DKILLS=1
 * full   receiver_dies_twice: -DKILLS=2
 * full   receiver_and_agent_die: -DKILLS=1 -DAGENTS=1
 * holds  three_open: -DWINDOWS=3 -DAHEAD=3
 * full   three_open_one_leaves: -DWINDOWS=3 -DAHEAD=3 -DLEAVES=1
 * full   three_open_receiver_dies: -DWINDOWS=3 -DAHEAD=3 -DKILLS=1
 * full   three_open_agent_dies: -DWINDOWS=3 -DAHEAD=3 -DAGENTS=1
 * full   three_open_run_fails: -DWINDOWS=3 -DAHEAD=3 -DLOSSES=1
 * full   three_open_sender_dies: -DWINDOWS=3 -DAHEAD=3 -DDEATHS=1
 * full   three_open_left_out: -DWINDOWS=3 -DAHEAD=3 -DLEFT_OUT=1
 *
 * breaks confirmed_before_named: -DCONFIRM_EARLY ! kept_is_there
 * breaks directory_not_read: -DKILLS=1 -DFORGET_TABLES ! invalid end state
 * breaks let_go_at_the_end: -DLOSSES=1 -DLET_GO_AT_END ! named_if_lost
 * breaks moves_on_after_a_failure: -DAGENTS=1 -DMOVE_ON ! in_one_window
 * breaks kept_result_beside_a_new_run: -DKILLS=1 -DKEEP_OLD ! written_once
 * breaks first_window_without_the_lock: -DJOIN_RACE ! kept_is_there
 * breaks windows_end_in_any_order: -DBOTH_COME -DOUT_OF_ORDER ! kept_is_there
 * breaks session_joins_again: -DSESSIONS=1 -DREJOIN ! twice_in_a_run
 * breaks members_not_on_disk: -DDEATHS=1 -DKILLS=1 -DFORGET_MEMBERS ! named_if_lost
 * breaks let_go_when_left_out: -DLEFT_OUT=1 -DLOSSES=1 -DLET_GO_LEFT_OUT ! named_if_lost
 * breaks left_out_carries_over: -DLEFT_OUT=1 -DCARRY_OVER ! in_one_window
 * breaks leaves_before_the_commit: -DLEAVES=1 -DLEAVE_EARLY ! kept_is_there
 * breaks cut_without_end: -DWINDOWS=3 -DAHEAD=3 -DKEPT=2 -DCUT_AHEAD ! no_more_kept
 */

#ifndef TUPLES
#define TUPLES 1
#endif
#ifndef WINDOWS
#define WINDOWS 2
#endif
/* Windows that are open at a time. */
#ifndef AHEAD
#define AHEAD 2
#endif
/* Of these, that have a run. */
#define RUNS 2
/* Windows that a sender keeps at most. */
#ifndef KEPT
#define KEPT AHEAD
#endif
/* How often each may happen: to the receiver's application, to its agent, to a run, to a session, to a sender; and that one is left out. */
#ifndef KILLS
#define KILLS 0
#endif
#ifndef AGENTS
#define AGENTS 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef SESSIONS
#define SESSIONS 0
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef LEFT_OUT
#define LEFT_OUT 0
#endif
/* The sender that may leave before the last window, if any. */
#ifndef LEAVES
#define LEAVES 9
#endif

#define NOWHERE 255
/* Sets of windows, of senders and of tuples. */
#define bit(n) (1 << (n))
#define has(set, n) (((set) >> (n)) & 1)
#define from_on(w) ((bit(WINDOWS) - 1) & ~(bit(w) - 1))
#define tuple_of(s, t) bit((s) * TUPLES + (t))

/* The directory: whether a window has its table, what is in it, and who is named as missing; and of which windows each sender is a member. */
bool written[WINDOWS];
byte table_of[WINDOWS];
byte named[WINDOWS];
byte member[2];

/* The agent's. A run is known by its number, which is never used again. */
bool open;
byte committed;
byte runs[WINDOWS];
byte run_of[WINDOWS];
byte table[WINDOWS];
byte joined[WINDOWS];
byte ended[WINDOWS];
byte missing[WINDOWS];
byte broken[WINDOWS];
bool computed[WINDOWS];
bool kept[WINDOWS];
/* The run whose members are told of success. */
byte told[WINDOWS];

/* A sender's: the window that it is in, how many are committed as it knows, and by window what it keeps, its session and what that has sent. */
byte in[2] = NOWHERE;
byte known[2];
byte produced[2];
byte spool[2 * WINDOWS];
byte session[2 * WINDOWS];
byte sent[2 * WINDOWS];
bool leaving[2];
bool gone[2];
bool dead[2];
#define of(s, w) ((s) * WINDOWS + (w))

byte kills, agents, losses, sessions, deaths, left_out;

/* What is checked, by name. */
bool written_once = true;
bool in_one_window = true;
bool twice_in_a_run;
bool kept_is_there = true;
bool no_more_kept = true;
bool named_if_lost = true;

#define is_member(s, w) has(member[s], w)
#define over_for(s, w) (!is_member(s, w) || has(ended[w] | missing[w], s))
#define is_open(w) (open && (w) >= committed && (w) < committed + AHEAD)
#define goes_on(w) (is_open(w) && run_of[w] != 0 && !computed[w])

inline clear_run(n) {
    run_of[n] = 0;
    table[n] = 0;
    joined[n] = 0;
    ended[n] = 0;
    missing[n] = 0;
    broken[n] = 0;
    computed[n] = false;
    kept[n] = false
}

inline begin_run(n) {
    clear_run(n);
    runs[n]++;
    run_of[n] = runs[n]
}

/* What it may be a member of ends with the windows that are open. */
inline leave_out(s, n) {
    missing[n] = missing[n] | bit(s);
    member[s] = member[s] & ~from_on(committed + AHEAD)
}

/* In their order: who becomes a member of one is a member of all that follow. */
#ifdef OUT_OF_ORDER
#define may_end(w) true
#else
#define may_end(w) ((w) == committed)
#endif

/* The runs of one window, which the agent sees to. */
proctype window(byte w) {
    do
    :: atomic { is_open(w) && w < committed + RUNS && run_of[w] == 0 -> begin_run(w) }
    :: atomic { goes_on(w) && may_end(w) && over_for(0, w) && over_for(1, w) -> computed[w] = true }
    /* Who has joined and is not heard of: the run has failed, or goes on without. */
    :: atomic { goes_on(w) && (broken[w] & ~(ended[w] | missing[w])) != 0 -> clear_run(w) }
    :: atomic { goes_on(w) && (broken[w] & ~(ended[w] | missing[w])) != 0 -> missing[w] = missing[w] | (broken[w] & ~ended[w]) }
    :: atomic { goes_on(w) && w == committed && dead[1] && !over_for(1, w) -> leave_out(1, w) }
    :: atomic { left_out < LEFT_OUT && goes_on(w) && w == committed && !over_for(1, w) -> left_out++; leave_out(1, w) }
    :: atomic { losses < LOSSES && goes_on(w) -> losses++; clear_run(w) }
    :: atomic { committed > w && written[w] && !kept[w] -> break }
    od
}

/* A table gets its name. */
inline give_name(what, who) {
    written_once = !written[committed] || table_of[committed] == what;
    assert(written_once);
    i = 0;
    do
    :: i < WINDOWS ->
        in_one_window = in_one_window && (i == committed || (table_of[i] & what) == 0);
        i++
    :: else -> break
    od;
    i = 0;
    assert(in_one_window);
    written[committed] = true;
    table_of[committed] = what;
    named[committed] = who
}

/* Senders of that run are told, and the window is not run again. */
inline confirm() {
    told[committed] = run_of[committed];
    clear_run(committed);
    committed++
}

/* What a dead application leaves at its agent: the results that it has not confirmed. */
inline leave_results() {
    open = false;
    i = 0;
    do
    :: i < WINDOWS ->
        if
        :: computed[i] -> kept[i] = true
        :: else -> clear_run(i)
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

inline forget_all() {
    open = false;
    i = 0;
    do
    :: i < WINDOWS -> clear_run(i); told[i] = 0; i++
    :: else -> break
    od;
    i = 0
}

/* The application begins: it reads its directory, and its agent hears of it. */
inline begin() {
    committed = 0;
#ifndef FORGET_TABLES
    do
    :: committed < WINDOWS && written[committed] ->
        if
        /* Named, and not confirmed: whoever still waits is told. */
        :: kept[committed] -> told[committed] = run_of[committed]; clear_run(committed)
        :: else
        fi;
        committed++
    :: else -> break
    od;
#endif
#ifdef FORGET_MEMBERS
    /* Who lives says again what it is; who has died does not. */
    member[1] = (dead[1] -> 0 : member[1]);
#endif
    open = true
}

proctype application() {
    byte i;
#ifdef KEEP_OLD
    byte old, whose;
#endif
    atomic { begin() }
    do
    :: atomic { committed < WINDOWS && computed[committed] && !kept[committed] && !written[committed] ->
#ifdef CONFIRM_EARLY
        told[committed] = run_of[committed]
       }
       atomic { true ->
#endif
        give_name(table[committed], missing[committed])
       }
    :: atomic { committed < WINDOWS && computed[committed] && !kept[committed] && written[committed] -> confirm() }
    /* A result that was kept is taken after all, or let go, and the window run again. */
    :: atomic { committed < WINDOWS && kept[committed] -> kept[committed] = false }
    :: atomic { committed < WINDOWS && kept[committed] -> begin_run(committed) }
    :: atomic { committed + 1 < WINDOWS && kept[committed + 1] -> begin_run(committed + 1) }
#ifdef KEEP_OLD
    /* Taken only now, when there is another run. */
    :: atomic { committed < WINDOWS && kept[committed] && old == 0 -> old = table[committed]; whose = committed; begin_run(committed) }
    :: atomic { committed < WINDOWS && old != 0 && whose == committed && written[committed] -> give_name(old, 0); old = 0 }
#endif
    :: atomic { kills < KILLS && committed < WINDOWS -> kills++; leave_results() }
       atomic { begin() }
    :: atomic { agents < AGENTS && committed < WINDOWS -> agents++; forget_all() }
       atomic { begin() }
    :: atomic { committed == WINDOWS -> break }
    od
}

/* What it has kept of a window that is committed: all of it is there, or it is named. */
inline let_go(w) {
    kept_is_there = (spool[of(me, w)] & ~table_of[w]) == 0 || has(named[w], me);
    assert(kept_is_there);
    spool[of(me, w)] = 0;
    session[of(me, w)] = 0;
    sent[of(me, w)] = 0
}

/* Its tuples of a window go to the one that it is in. */
inline carry_over(w) {
    if
    :: w < in[me] && in[me] < WINDOWS ->
        spool[of(me, in[me])] = spool[of(me, in[me])] | spool[of(me, w)];
        spool[of(me, w)] = 0
    :: else
    fi
}

#define is_sending(s, w) (session[of(s, w)] != 0 && session[of(s, w)] == run_of[w] && !computed[w] && !has(ended[w] | missing[w], s))

/* From where its present send, of a run of a window, has got. */
inline send_all(w) {
    twice_in_a_run = (table[w] & spool[of(me, w)] & ~sent[of(me, w)]) != 0;
    assert(!twice_in_a_run);
    table[w] = table[w] | spool[of(me, w)];
    sent[of(me, w)] = spool[of(me, w)]
}

/* A run once. */
#ifdef REJOIN
#define may_join(w) true
#else
#define may_join(w) (!has(joined[w], me))
#endif

/* One window of a sender: its session. */
proctype session_of(byte me; byte w) {
    do
    :: atomic { goes_on(w) && is_member(me, w) && session[of(me, w)] == 0 && !has(missing[w], me) && !dead[me] && !gone[me] && may_join(w) ->
        session[of(me, w)] = run_of[w];
        joined[w] = joined[w] | bit(me)
       }
    /* What it has by now. Without one of these faults it makes no difference whether it is sent before the end or with it. */
    :: atomic { SESSIONS + DEATHS + LEFT_OUT > 0 && is_sending(me, w) && sent[of(me, w)] != spool[of(me, w)] -> send_all(w) }
    /* It has cut the window: what is left, and the end. */
    :: atomic { is_sending(me, w) && in[me] != NOWHERE && (w < in[me] || leaving[me]) ->
        send_all(w);
        ended[w] = ended[w] | bit(me);
#ifdef LET_GO_AT_END
        spool[of(me, w)] = 0
#endif
       }
    :: atomic { session[of(me, w)] != 0 && session[of(me, w)] == told[w] -> let_go(w) }
    /* Its run has failed: it asks the stream before it sends anything again. */
    :: atomic { session[of(me, w)] != 0 && session[of(me, w)] != run_of[w] && session[of(me, w)] != told[w] ->
        session[of(me, w)] = 0;
        sent[of(me, w)] = 0;
#ifdef MOVE_ON
        carry_over(w)
#endif
       }
    /* It is told that it was left out: what it keeps stays until that is committed. */
    :: atomic { session[of(me, w)] != 0 && session[of(me, w)] == run_of[w] && has(missing[w], me) ->
        session[of(me, w)] = 0;
        sent[of(me, w)] = 0;
#ifdef LET_GO_LEFT_OUT
        spool[of(me, w)] = 0;
#endif
#ifdef CARRY_OVER
        carry_over(w)
#endif
       }
    :: atomic { me == 1 && sessions < SESSIONS && session[of(me, w)] != 0 && session[of(me, w)] == run_of[w] ->
        sessions++;
        broken[w] = broken[w] | bit(me);
        session[of(me, w)] = 0;
        sent[of(me, w)] = 0
       }
    :: atomic { dead[me] || gone[me] || known[me] > w ->
        session[of(me, w)] = 0;
        sent[of(me, w)] = 0;
        break
       }
    od
}

/* From the first window on that is not over it is one that is waited for. */
inline become_member() {
    i = (in[me] == NOWHERE || in[me] < committed -> committed : in[me] + 1);
    do
    :: i < WINDOWS && i < committed + AHEAD && computed[i] -> i++
    :: else -> break
    od;
    member[me] = member[me] | from_on(i);
    if
    :: in[me] == NOWHERE || in[me] < committed -> in[me] = i; known[me] = committed
    :: else
    fi;
    i = 0
}

/* Where the next of its windows begins. */
#define next_of(s) (is_member(s, in[s] + 1) -> in[s] + 1 : in[s] + 2)

#ifdef CUT_AHEAD
#define may_cut true
#else
#define may_cut (next_of(me) < known[me] + KEPT)
#endif

proctype sender(byte me) {
    byte i;
    do
#ifdef JOIN_RACE
    :: atomic { open && in[me] == NOWHERE && committed < WINDOWS -> in[me] = committed }
       atomic { open -> member[me] = from_on(committed) }
#else
    :: atomic { open && in[me] == NOWHERE && committed < WINDOWS -> become_member() }
    /* It was left out, and comes back. */
    :: atomic { open && in[me] < WINDOWS && in[me] >= known[me] && known[me] == committed && (member[me] & from_on(in[me] + 1)) == 0 && in[me] + 1 < WINDOWS && !leaving[me] && is_member(me, in[me]) -> become_member() }
#endif
    :: atomic { in[me] < WINDOWS && produced[me] < TUPLES && !leaving[me] ->
        no_more_kept = in[me] < known[me] + KEPT;
        assert(no_more_kept);
        spool[of(me, in[me])] = spool[of(me, in[me])] | tuple_of(me, produced[me]);
        produced[me]++
       }
    /* The cut: it has heard of the next one, and goes on to it by its own clock, whether the receiver is there or not. */
    :: atomic { in[me] + 1 < WINDOWS && !leaving[me] && is_member(me, in[me]) && (member[me] & from_on(in[me] + 1)) != 0 &&
                next_of(me) < WINDOWS && next_of(me) < known[me] + AHEAD && may_cut -> in[me] = next_of(me) }
    /* The model ends with the last one. */
    :: atomic { in[me] == WINDOWS - 1 && !leaving[me] && is_member(me, in[me]) && produced[me] == TUPLES -> in[me] = WINDOWS }
    /* It leaves with the window that it is in, and stays until that is committed. */
    :: atomic { me == LEAVES && open && in[me] < WINDOWS && is_member(me, in[me]) && produced[me] == TUPLES && !leaving[me] ->
        leaving[me] = true;
#ifdef LEAVE_EARLY
        member[me] = member[me] & ~from_on(in[me])
#else
        member[me] = member[me] & ~from_on(in[me] + 1)
#endif
       }
    /* The stream says how far it is. */
    :: atomic { open && known[me] < committed ->
        let_go(known[me]);
        known[me]++;
        if
        :: in[me] != NOWHERE && in[me] < known[me] && !leaving[me] -> in[me] = NOWHERE; member[me] = member[me] & ~from_on(known[me])
        :: else
        fi
       }
    :: atomic { me == 1 && deaths < DEATHS && in[me] < WINDOWS && !leaving[me] -> deaths++; dead[me] = true; break }
    :: atomic { leaving[me] && in[me] < known[me] -> gone[me] = true; break }
    :: atomic { known[me] == WINDOWS -> gone[me] = true; break }
    od;
    in[me] = NOWHERE
}

#define given_by(s) ((bit(produced[s]) - 1) << ((s) * TUPLES))

init {
    byte n, all, who;
    atomic {
#ifndef BOTH_COME
        /* One has been there from the first on. */
        in[0] = 0;
        member[0] = from_on(0);
#endif
        run application();
        n = 0;
        do
        :: n < WINDOWS -> run window(n); run session_of(0, n); run session_of(1, n); n++
        :: else -> break
        od;
        n = 0;
        run sender(0);
        run sender(1)
    };
    /* Whatever a sender has given is there, or it is named. */
    atomic {
        committed == WINDOWS && (gone[0] || dead[0]) && (gone[1] || dead[1]) ->
        do
        :: n < WINDOWS -> all = all | table_of[n]; who = who | named[n]; n++
        :: else -> break
        od;
        named_if_lost = has(who, 0) || (given_by(0) & ~all) == 0;
        named_if_lost = named_if_lost && (has(who, 1) || (given_by(1) & ~all) == 0);
        assert(named_if_lost)
    }
}
