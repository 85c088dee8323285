#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# answers_test.sh [SWITCH CONFIG LINE...]: random keys of every class, all operators, one to eight senders, tasks
# side by side, against an independent reference; through the switch and around it, byte for byte the same.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# both_ways ID RECV_FLAGS SEND_FLAGS GENERATOR_OPTION... : with the switch and without.
both_ways() {
    local -r id=$1 recv_flags=$2 send_flags=$3
    local -r dir=$scratch/$id
    shift 3
    make_input "$dir" "$@"
    run_task "$dir" "$id" h4 "$recv_flags" "$send_flags"
    # Every tuple that came through is explained by the switch's own counts.
    jq -e '.tuples_switch > 0 and .tuples_receiver.no_region == 0' "$dir/recv.json" >/dev/null ||
        fail "$id: switch and receiver do not agree: $(cat "$dir/recv.json")"
    run_task "$dir" "$id-direct" h4 "$recv_flags --no-switch" "$send_flags"
    jq -e '.tuples_switch == 0 and .tuples_receiver.collision == 0 and .fetched == 0' "$dir/recv.json" >/dev/null ||
        fail "$id: a task opened with --no-switch has been on the switch: $(cat "$dir/recv.json")"
    pass "$id: $*"
}

# Everything through memory that holds a fraction of the keys.
few_aggregators() {
    local -r dir=$scratch/few
    make_input "$dir" --seed 20 --senders 3 --tuples 20000 --keys 6000 --key-form short --values small
    run_task "$dir" few h4 "--aggregators 16 --no-back" "--merge-window 0"
    jq -e '.tuples_switch > 0 and .tuples_receiver.collision > 0 and .fetched > 0 and .fetched <= 16 * 64' \
        "$dir/recv.json" >/dev/null || fail "few: unlikely statistics: $(cat "$dir/recv.json")"
    pass "few aggregators, many keys"
}

# What fits slots and memory never reaches the receiver as tuples.
all_on_the_switch() {
    local -r dir=$scratch/all
    make_input "$dir" --seed 21 --senders 2 --tuples 20000 --keys 100 --key-form short --values one
    run_task "$dir" all h4 "--require-region" "--merge-window 0"
    jq -e '.tuples_switch >= 0.9 * .tuples_sent and .packets_acked_by_switch > 0' "$dir/recv.json" >/dev/null ||
        fail "all: the switch aggregated too little: $(cat "$dir/recv.json")"
    pass "nearly everything aggregated on the switch"
}

# Three tasks share hosts, channels and switch; one has its receiver where another sends.
side_by_side() {
    local task
    make_input "$scratch/side1" --seed 31 --senders 3 --tuples 8000 --keys 900 --op sum
    make_input "$scratch/side2" --seed 32 --senders 2 --tuples 8000 --keys 300 --op min
    make_input "$scratch/side3" --seed 33 --senders 3 --tuples 8000 --keys 2000 --op count
    start_task "$scratch/side1" side1 h4 "--op sum"
    start_task "$scratch/side2" side2 h4 "--op min"
    start_task "$scratch/side3" side3 h1 "--op count"
    for task in side1 side2 side3; do finish_task "$scratch/$task"; done
    pass "three tasks at once"
}

# The sender's frames stay on the host.
own_host() {
    local -r dir=$scratch/own
    make_input "$dir" --seed 41 --senders 2 --tuples 5000 --keys 400
    SENDER_HOST=h4 run_task "$dir" own h4
    jq -e '.tuples_switch == 0' "$dir/recv.json" >/dev/null || fail "own: tuples of the same host went to the switch"
    pass "senders on the receiver's own host"
}

# What a channel sends to its own host does not pass the switch, which then meets seqs that go on behind a gap. With the
# paper's dedupe it would take them for seen. One channel, so that it must be that one.
own_host_between() {
    local -r dir=$scratch/between
    local id
    sed -i '1i max_channels = 1' "$ASK_LAB_DIR/$name/conf/h5.toml"
    lab_do restart h5
    make_input "$dir" --seed 42 --senders 1 --tuples 30000 --keys 3000
    for id in before between after; do
        if [[ $id == between ]]; then
            SENDER_HOST=h5 run_task "$dir" "$id" h5 "--deadline 20" "--merge-window 0"
        else
            SENDER_HOST=h5 run_task "$dir" "$id" h4 "--deadline 20" "--merge-window 0"
        fi
    done
    pass "a task of the same host between two through the switch"
}

geometries() {
    local -r dir=$scratch/geometry
    local geometry
    make_input "$dir" --seed 51 --senders 2 --tuples 5000 --keys 700
    for geometry in 8+4x4 16 0+8x3 24+4x2*1; do
        run_task "$dir" "geometry-${geometry//[^0-9a-z]/_}" h4 "--geometry $geometry"
    done
    pass "other geometries"
}

