# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the end-to-end tests share: a lab each, inputs with a known answer, tasks run and checked.
# Source it, call `lab_up`, then the tests. Everything is undone on any exit.

set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
build=${ASK_BUILD_DIR:-$root/build/release}
export ASK_BUILD_DIR=$build
readonly root build lab=$root/tools/lab name=e$$
scratch=$(mktemp -d /tmp/ask-e2e.XXXXXX)
readonly scratch
export ASK_LAB_DIR=$scratch/labs

((EUID == 0)) || { echo "needs root" >&2 && exit 1; }

finish() {
    local -r code=$?
    local pid node
    trap '' INT TERM
    trap - EXIT
    # What the test leaves in the background. The shell knows which of its processes still run: the number of one that has
    # ended is another's before long, a daemon's of the next lab perhaps.
    # One may end between the two.
    for pid in $(jobs -pr); do kill -KILL "$pid" 2>/dev/null || true; done
    if ((code != 0)) && [[ -d $ASK_LAB_DIR/$name/logs ]]; then
        for node in "$ASK_LAB_DIR/$name/logs"/*; do
            printf '%s\n' "--- end of ${node##*/}" >&2
            tail -n 25 "$node" >&2
        done
    fi
    # What a test has made beside its lab, it says itself how to undo.
    ! declare -F on_exit >/dev/null || on_exit
    "$lab" down --name "$name" || true
    rm -rf --one-file-system "$scratch"
    # Once more, because what is kept of a long log is its end.
    ((code == 0)) || printf '%s\n' "${failure-ended with $code}" >&2
    exit "$code"
}
# Nobody traps SIGKILL, which is how a test ends that takes too long: then another process takes the lab down. It holds none
# of the test's pipes, and is none of its jobs.
guard() {
    # shellcheck disable=SC2016 # expanded inside
    setsid bash -c 'tail --pid="$1" -f /dev/null; "$2" down --name "$3"; rm -rf --one-file-system "$4"' _ "$$" "$lab" "$name" "$scratch" \
        </dev/null >/dev/null 2>&1 9>&- &
    disown
}
guard
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
    printf -v failure 'FAIL %s line %s: %s' "${BASH_SOURCE[1]##*/}" "${BASH_LINENO[0]}" "$*"
    printf '%s\n' "$failure" >&2
    exit 1
}

pass() {
    printf 'ok %s (%ss)\n' "$*" "$SECONDS"
}

# lab_up OPTION... : as tools/lab up.
lab_up() {
    "$lab" up --name "$name" "$@"
}

# lab_do COMMAND ARGUMENT... : on the test's lab. A daemon that it starts must not hold a test's pipe open.
lab_do() {
    local -r command=$1
    shift
    "$lab" "$command" --name "$name" "$@" 9>&-
}

# on NODE COMMAND...
on() {
    local -r node=$1
    shift
    bash "$ASK_LAB_DIR/$name/enter/$node" "$@"
}

# netns_of NODE: its network namespace's name.
netns_of() {
    lab_do status --json | jq -r --arg node "$1" '.nodes[] | select(.node == $node) | .netns'
}

# Chunks that the switch has completed itself so far: it sent their results to all.
switched() {
    on sw askctl counters --json | jq '[.[] | select(.name == "value_result") | .value | tonumber] | add // 0'
}

# spawn LOG NODE COMMAND... : in the background; $spawned is the command's own process. It gets Ctrl-C as from a
# terminal: a script's background would ignore it. Standard input is kept; descriptor 9, which tests hold pipes
# open with, is not.
spawn() {
    local -r log=$1 node=$2
    shift 2
    bash "$ASK_LAB_DIR/$name/enter/$node" env --default-signal=INT "$@" <&0 >"$log.out" 2>"$log.err" 9>&- &
    spawned=$!
}

# open_pipe FILE: a named pipe that descriptor 9 holds open; its reader sees the end once 9 is closed.
open_pipe() {
    rm -f "$1"
    mkfifo "$1"
    # For both ways, because opening for one waits for the other.
    exec 9<>"$1"
}

# wait_for SECONDS COMMAND... : until the command succeeds. Where all is slower, ASK_TEST_PATIENCE says by how much; who asks
# as often as ever would keep the processors from what is waited for.
wait_for() {
    local -r deadline=$((SECONDS + $1 * ${ASK_TEST_PATIENCE:-1}))
    shift
    until "$@"; do
        ((SECONDS < deadline)) || fail "waited in vain for: $*"
        sleep "$((5 * ${ASK_TEST_PATIENCE:-1}))e-2"
    done
}

