#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests of tools/lab itself: lab_test.sh TEST. They need root but no built daemon: where daemons matter,
# small stand-ins that only start, answer `askctl status` and stop take their place.

set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
readonly root lab=$root/tools/lab

((EUID == 0)) || { echo "needs root" >&2 && exit 1; }

scratch=$(mktemp -d /tmp/ask-lab-test.XXXXXX)
export ASK_LAB_DIR=$scratch/labs
readonly name=t$$ scratch
extra_netns=()

cleanup() {
    local ns
    trap '' INT TERM
    "$lab" down --all || true
    for ns in "${extra_netns[@]}"; do ip netns del "$ns" 2>/dev/null || true; done
    rm -rf --one-file-system "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
    printf 'FAIL %s line %s: %s\n' "${BASH_SOURCE[1]##*/}" "${BASH_LINENO[0]}" "$*" >&2
    exit 1
}

expect_eq() {
    [[ $1 == "$2" ]] || fail "got '$1', expected '$2' ${3-}"
}

# expect_error CODE TEXT COMMAND... : fails with the code, and standard error holds the text.
expect_error() {
    local -r code=$1 text=$2
    local got=0 said
    shift 2
    said=$("$@" 2>&1 >/dev/null) || got=$?
    ((got == code)) || fail "'$*' gave exit code $got, expected $code; it said: $said"
    [[ $said == *"$text"* ]] || fail "'$*' said '$said', expected '$text' in it"
}

# wait_for COMMAND... : for ten seconds, or as many times as long as ASK_TEST_PATIENCE says (emulated guests).
wait_for() {
    local -r deadline=$((SECONDS + 10 * ${ASK_TEST_PATIENCE:-1}))
    until "$@"; do
        ((SECONDS < deadline)) || fail "waited in vain for: $*"
        sleep 0.02
    done
}

# Nothing of a lab: no namespace of its name, no mount, no state, no process that once belonged to it.
expect_nothing_left() {
    local -r of=${1:-$name}
    local left
    left=$(ip netns list | grep -E "^ask-$of-" || true)
    expect_eq "$left" "" "namespaces left"
    left=$(findmnt --noheadings --list --output TARGET | grep -F "$ASK_LAB_DIR/$of/" || true)
    expect_eq "$left" "" "mounts left"
    left=$(find "$ASK_LAB_DIR/$of" "$ASK_LAB_DIR/$of.lock" "$ASK_LAB_DIR/.$of.new" 2>/dev/null || true)
    expect_eq "$left" "" "files left"
    left=$(pgrep -f -- "--config $ASK_LAB_DIR/$of/" || true)
    expect_eq "$left" "" "daemons left"
}

up() {
    "$lab" up --name "$name" --no-daemons "$@" >/dev/null
}

on() {
    local -r node=$1
    shift
    "$lab" exec --name "$name" "$node" -- "$@"
}

# A closed TCP port answers at once, so a refusal proves that packets go both ways.
reaches() {
    local said
    said=$(on "$1" timeout $((5 * ${ASK_TEST_PATIENCE:-1})) bash -c "</dev/tcp/$2/9" 2>&1) && fail "port 9 of $2 is open"
    [[ $said == *"Connection refused"* ]]
}

