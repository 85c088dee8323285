#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# examples/torch/train.py on four hosts and a switch: the loss curve beside Gloo's; the same bits whatever the switch does;
# and a worker that dies is named by all others.

# shellcheck source=tests/torch/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

readonly train=$root/examples/torch/train.py steps=60
# Of the loss. A mean of four float32 gradients differs by two roundings, 2^-23 of their largest, where Gloo adds in another
# order than ask or rounds more often; every step adds its own and carries the others' on.
readonly bound=1e-4

# steps_done DIR WAY STEP: rank 0 has gone so far.
steps_done() {
    grep -q "^$2 $3 " "$1/w0.out"
}

all_alike() {
    local rank
    for ((rank = 1; rank < workers; rank++)); do
        cmp "$1/result0" "$1/result$rank" || fail "$1: ranks 0 and $rank differ"
    done
}

# column FILE WAY
column() {
    sed -n "s/^$2 //p" "$1"
}

beside_gloo() {
    local way
    dir=$scratch/curves
    run_workers "$dir" "$train" --by ask,gloo,hook --steps "$steps" --result RESULT
    all_alike "$dir"
    tail -n $((steps + 3)) "$dir/w0.out"
    # The first loss is of parameters and data that are the same; the last is that of a model that has learnt.
    perl -we '
        my ($file, $bound, $steps) = @ARGV;
        my (%loss, $most);
        open my $in, "<", $file or die;
        while (<$in>) { $loss{$1}[$2] = $3 if /^(\w+) (\d+) ([0-9.]+)$/ }
        for my $way (qw(ask gloo hook)) {
            die "$way: not $steps steps" unless $#{$loss{$way}} == $steps;
            die "$way: has not learnt" unless $loss{$way}[$steps] < $loss{$way}[1] / 3;
            for (1 .. $steps) {
                my ($one, $other) = ($loss{gloo}[$_], $loss{$way}[$_]);
                my $off = abs($one - $other) / $one;
                die "$way: $off of Gloo'\''s loss away at step $_" if $off > $bound;
            }
        }' "$dir/w0.out" "$bound" "$steps" || fail "the curves differ"
    for way in gloo hook; do
        [[ $(column "$dir/result0" "$way" | head -n 1) == "$(column "$dir/result0" ask | head -n 1)" ]] ||
            fail "the first losses, before any gradient, differ: $(grep -w 1 "$dir/result0")"
    done
    # Sums of the same numbers: by the hook or by the backend, in buckets of the same values.
    [[ $(column "$dir/result0" hook) == "$(column "$dir/result0" ask)" ]] || fail "hook and backend differ"
    pass "the curve beside Gloo's"
}

# disturbed NAME: training goes on, and comes to the same bits as undisturbed. Something has been done to the switch.
ends_alike() {
    still_work
    finish_workers "$dir"
    all_alike "$dir"
    diff <(column "$dir/result0" ask) <(column "$scratch/curves/result0" ask) >"$dir/differs" ||
        fail "$1: not what it comes to undisturbed: $(head -n 4 "$dir/differs")"
    pass "$1: bit for bit the same"
}

unload() {
    lab_do kill sw -KILL
    on sw ask-switchd --config "$ASK_LAB_DIR/$name/conf/sw.toml" --unload
}

begin() {
    dir=$scratch/$1
    start_workers "$dir" "$train" --steps "$steps" --deadline "${DEADLINE:-30}" --result RESULT
    wait_for 60 steps_done "$dir" ask 5
}

switch_dies() {
    begin daemon
    lab_do kill sw -KILL
    wait_for 60 steps_done "$dir" ask 10
    lab_do restart sw
    ends_alike "ask-switchd killed and restarted"
    begin maps
    unload
    wait_for 60 steps_done "$dir" ask 10
    lab_do restart sw
    wait_for 60 steps_done "$dir" ask 20
    unload
    lab_do restart sw
    ends_alike "the switch's maps gone, for a while and for good"
}

# fails RANK TEXT: so the worker ends.
fails() {
    wait_for "$((${DEADLINE:-30} + 10))" gone "${pids[$1]}"
    exit_of "${pids[$1]}"
    ((code != 0)) || fail "$dir: rank $1 succeeded"
    grep -qE "$2" "$dir/w$1.err" || fail "$dir: rank $1 said '$(tail -n 20 "$dir/w$1.err")', expected '$2'"
}

gone() {
    ! grep -q '^State:[[:space:]]*[^ZX]' "/proc/$1/status" 2>/dev/null
}

worker_dies() {
    local rank
    local -r DEADLINE=10
    begin killed
    still_work
    kill -KILL "${pids[2]}"
    for rank in 0 1 3; do fails "$rank" 'h3 .*has left it: its application ended early'; done
    pass "a worker killed"
    begin stopped
    still_work
    kill -STOP "${pids[2]}"
    for rank in 0 1 3; do fails "$rank" 'rank 2.*h3'; done
    kill -KILL "${pids[2]}"
    pass "a worker that hangs"
    begin agent
    still_work
    lab_do kill h2 -KILL
    for rank in 0 2 3; do fails "$rank" 'rank 1.*h2'; done
    fails 1 'went away'
    lab_do restart h2
    pass "a worker's agent killed"
}

# A step takes a tenth of a second or more, so that what is done to it comes in the middle.
lab_up --hosts "$workers" --rate 40M
beside_gloo
switch_dies
worker_dies