# locked FILE: somebody holds a lock of it, as the kernel lists them. Who asked by taking it would be in the way of whoever
# tries to at that moment.
locked() {
    local device inode
    read -r device inode < <(stat -L -c '%Hd:%Ld %i' -- "$1" 2>/dev/null) || return 1
    printf -v device '%02x:%02x' "${device%:*}" "${device#*:}"
    grep -q ": FLOCK .* $device:$inode " /proc/locks
}

unlocked() {
    ! locked "$1"
}

# unload SWITCH: takes away what its daemon that was killed has left, as a reboot does. Pins are locked until the last thread
# of the killed one has ended, and that takes a moment after the signal.
unload() {
    wait_for 10 unlocked "$ASK_LAB_DIR/$name/bpf/$1/ask"
    on "$1" ask-switchd --config "$ASK_LAB_DIR/$name/conf/$1.toml" --unload
}

# kernel_lacks WHAT: nothing is tested of it then. Where the kernel has been made to have all, as by vm/guest/gateways, it has to.
kernel_lacks() {
    [[ -z ${ASK_TEST_KERNEL_HAS_ALL-} ]] || fail "this kernel ought to have $1"
    pass "this kernel has no $1"
}

# stamped NODE COMMAND... : runs the command, and prints the time before and after, as daemons' logs have it. What it does, it has
# done by then, however long it took to begin.
stamped() {
    local -r node=$1
    shift
    # shellcheck disable=SC2016 # expanded there
    on "$node" bash -c 'stamp() { date +%Y-%m-%dT%H:%M:%S.%3N; }; stamp; "$@"; code=$?; stamp; exit "$code"' bash "$@"
}

# kept_waiting NODE: milliseconds that the first thread of its daemon has waited for a processor so far.
kept_waiting() {
    local pid waited=0
    read -r pid _ <"$ASK_LAB_DIR/$name/pids/$1"
    # Not every kernel counts it.
    [[ ! -e /proc/$pid/schedstat ]] || read -r _ waited _ <"/proc/$pid/schedstat"
    printf '%s\n' "$((waited / 1000000))"
}

# first_stamp LOG SINCE TEXT [TEXT]: of the first line that is no older and has what is asked for.
first_stamp() {
    awk -v since="$2" -v text="$3" -v other="${4-}" \
        '$1 >= since && index($0, text) && index($0, other) { print $1; found = 1; exit } END { exit !found }' "$1"
}

# in_time MILLISECONDS BEGIN END WHAT: of two stamps. $slowest is the most that anything has taken so far.
slowest=0
in_time() {
    local -r took=$(($(date -d "$3" +%s%3N) - $(date -d "$2" +%s%3N)))
    ((took < $1 * ${ASK_TEST_PATIENCE:-1})) || fail "it took $took ms until: $4"
    ((took <= slowest)) || slowest=$took
}

# named_soon PORT TEXT COMMAND... : what the command does on the switch is named there within a second, by the time in its
# log, whoever else keeps the processors from the switch and those who ask; and by who asks.
named_soon() {
    local -r port=$1 text=$2 log=$ASK_LAB_DIR/$name/logs/sw.log
    local stamps begin waited
    shift 2
    waited=$(kept_waiting sw)
    stamps=$(stamped sw "$@")
    begin=${stamps%%$'\n'*}
    wait_for 10 first_stamp "$log" "$begin" "port $port" "$text" >/dev/null
    waited=$(($(kept_waiting sw) - waited))
    in_time $((1000 + waited)) "${stamps##*$'\n'}" "$(first_stamp "$log" "$begin" "port $port" "$text")" "$text"
    wait_for 10 troubled "$port" "$text"
}

# port_is NAME JQ: what the switch says of a port.
port_is() {
    on sw askctl status --json | jq -e --arg name "$1" "any(.ports[]; .name == \$name and ($2))" >/dev/null
}

# attached NAME: by the interface that has the name now, which the switch may not have heard of yet.
attached() {
    local index
    index=$(on sw ip -json link show dev "$1" 2>/dev/null | jq '.[0].ifindex')
    port_is "$1" ".attached and .ifindex == ${index:-0}"
}

# troubled NAME TEXT
troubled() {
    port_is "$1" "(.attached | not) and (.trouble | contains(\"$2\"))"
}

# has_ended NODE: its daemon has.
has_ended() {
    ! lab_do kill "$1" -0 2>/dev/null
}