# Stand-ins: the daemon touches <config>.up once it handles SIGTERM, and ends by it unless told to ignore it.
fake_build() {
    local -r bin=$scratch/build/bin
    export ASK_BUILD_DIR=$scratch/build
    mkdir -p "$bin"
    cat >"$bin/ask-agentd" <<'FAKE'
#!/bin/bash
config=$2
[[ " $* " == *" --ignore-term "* ]] && trap '' TERM || trap 'rm -f "$config.up"; echo stopped; exit 0' TERM
[[ " $* " == *" --fail "* ]] && { echo "no such thing as luck" >&2; exit 3; }
echo "started with: ${*:3}"
[[ " $* " == *" --never-ready "* ]] || : >"$config.up"
coproc cat
while :; do read -r -t 3600 -u "${COPROC[0]}"; done
FAKE
    cp "$bin/ask-agentd" "$bin/ask-switchd"
    cat >"$bin/askctl" <<'FAKE'
#!/bin/bash
[[ $1 != ca ]] || exit 0
conf=$ASK_LAB_DIR/$ASK_LAB/conf/$ASK_LAB_NODE.toml
[[ $1 == status && -e $conf.up ]]
FAKE
    chmod +x "$bin"/*
}

test_basics() {
    up --hosts 3 --mtu 1400
    reaches h1 198.18.3.2 || fail "h1 does not reach h3 through the switch"
    reaches h3 198.18.1.1 || fail "h3 does not reach the switch"
    expect_eq "$(on sw ip -json -4 addr show dev p2 | jq -r '.[0].addr_info[0].local')" 198.18.2.1
    expect_eq "$(on h2 ip -json link show dev eth0 | jq '.[0].mtu')" 1400
    expect_eq "$(on h2 ip -json -details link show dev eth0 | jq '.[0].num_rx_queues')" 1
    expect_eq "$(on sw cat /proc/sys/net/ipv4/ip_forward)" 1
    expect_eq "$(on h1 cat /proc/sys/net/ipv4/conf/eth0/rp_filter)" 0
    expect_eq "$(on h1 ethtool -k eth0 | awk '/^tx-checksumming|^generic-receive|^tx-vlan-off/ { print $2 }' | sort -u)" off
    expect_eq "$(stat -f -c %T "$ASK_LAB_DIR/$name/bpf/h1")" bpf_fs
    expect_eq "$("$lab" status --name "$name" --json | jq -r '[.complete, (.nodes | length), .nodes[1].netns] | map(tostring) | join(" ")')" \
        "true 4 ask-$name-h1"
    "$lab" status --name "$name" | grep -F "$ASK_LAB_DIR/$name/bpf/h2" >/dev/null || fail "status does not print pin directories"
    "$lab" down --name "$name"
    expect_nothing_left
    "$lab" down --name "$name" || fail "a second down fails"
}

test_exec() {
    local got=0
    up --hosts 1
    expect_eq "$(printf 'a\0b' | on h1 cat | od -An -tx1 | tr -d ' ')" 610062 "standard input and output"
    on h1 sh -c 'exit 7' || got=$?
    expect_eq "$got" 7 "exit code"
    expect_eq "$(on h1 printenv ASK_AGENT)" "unix:$ASK_LAB_DIR/$name/h1/agent.sock"
    expect_eq "$(on sw printenv ASK_SWITCH)" "unix:$ASK_LAB_DIR/$name/sw/control.sock"
    expect_eq "$(on h1 printenv PATH | cut -d: -f1)" "${ASK_BUILD_DIR:-$root/build/release}/bin"
    expect_eq "$(cd / && on h1 pwd)" / "working directory"
    # A signal sent to tools/lab reaches the command, because exec replaces every process on the way.
    mkfifo "$scratch/ready"
    "$lab" exec --name "$name" h1 -- bash -c "trap 'kill %1; exit 42' TERM; sleep 1000 & echo >'$scratch/ready'; wait" &
    read -r <"$scratch/ready"
    kill -TERM $!
    got=0
    wait $! || got=$?
    expect_eq "$got" 42 "exit code after a signal"
    expect_error 1 "no node 'h2'" "$lab" exec --name "$name" h2 -- true
    expect_error 1 "no lab 'none'" "$lab" exec --name none h1 -- true
}

test_side_by_side() {
    local -a codes=()
    local pid
    up --hosts 2
    "$lab" up --name "${name}b" --no-daemons --hosts 1 >/dev/null
    on h1 ip address add 198.18.99.1/32 dev lo
    expect_eq "$("$lab" exec --name "${name}b" h1 -- ip -4 addr show dev lo | grep -c 198.18.99.1 || true)" 0
    expect_error 1 "is up already" "$lab" up --name "$name" --no-daemons
    "$lab" down --name "$name"
    expect_nothing_left
    "$lab" exec --name "${name}b" h1 -- true || fail "the other lab went too"
    # Of several at once with one name exactly one wins, and it is whole.
    for _ in 1 2 3 4; do
        "$lab" up --name "$name" --no-daemons --hosts 2 >/dev/null 2>>"$scratch/errors" &
        codes+=($!)
    done
    local won=0
    for pid in "${codes[@]}"; do wait "$pid" && won=$((won + 1)); done
    expect_eq "$won" 1 "winners among four; they said: $(cat "$scratch/errors")"
    expect_eq "$(grep -cE "is being changed by another|is up already" "$scratch/errors")" 3
    reaches h1 198.18.2.2 || fail "the winner's lab is not whole"
    "$lab" down --all
    expect_nothing_left
    expect_nothing_left "${name}b"
}

made_at_least() {
    [[ $(wc -l 2>/dev/null <"$ASK_LAB_DIR/$name/made") -ge $1 ]]
}

# kill_up SIGNAL LINES: starts an `up` and signals it, and nothing but it, once it has made that many things; SIGKILL
# ends all that it is made of. A shell starts background jobs with SIGINT ignored, hence env. One that is ready before it could be
# stopped, as nobody looked for so long, is taken down, and another one killed.
kill_up() {
    local got=0 up
    setsid env --default-signal=INT "$lab" up --name "$name" --no-daemons --hosts 24 >/dev/null 2>&1 &
    up=$!
    wait_for made_at_least "$2"
    if ! kill -STOP -- "-$up" 2>/dev/null || [[ -e $ASK_LAB_DIR/$name/ready ]]; then
        kill -CONT -- "-$up" 2>/dev/null || true # it may have ended
        wait "$up" || fail "an up that nobody has killed ended with $?"
        "$lab" down --name "$name"
        ((${3-0} < 3)) || fail "up had finished before SIG$1 at $2, again and again"
        kill_up "$1" "$2" $((${3-0} + 1))
        return
    fi
    if [[ $1 == KILL ]]; then kill -KILL -- "-$up"; else kill "-$1" "$up"; fi
    kill -CONT -- "-$up" 2>/dev/null || true # nobody is left to go on
    { wait "$up" || got=$?; } 2>/dev/null
    ((got != 0)) || fail "up finished in spite of SIG$1 at $2"
    # What a killed process has asked the kernel for is done before it is gone, and has the lab's lock until then.
    wait_for session_gone "$up"
}

# session_gone LEADER: nobody of its session runs.
session_gone() {
    ! pgrep --session "$1" --runstates D,R,S,T,t >/dev/null
}

test_killed_during_up() {
    local signal at
    for signal in TERM INT HUP; do
        for at in 1 30; do
            kill_up "$signal" "$at"
            expect_nothing_left
        done
    done
}

# Nothing but commands that start and end, which is when bash loses signals: a plain trap missed 2 to 4 of 100 here.
busy_shell() {
    # shellcheck disable=SC2016 # for the shell that is started
    exec env --default-signal=INT bash -euc '
        source "$0/tools/lib/common.sh"
        busy() {
            trap "rm \"$1\"" EXIT
            trap "exit 9" TERM
            : >"$1"
            for _ in {1..5000}; do : "$(true)"; done
        }
        interruptible busy "$1"' "$root" "$1"
}

test_no_signal_lost() {
    local i got
    for i in {1..100}; do
        busy_shell "$scratch/busy" &
        wait_for test -e "$scratch/busy"
        sleep "0.0$((RANDOM % 40 + 10))"
        kill -INT $!
        got=0
        wait $! || got=$?
        expect_eq "$got" 130 "exit code after signal $i"
        [[ ! -e $scratch/busy ]] || fail "signal $i ended the shell, not its work"
    done
}

test_unclean_end() {
    local at
    for at in 1 2 7 30; do
        kill_up KILL "$at"
        "$lab" down --name "$name"
        expect_nothing_left
    done
    # `up` itself clears what an unfinished one left.
    kill_up KILL 30
    up --hosts 2 2>"$scratch/said"
    grep -q "unfinished" "$scratch/said" || fail "up does not say that it clears leftovers"
    reaches h1 198.18.2.2 || fail "the new lab does not work"
    # Parts that went missing meanwhile do not stop `down`.
    umount "$ASK_LAB_DIR/$name/bpf/h1"
    ip netns del "ask-$name-h2"
    rm "$ASK_LAB_DIR/$name/settings"
    "$lab" down --name "$name"
    expect_nothing_left
}

test_refuses_foreign() {
    local -r ns=ask-$name-h2
    extra_netns+=("$ns")
    ip netns add "$ns"
    ip -n "$ns" link set dev lo alias "somebody else's"
    expect_error 1 "not this lab's" "$lab" up --name "$name" --no-daemons --hosts 3
    expect_eq "$(ip netns list | awk '{ print $1 }' | grep "^ask-$name-" || true)" "$ns" "foreign namespace survives a failed up"
    ip netns del "$ns"

    # A namespace that took the place of ours is somebody else's, whatever its name; so is a mount.
    up --hosts 3
    ip netns del "$ns"
    ip netns add "$ns"
    ip -n "$ns" link add veth9 type veth peer name veth8
    umount "$ASK_LAB_DIR/$name/bpf/h1"
    mount -t bpf other "$ASK_LAB_DIR/$name/bpf/h1"
    "$lab" down --name "$name" 2>"$scratch/said" || true
    grep -q "leaving it alone" "$scratch/said" || fail "down does not say what it leaves alone: $(cat "$scratch/said")"
    ip -n "$ns" link show dev veth9 >/dev/null || fail "down touched a foreign namespace"
    expect_eq "$(findmnt -no SOURCE "$ASK_LAB_DIR/$name/bpf/h1")" other "foreign mount"
    umount "$ASK_LAB_DIR/$name/bpf/h1"
    "$lab" down --name "$name" 2>/dev/null || fail "down fails once the foreign mount is gone"
    ip netns del "$ns"
    expect_nothing_left

    mkdir -p "$ASK_LAB_DIR/$name/mine"
    expect_error 1 "is no lab" "$lab" up --name "$name" --no-daemons
    [[ -d $ASK_LAB_DIR/$name/mine ]] || fail "up removed a foreign directory"
    "$lab" down --name "$name"
    [[ -d $ASK_LAB_DIR/$name/mine ]] || fail "down removed a foreign directory"
}

test_bad_input() {
    expect_error 2 "bad lab name" "$lab" up --name "Big_Name"
    expect_error 2 "bad lab name" "$lab" up --name "abcdefghijklm"
    expect_error 2 "bad lab name" "$lab" down --name "../x"
    expect_error 2 "number from 1 to" "$lab" up --name "$name" --hosts 0
    expect_error 2 "number from 1 to" "$lab" up --name "$name" --hosts 66
    expect_error 2 "needs a value" "$lab" up --name "$name" --hosts
    expect_error 2 "on or off" "$lab" up --name "$name" --switch maybe
    expect_error 2 "unknown option --hots" "$lab" up --name "$name" --hots 3
    expect_error 1 "cannot read" "$lab" up --name "$name" --config-switch /nonexistent
    expect_error 1 "tools/build" env ASK_BUILD_DIR="$scratch/empty" "$lab" up --name "$name"
    expect_error 1 "needs root" setpriv --reuid=65534 --clear-groups --no-new-privs "$lab" up --name "$name" --no-daemons
    expect_error 2 "Usage" "$lab" upp
    [[ ! -e $ASK_LAB_DIR ]] || fail "a refused command left $ASK_LAB_DIR"
}

# Whatever runs in the lab's namespaces ends with it, even if it takes no notice of SIGTERM.
test_down_stops_processes() {
    up --hosts 1
    mkfifo "$scratch/ready"
    "$lab" exec --name "$name" h1 -- bash -c "trap '' TERM; echo >'$scratch/ready'; exec sleep 1000" &
    local -r pid=$!
    read -r <"$scratch/ready"
    "$lab" down --name "$name" 2>"$scratch/said"
    local got=0
    { wait "$pid" || got=$?; } 2>/dev/null
    expect_eq "$got" 137
    grep -q "killing" "$scratch/said" || fail "down does not say that it had to kill"
    expect_nothing_left
}

test_daemons() {
    fake_build
    printf 'log_level = "debug"\nswitch_id = 9\n' >"$scratch/switch.toml"
    "$lab" up --name "$name" --hosts 2 --switchd-args "--memory shared" --agent-args "--workers 2" \
        --config-switch "$scratch/switch.toml" >/dev/null
    expect_eq "$("$lab" log --name "$name" sw)" "started with: --memory shared"
    expect_eq "$("$lab" log --name "$name" h2)" "started with: --workers 2"
    expect_eq "$(grep -cE '^(switch_id|log_level) ' "$ASK_LAB_DIR/$name/conf/sw.toml")" 2
    grep -q '^switch_id = 9$' "$ASK_LAB_DIR/$name/conf/sw.toml" || fail "--config-switch did not replace a key"
    expect_eq "$("$lab" status --name "$name" --json | jq -c '[.nodes[].running]')" "[true,true,true]"

    "$lab" down --name "$name"
    # A pipe can be read once, and every host wants what it holds.
    "$lab" up --name "$name" --hosts 2 --config-agent <(printf 'workers = 3\n') --config-switch <(printf 'switch_id = 7\n') \
        >/dev/null
    expect_eq "$(cat "$ASK_LAB_DIR/$name/conf"/h?.toml | grep -c '^workers = 3$')" 2
    expect_eq "$(grep -c '^switch_id = 7$' "$ASK_LAB_DIR/$name/conf/sw.toml")" 1
    expect_error 2 "is empty" "$lab" up --name other --config-agent /dev/null

    # A daemon keeps nothing of its caller's open but its log.
    "$lab" restart --name "$name" h2 9<"$scratch/switch.toml"
    local -r pid=$("$lab" status --name "$name" --json | jq '.nodes[2].pid')
    expect_eq "$(find "/proc/$pid/fd" -lname "$scratch/switch.toml")" "" "files inherited"
    expect_eq "$(find "/proc/$pid/fd" -lname '*.lock')" "" "locks inherited"

    "$lab" kill --name "$name" h1 -KILL
    wait_for daemon_is "$name" 1 false
    expect_error 1 "no daemon runs on h1" "$lab" kill --name "$name" h1
    "$lab" restart --name "$name" h1
    wait_for daemon_is "$name" 1 true
    "$lab" restart --name "$name" sw
    expect_eq "$("$lab" log --name "$name" sw | grep -c stopped)" 1
    "$lab" down --name "$name"
    expect_nothing_left
    # Without a switch daemon.
    "$lab" up --name "$name" --hosts 1 --switch off >/dev/null
    expect_eq "$("$lab" status --name "$name" --json | jq -c '[.nodes[].running]')" "[false,true]"
    expect_eq "$(grep -c '^switch = ""' "$ASK_LAB_DIR/$name/conf/h1.toml")" 1
    expect_error 1 "has no daemon" "$lab" restart --name "$name" sw
}

daemon_is() {
    [[ $("$lab" status --name "$1" --json | jq ".nodes[$2].running") == "$3" ]]
}

lab_is_gone() {
    [[ ! -e $ASK_LAB_DIR/$name && ! -e $ASK_LAB_DIR/$name.lock ]]
}

test_daemon_failures() {
    fake_build
    expect_error 1 "no such thing as luck" "$lab" up --name "$name" --hosts 2 --agent-args --fail
    expect_nothing_left
    expect_error 1 "no such thing as luck" "$lab" up --name "$name" --hosts 2 --switchd-args --fail
    expect_nothing_left
    # Killed while it waits for a daemon that never gets ready.
    local got=0
    "$lab" up --name "$name" --hosts 1 --agent-args --never-ready >/dev/null 2>&1 &
    local -r pid=$!
    wait_for test -s "$ASK_LAB_DIR/$name/pids/h1"
    kill -TERM "$pid"
    wait "$pid" || got=$?
    expect_eq "$got" 143
    expect_nothing_left
    # SIGKILL of the shell that waits: the one that works undoes everything by itself, long before it gives up on the daemon.
    "$lab" up --name "$name" --hosts 1 --agent-args --never-ready >/dev/null 2>&1 &
    wait_for test -s "$ASK_LAB_DIR/$name/pids/h1"
    kill -KILL $!
    { wait $! || true; } 2>/dev/null
    wait_for lab_is_gone
    expect_nothing_left
    # SIGKILL of `up` with daemons running, and of a daemon that ignores SIGTERM.
    "$lab" up --name "$name" --hosts 1 --agent-args "--never-ready --ignore-term" >/dev/null 2>&1 &
    wait_for test -s "$ASK_LAB_DIR/$name/pids/h1"
    wait_for grep -q started "$ASK_LAB_DIR/$name/logs/h1.log"
    kill -KILL $!
    { wait $! || true; } 2>/dev/null
    "$lab" down --name "$name" 2>/dev/null
    expect_nothing_left
}

[[ $(type -t "test_${1-}") == function ]] || { echo "usage: $0 $(compgen -A function test_ | sed s/test_// | paste -sd'|')" >&2 && exit 2; }
"test_$1"
echo "ok $1"
