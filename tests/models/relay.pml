/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task on a chain of relays that begins again, while relays die at any point: who is told of success, and what is in the
 * result.
 *
 * Code: lib/control/lib/control/relay/relayed.cpp, lib/control/receive/placed.cpp and ending.cpp, lib/control/send/leaving.cpp.
 *
 * A sender below the relay LEAF, which is below the relay MIDDLE, to which another sender sends, too; MIDDLE is below the
 * root. Each sender has one tuple. A relay hands its table on in PARTS parts and a last one, with which its flow ends; what a
 * run of the task sends may arrive at any time, also when the next run is under way. A relay dies, DEATHS times in all: what
 * it had is gone, and nobody below hears from it again. The root then begins anew without it, up to RUNS runs; after that it gives up.
 * Who waits asks the root, whose word decides.
 *
 * Abstracted: a flow brings what was sent once and in order (dedupe.pml); the switch beside a relay is a part of its table
 * (swap.pml); that a death is noticed; a dead relay is not used again.
 *
 * Checked: who is told of success finds its tuple in what the root has committed; there each tuple is exactly once, and all
 * are of one run; nobody waits for ever.
 *
 * holds  one_death:
 * holds  no_death: -DDEATHS=0
 * holds  no_parts: -DPARTS=0
 * holds  two_deaths: -DDEATHS=2
 * holds  more_parts: -DPARTS=2
 * holds  three_runs: -DRUNS=3 -DDEATHS=2
 *
 * breaks success_before_the_parents: -DCONFIRM_EARLY ! (committed==run_of)
 * breaks part_taken_twice: -DTAKE_TWICE ! sum[
 * breaks part_kept_for_the_next_run: -DKEEP_TABLE ! sum[
 * breaks instance_ignored: -DANY_RUN ! sum[
 * breaks end_forgotten: -DNO_FIN_WAIT ! sum[
 */

#ifndef PARTS
#define PARTS 1
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef RUNS
#define RUNS 2
#endif

/* Who receives: also the numbers of those that send. */
#define ROOT 0
#define MIDDLE 1
#define LEAF 2
/* Senders, above them. */
#define UPPER 3
#define LOWER 4

/* To each receiver: run, who sends, the two senders' tuples, whether the flow ends with it. */
chan flow[3] = [8] of { byte, byte, byte, byte, bool };

/* The root's: the run that is under way, the one that it has committed, its result. */
byte now = 1;
byte committed;
bool failed;
byte sum[2];
byte ended;

/* The run that each is open for: parents first, and what sends to it last. */
byte open_for[3] = 1;

bool dead[3];
byte deaths;
/* The run whose success each has been told of, by who took its flow. */
byte told[5];

/* By the plan of a run: what died before it began is not in it. */
bool gone[3];
#define above_leaf (gone[MIDDLE] -> ROOT : MIDDLE)
#define entry_of(sender) (((sender) == LOWER && !gone[LEAF]) -> LEAF : above_leaf)
#define flows_to_root (gone[MIDDLE] -> 2 : 1)
#define flows_to_middle 2
#define flows_to_leaf 1

/* Whoever waits for success may have nobody to hear it from. */
#define is_over (failed || (committed != 0 && (dead[MIDDLE] || dead[LEAF])))

proctype root() {
    byte r, who, a, b;
    bool fin;
end:
    do
    :: flow[ROOT] ? r, who, a, b, fin ->
        if
        ::
#ifdef ANY_RUN
           committed == 0 && !failed ->
#else
           r == now && committed == 0 && !failed ->
#endif
            atomic {
                sum[0] = sum[0] + a;
                sum[1] = sum[1] + b;
                ended = ended + fin
            }
        :: else
        fi
    :: atomic {
        committed == 0 && !failed && ended >= flows_to_root ->
        assert(sum[0] == 1);
        assert(sum[1] == 1);
        committed = now
       }
    :: atomic {
        committed == 0 && !failed && ((dead[MIDDLE] && !gone[MIDDLE]) || (dead[LEAF] && !gone[LEAF])) ->
        if
        :: now < RUNS ->
            gone[MIDDLE] = dead[MIDDLE];
            gone[LEAF] = dead[LEAF];
            sum[0] = 0;
            sum[1] = 0;
            ended = 0;
            now = now + 1;
            open_for[ROOT] = now
        :: else -> failed = true
        fi
       }
    /* Those that sent to it: once it is committed. */
    :: atomic { committed != 0 && gone[MIDDLE] && told[UPPER] != committed -> told[UPPER] = committed }
    :: atomic { committed != 0 && !gone[MIDDLE] && told[MIDDLE] != committed -> told[MIDDLE] = committed }
    :: atomic { committed != 0 && gone[MIDDLE] && !gone[LEAF] && told[LEAF] != committed -> told[LEAF] = committed }
    :: atomic { committed != 0 && gone[MIDDLE] && gone[LEAF] && told[LOWER] != committed -> told[LOWER] = committed }
    od
}

#define confirm_below(r) \
    if \
    :: me == MIDDLE -> told[UPPER] = r; if :: gone[LEAF] -> told[LOWER] = r :: else -> told[LEAF] = r fi \
    :: else -> told[LOWER] = r \
    fi

proctype relay(byte me; byte flows) {
    byte mine = 1, r, who, a, b, parts, fins, above;
    byte table[2];
    bool fin, sent;
    do
    /* It dies. */
    :: atomic { deaths < DEATHS && !dead[me] -> deaths = deaths + 1; dead[me] = true; break }
    /* A newer run of the task takes the older one's place. */
    :: atomic {
        mine != now && !failed && open_for[(me == LEAF -> above_leaf : ROOT)] == now ->
        mine = now;
        open_for[me] = now;
#ifndef KEEP_TABLE
        table[0] = 0;
        table[1] = 0;
#endif
        fins = 0;
        parts = 0;
        sent = false
       }
    :: flow[me] ? r, who, a, b, fin ->
        atomic {
            if
            ::
#ifdef ANY_RUN
               !sent ->
#else
               r == mine && !sent ->
#endif
                table[0] = table[0] + a;
                table[1] = table[1] + b;
                fins = fins + fin
            :: else
            fi
        }
    /* A part of the table, in the middle. */
    :: atomic {
        !sent && parts < PARTS && (table[0] + table[1]) > 0 ->
        parts = parts + 1;
        above = (me == LEAF -> above_leaf : ROOT);
        flow[above] ! mine, me, table[0], table[1], false;
#ifndef TAKE_TWICE
        table[0] = 0;
        table[1] = 0
#endif
       }
    /* What is left, and its end. */
    :: atomic {
#ifdef NO_FIN_WAIT
        !sent && fins >= 1 ->
#else
        !sent && fins >= flows ->
#endif
        above = (me == LEAF -> above_leaf : ROOT);
        flow[above] ! mine, me, table[0], table[1], true;
        sent = true;
#ifdef CONFIRM_EARLY
        confirm_below(mine)
#endif
       }
    :: atomic { sent && told[me] == mine -> confirm_below(mine); break }
    :: atomic { is_over -> break }
    od;
    /* What comes later finds nobody. */
end:
    do
    :: flow[me] ? r, who, a, b, fin
    od
}

proctype sender(byte me) {
    byte run_of = 0, to;
    do
    :: atomic {
        run_of != now && !failed && open_for[entry_of(me)] == now ->
        run_of = now;
        to = entry_of(me);
        flow[to] ! run_of, me, (me == UPPER -> 1 : 0), (me == LOWER -> 1 : 0), true
       }
    :: atomic {
        told[me] != 0 && told[me] == run_of ->
        /* Its tuple is in the result, as the root has found when it committed. */
        assert(committed == run_of);
        break
       }
    /* The root has its result, and whoever was to say so is gone; or it has none. */
    :: atomic { is_over -> break }
    od
}

init {
    atomic {
        run root();
        run relay(MIDDLE, flows_to_middle);
        run relay(LEAF, flows_to_leaf);
        run sender(UPPER);
        run sender(LOWER)
    }
}