# exit_of PID: sets $code.
exit_of() {
    code=0
    wait "$1" || code=$?
}

# beside_each_other CASE... : functions that mostly wait, each in a shell of its own. What one starts and does not end, ends with
# the lab.
beside_each_other() {
    local -a shells=()
    local each
    for each; do
        "$each" &
        shells+=($!)
    done
    for each in "${shells[@]}"; do
        exit_of "$each"
        ((code == 0)) || fail "one of $* failed, as it says above"
    done
}

# make_input DIR OPTION... : as ask-e2e-gen.
make_input() {
    local -r dir=$1
    shift
    mkdir -p "$dir"
    "$build/tests/ask-e2e-gen" --out "$dir" "$@"
}

# each_input CALLBACK: for the inputs that go through the switch, around it, and through none at all:
# CALLBACK ID RECV_FLAGS SEND_FLAGS GENERATOR_OPTION...
each_input() {
    "$1" one "" "--merge-window 0" --seed 1 --senders 1 --tuples 20000 --keys 1500
    "$1" eight "" "--merge-window 64" --seed 2 --senders 8 --tuples 5000 --keys 1000
    "$1" minimum "--op min" "" --seed 3 --senders 2 --tuples 8000 --keys 700 --op min
    "$1" maximum "--op max" "--merge-window 0" --seed 4 --senders 4 --tuples 5000 --keys 700 --op max
    "$1" words "--op count" "--count" --seed 5 --senders 3 --tuples 10000 --keys 900 --count-lines
}

# The host of sender number $1: h1 h2 h3 h1 ...
sender_host() {
    printf 'h%d' $((($1 - 1) % 3 + 1))
}