# No tuples, lines on standard input, several files, a last line without its newline.
odd_inputs() {
    local -r dir=$scratch/odd
    mkdir -p "$dir"
    : >"$dir/in1.tsv"
    : >"$dir/expected.tsv"
    run_task "$dir" empty h4
    printf 'b\\0\t2\na\t1' >"$dir/a"
    printf 'a\t-3\n' >"$dir/b"
    spawn "$dir/recv" h4 ask-recv --task odd --senders 1 </dev/null
    on h1 ask-send --task odd --to 198.18.4.2 "$dir/a" - "$dir/b" <<<$'\\x41\t9223372036854775807'
    exit_of "$spawned"
    ((code == 0)) || fail "odd: ask-recv ended with $code: $(cat "$dir/recv.err")"
    [[ $(cat "$dir/recv.out") == $'A\t9223372036854775807\na\t-2\nb\\0\t2' ]] || fail "odd: got $(cat "$dir/recv.out")"
    pass "odd inputs"
}

# Columns with decimals and CRLF, in gzip from a file and in zstd through a pipe; a malformed line is skipped.
foreign_inputs() {
    local -r dir=$scratch/foreign
    local -ra columns=(--crlf --delimiter ',' --key '2,1' --value 3 --scale 2 --skip-bad 1)
    mkdir -p "$dir"
    printf 'x,b\\,1.5\r\nx,a,-0.25\r\nx\r\n' | gzip >"$dir/log.gz"
    printf 'x,b\\,2\r\n' | gzip >>"$dir/log.gz"
    { printf 'x,a,0.5\n' | zstd -q && printf 'y,a,90071992547409.93' | zstd -q; } >"$dir/log.zst"
    spawn "$dir/recv" h4 ask-recv --task foreign --senders 2 --scale 2 </dev/null
    local -r receiver=$spawned
    spawn "$dir/send1" h1 ask-send --task foreign --to h4 --stats "$dir/send1.json" "${columns[@]}" "$dir/log.gz" </dev/null
    local -r sender=$spawned
    on h2 ask-send --task foreign --to h4 --stats "$dir/send2.json" "${columns[@]}" < <(cat "$dir/log.zst")
    exit_of "$sender"
    ((code == 0)) || fail "foreign: ask-send ended with $code: $(cat "$dir/send1.err")"
    exit_of "$receiver"
    ((code == 0)) || fail "foreign: ask-recv ended with $code: $(cat "$dir/recv.err")"
    [[ $(cat "$dir/recv.out") == $'a,x\t0.25\na,y\t90071992547409.93\nb\\\\,x\t3.50' ]] ||
        fail "foreign: got $(cat "$dir/recv.out")"
    [[ $(cat "$dir/send1.err") == *"skipped: $dir/log.gz:3:2: the line has 1 column"*"skipped 1 malformed"* ]] ||
        fail "foreign: ask-send says of the skipped line: $(cat "$dir/send1.err")"
    jq -es '.[0].lines_skipped == 1 and .[0].tuples_in == 3 and .[1].lines_skipped == 0' "$dir"/send[12].json >/dev/null ||
        fail "foreign: unlikely statistics: $(cat "$dir"/send[12].json)"
    pass "columns, decimals, CRLF, gzip and zstd"
}

# print_as FLAGS... : a small task's result, as it is printed with these flags.
print_as() {
    spawn "$scratch/as" h4 ask-recv --task as --senders 1 "$@" </dev/null
    on h1 ask-send --task as --to h4 - <<<$'b\t3\na,"x"\t3\n\\xff\\n\t-1\n\xc3\xa9\t7\nb\t2'
    exit_of "$spawned"
    ((code == 0)) || fail "ask-recv $* ended with $code: $(cat "$scratch/as.err")"
    cat "$scratch/as.out"
}

orders_and_formats() {
    [[ $(print_as --sort value) == $'\xc3\xa9\t7\nb\t5\na,"x"\t3\n\xff\\n\t-1' ]] || fail "--sort value: $(cat "$scratch/as.out")"
    [[ $(print_as --top 2) == $'\xc3\xa9\t7\nb\t5' ]] || fail "--top 2: $(cat "$scratch/as.out")"
    [[ $(print_as --top 2 --sort key) == $'a,"x"\t3\nb\t5' ]] || fail "--top 2 --sort key: $(cat "$scratch/as.out")"
    print_as --format json | jq -e 'map([.key, .value]) ==
        [["a,\"x\"", 3], ["b", 5], ["\u00e9", 7], ["\\xff\\n", -1]]' >/dev/null || fail "--format json: $(cat "$scratch/as.out")"
    cmp <(print_as --format csv) <(printf 'key,value\r\n"a,""x""",3\r\nb,5\r\n\xc3\xa9,7\r\n\\xff\\n,-1\r\n') ||
        fail "--format csv: $(cat "$scratch/as.out")"
    pass "orders and formats"
}

printf '%s\n' "$@" >"$scratch/switch.toml"
lab_up --hosts 5 --config-switch "$scratch/switch.toml"
each_input both_ways
few_aggregators
all_on_the_switch
side_by_side
own_host
own_host_between
geometries
odd_inputs
foreign_inputs
orders_and_formats
wait_for 10 no_tasks h1 h2 h3 h4 h5 sw