# start_task DIR ID RECEIVER "RECV FLAGS" "SEND FLAGS": a receiver and one sender for each DIR/inN.tsv. Their
# processes go to DIR/pids. With FEED=COMMAND, a sender's input is what COMMAND FILE ID prints. ASK_TEST_DEADLINE: of commands
# that say none themselves; on an emulated processor a dozen processes at once take longer than 30 s to make their connections.
start_task() {
    local -r dir=$1 id=$2 receiver=$3
    local -a recv_args send_args
    read -ra recv_args <<<"${4-}"
    read -ra send_args <<<"${5-}"
    [[ -z ${ASK_TEST_DEADLINE-} || ${4-} == *--deadline* ]] || recv_args+=(--deadline "$ASK_TEST_DEADLINE")
    [[ -z ${ASK_TEST_DEADLINE-} || ${5-} == *--deadline* ]] || send_args+=(--deadline "$ASK_TEST_DEADLINE")
    local -a inputs=("$dir"/in*.tsv)
    local i host
    : >"$dir/pids"
    spawn "$dir/recv" "$receiver" ask-recv --task "$id" --senders "${#inputs[@]}" --stats "$dir/recv.json" \
        "${recv_args[@]}" </dev/null
    printf '%s recv\n' "$spawned" >>"$dir/pids"
    for ((i = 1; i <= ${#inputs[@]}; i++)); do
        host=${SENDER_HOST:-$(sender_host "$i")}
        local -a send=(ask-send --task "$id" --to "$receiver" --stats "$dir/send$i.json" "${send_args[@]}")
        if [[ -n ${FEED-} ]]; then
            spawn "$dir/send$i" "$host" "${send[@]}" - < <("$FEED" "$dir/in$i.tsv" "$id")
        else
            spawn "$dir/send$i" "$host" "${send[@]}" "$dir/in$i.tsv" </dev/null
        fi
        printf '%s send%s\n' "$spawned" "$i" >>"$dir/pids"
    done
}

# check_stats FILE TUPLES: the sums of docs/commands.md hold, and everything handed in is accounted for.
check_stats() {
    jq -e --argjson tuples "$2" '
        .tuples_in == $tuples
        and .tuples_in == .tuples_merged + .tuples_sent
        and .tuples_sent == .tuples_switch + .tuples_receiver.total
        and .tuples_receiver.total == (.tuples_receiver | .collision + .long + .overflow + .contention + .back_full
            + .back_contention + .no_region)
        and .slots_filled <= .slots_offered and .seconds > 0' "$1" >/dev/null ||
        fail "statistics do not add up to $2 tuples: $(jq -c 'del(.senders)' "$1")"
}

# finish_task DIR: waits for all; everybody succeeded, the answer is byte for byte the reference's.
finish_task() {
    local -r dir=$1
    local pid who file i
    while read -r pid who; do
        exit_of "$pid"
        # Each for its own reason: the first to end has it from another.
        ((code == 0)) || fail "$dir: $who ended with $code: $(tail -n 20 "$dir"/*.err)"
        # The one line that a task ends with.
        ! grep -vE '^ask-(recv|send): task [A-Za-z0-9_-]+: (no tuples|[0-9,]+ tuples, )' "$dir/$who.err" ||
            fail "$dir: $who said more in a pipe than its last line: $(cat "$dir/$who.err")"
    done <"$dir/pids"
    cmp -s "$dir/recv.out" "$dir/expected.tsv" ||
        fail "$dir: wrong answer: $(diff "$dir/recv.out" "$dir/expected.tsv" | head -n 8 | cut -c 1-120)"
    check_stats "$dir/recv.json" "$(cat "$dir"/in*.tsv | wc -l)"
    i=0
    for file in "$dir"/send*.json; do
        i=$((i + 1))
        check_stats "$file" "$(wc -l <"$dir/in$i.tsv")"
    done
    jq -e --argjson n "$i" '(.senders | length) == $n
        and ([.senders[].tuples_in] | add) == .tuples_in
        and ([.senders[].tuples_switch] | add) == .tuples_switch' "$dir/recv.json" >/dev/null ||
        fail "$dir: the senders' statistics do not add up: $(cat "$dir/recv.json")"
}

run_task() {
    start_task "$@"
    finish_task "$1"
}

# no_tasks NODE... : no task is under way there. An agent remembers for a while how a task has ended.
no_tasks() {
    local node
    for node; do
        on "$node" askctl tasks --json |
            jq -e 'all(.[]; .state == "committed" or .state == "failed")' >/dev/null || return 1
    done
}

# expect LOG CODE[|CODE] TEXT PID: the process ended so, printed no result, and its error holds the text (a regular
# expression).
expect() {
    local -r log=$1 want=$2 text=$3
    exit_of "$4"
    [[ $code =~ ^($want)$ ]] || fail "$log ended with $code, expected $want; it said: $(cat "$log.err")"
    [[ ! -s $log.out ]] || fail "$log printed a result: $(head -c 200 "$log.out")"
    grep -qE -- "$text" "$log.err" || fail "$log said '$(cat "$log.err")', expected '$text'"
}

# receive LOG ID FLAGS... : a receiver on h3; $receiver is its process. Its files are $scratch/LOG.*, as those of hold.
receive() {
    local -r log=$scratch/$1 id=$2
    shift 2
    spawn "$log" h3 ask-recv --task "$id" --deadline "${DEADLINE:-20}" --stats "$log.json" "$@" </dev/null
    receiver=$spawned
}

# hold LOG HOST ID FLAGS... : a sender on HOST whose input stays open at descriptor 9; $sender is its process.
hold() {
    local -r log=$scratch/$1 host=$2 id=$3
    shift 3
    open_pipe "$log.fifo"
    spawn "$log" "$host" ask-send --task "$id" --to h3 --deadline "${DEADLINE:-20}" --stats "$log.json" "$@" - <"$log.fifo"
    # shellcheck disable=SC2034  # read by who calls
    sender=$spawned
}

# joined HOST ID: a sender of the task has joined at the receiver HOST.
joined() {
    on "$1" askctl tasks --json |
        jq -e --arg id "$2" 'any(.[]; .id == $id and .role == "receiver" and (.senders_joined | length) > 0)' >/dev/null
}

opened() {
    on "$1" askctl tasks --json | jq -e --arg id "$2" 'any(.[]; .id == $id and .role == "receiver")' >/dev/null
}

# sent_at_least TUPLES [HOST]: the sender's agent has taken that many, and packets are on their way.
sent_at_least() {
    on "${2:-h1}" askctl tasks --json |
        jq -e --argjson least "$1" 'any(.[]; .role == "sender" and .stats.tuples_in >= $least and .stats.packets_sent > 0)' \
            >/dev/null
}

# has_swapped ID: the task is in another epoch than its first.
has_swapped() {
    on sw askctl tasks --json | jq -e --arg id "$1" 'any(.[]; .id == $id and .epoch > 0)' >/dev/null
}

# until_swapped FILE ID: the file, its last line only once the task has swapped. On a busy machine a short task may
# otherwise be over before its first swap is due. For FEED.
until_swapped() {
    head -n -1 "$1"
    wait_for 20 has_swapped "$2"
    tail -n 1 "$1"
}
