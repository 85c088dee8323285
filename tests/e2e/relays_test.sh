#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# relays_test.sh plans|deaths|hangs|reserve: tasks on a tree of relays, in SOAR's own of seven switches. As many flows end on each link as the
# plan says, to the packet; exact under loss, with relays, their agents and switches killed, and links cut; who is missing is
# named by host.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# s1 is the root, where h5 receives; s2 and s3 are below it; s4 to s7 are the leaves of h1 to h4. SOAR's loads, Fig. 2.
readonly LOADS=(2 6 5 4)
sender_host() {
    local at=$1 leaf
    for leaf in 0 1 2 3; do
        ((at > LOADS[leaf])) || break
        at=$((at - LOADS[leaf]))
    done
    printf 'h%d' $((leaf + 1))
}

# Bytes on links are compared where nothing is sent again: slow machines are no loss.
tree_up() {
    lab_up --topology tree:2,3 --controller --agent-args "--rto-floor-us 300000"
    "$lab" status --name "$name" --json | jq '.topology
        | .host |= map(if .name == "h1" then .load = 2 elif .name == "h2" then .load = 6 elif .name == "h3" then .load = 5 else . end)
        | .host |= map(if .name == "h4" then .load = 4 else . end)' >"$scratch/tree.json"
}

# plan FILE K [SWITCH,...]: at most K switches, of these.
plan() {
    jq --arg only "${3-}" '($only | split(",")) as $only
        | .switch |= map(.available = ($only == [] or (.name | IN($only[]))))' "$scratch/tree.json" |
        ask_plan - --receiver h5 --k "$2" --json >"$1"
}

ask_plan() {
    "$build/bin/ask-plan" "$@"
}

# fins: [{link, fins}] of the links between switches and of the receiver's, towards it: first copies, whatever is sent again or doubled.
fins() {
    "$lab" link --name "$name" --json | jq -c '[.[]
        | select((.from | test("^s")) and (.to | test("^s")) or .from == "h5")
        | if .from == "h5" then {link: "s1 -> h5", fins: (.down.first_fins // 0)}
          else {link: "\(.from) -> \(.to)", fins: (.up.first_fins // 0)} end]'
}

# carried: [{link, packets, bytes}] of the same links: what senders' packets were on each, with those that were sent again.
carried() {
    "$lab" link --name "$name" --json | jq -c '[.[]
        | select((.from | test("^s")) and (.to | test("^s")) or .from == "h5")
        | (if .from == "h5" then {link: "s1 -> h5", way: .down} else {link: "\(.from) -> \(.to)", way: .up} end)
        | [.way.data, .way.long, .way.var, .way.fin | values] as $types
        | {link, packets: ([$types[].packets] | add // 0), bytes: ([$types[].bytes] | add // 0)}]'
}

# explained DIR NAME BEFORE: askctl says as many flows on each link of the plan as FINs were counted there, and as many bytes as
# the lab counted since BEFORE, but for packets that were sent again, and on a bad wire ($FAULTS), which doubles some unasked.
explained() {
    local -r dir=$1
    on h5 askctl task explain "$2" --json >"$dir/explained.json"
    jq -n --argjson before "$3" --argjson after "$(carried)" '[range($before | length) as $i
        | {key: $after[$i].link, value: ($after[$i].bytes - $before[$i].bytes)}] | from_entries' >"$dir/carried.json"
    jq -e --arg faults "${FAULTS-}" --slurpfile counted "$dir/fins.json" --slurpfile carried "$dir/carried.json" '.here[0].crossed
        | (.unknown == []) and ([.links[] | {link: "\(.from) -> \(.to)", fins: .flows}] | sort) == ($counted[0] | sort)
          and all(.links[]; .flows == .flows_planned and .frame_bytes <= $carried[0]["\(.from) -> \(.to)"]
              and ($faults != "" or .retransmissions > 0 or .frame_bytes == $carried[0]["\(.from) -> \(.to)"]))' \
        "$dir/explained.json" >/dev/null ||
        fail "$2: explained $(jq -c '.here[0].crossed' "$dir/explained.json"), carried $(jq -c . "$dir/carried.json")"
}

# finish_placed DIR: everybody succeeded, and the answer is the reference's.
finish_placed() {
    local -r dir=$1
    local pid who
    while read -r pid who; do
        exit_of "$pid"
        ((code == 0)) || fail "$dir: $who ended with $code: $(tail -n 20 "$dir"/*.err)"
    done <"$dir/pids"
    cmp -s "$dir/recv.out" "$dir/expected.tsv" ||
        fail "$dir: wrong answer: $(diff "$dir/recv.out" "$dir/expected.tsv" | head -n 8 | cut -c 1-120)"
}

numbers() {
    make_input "$scratch/$1" --seed "$2" --senders 17 --tuples 400 --keys 300 "${@:3}"
}

# as_planned DIR NAME PLAN FINS_BEFORE CARRIED_BEFORE: in one run, and each link has carried as many flows as planned since.
as_planned() {
    local -r dir=$1
    jq -n --argjson before "$4" --argjson after "$(fins)" \
        '[range($before | length) as $i | {link: $after[$i].link, fins: ($after[$i].fins - $before[$i].fins)}]' >"$dir/fins.json"
    jq -e --slurpfile counted "$dir/fins.json" '[.links[] | {link: "\(.from) -> \(.to)", fins: .messages}]
        | sort == ($counted[0] | sort)' "$3" >/dev/null ||
        fail "$2: planned $(jq -c '[.links[] | {from, to, messages}]' "$3"), counted $(jq -c . "$dir/fins.json")"
    jq -e '.runs == 1 and .complete' "$dir/recv.json" >/dev/null || fail "$2: $(cat "$dir/recv.json")"
    explained "$dir" "$2" "$5"
}

# counted NAME COST K [SWITCH,...]: what is planned, and what each link then carries, one FIN a flow.
counted() {
    local -r dir=$scratch/$1 cost=$2
    local before before_all sum
    mkdir -p "$dir"
    plan "$dir/plan.json" "$3" "${4-}"
    jq -e --argjson cost "$cost" '[.links[].messages] | add == $cost' "$dir/plan.json" >/dev/null ||
        fail "$1: planned $(jq -c '.links' "$dir/plan.json")"
    numbers "$1" "$3"
    before=$(fins)
    before_all=$(carried)
    start_task "$dir" "$1" h5 "--placement $dir/plan.json ${DEADLINE:+--deadline $DEADLINE}" "${DEADLINE:+--deadline $DEADLINE}"
    finish_placed "$dir"
    as_planned "$dir" "$1" "$dir/plan.json" "$before" "$before_all"
    sum=$(jq '[.[].fins] | add' "$dir/fins.json")
    ((sum == cost)) || fail "$1: $sum FINs on links, and SOAR has $cost"
    printf '%s: %s FINs, at %s\n' "$1" "$sum" "$(jq -r '.aggregate | join(" ")' "$dir/plan.json")"
}

# SOAR, Fig. 2 and 3.
figures() {
    counted top 27 2 s1,s3
    counted max 24 2 s5,s6
    counted level 21 2 s2,s3
    counted none 51 0
    counted one 35 1
    counted two 20 2
    counted three 15 3
    counted four 11 4
    on h5 askctl task explain two | grep -qE '^all +20 +20 +- +[0-9,]+$' || fail "two: not explained in words: $(on h5 askctl task explain two)"
    pass "as many FINs on each link as planned: SOAR's Fig. 2 and 3"
}

# A sum and a count of each key, which only senders make.
means() {
    numbers mean 9
    cat "$scratch/mean"/in*.tsv | awk -F '\t' '
        NR == FNR { count[$1]++; next }
        {
            size = $2 < 0 ? -$2 : $2
            tenths = int((20 * size + count[$1]) / (2 * count[$1]))
            printf "%s\t%s%.0f.%d\t%s\t%d\n", $1, ($2 < 0 && tenths > 0 ? "-" : ""), int(tenths / 10), tenths % 10, $2, count[$1]
        }' - "$scratch/mean/expected.tsv" >"$scratch/mean/means.tsv"
    mv "$scratch/mean/means.tsv" "$scratch/mean/expected.tsv"
    start_task "$scratch/mean" mean h5 "--op mean --decimals 1 --placement $scratch/deep.json"
    finish_placed "$scratch/mean"
}

# The answer is the same wherever it was added up, and whatever the operator.
operators() {
    local op
    plan "$scratch/deep.json" 7
    for op in min max sum count; do
        if [[ $op == count ]]; then numbers count 9 --op count --count-lines; else numbers "$op" 9 --op "$op"; fi
        start_task "$scratch/$op" "$op" h5 "--op $op --placement $scratch/deep.json" "$([[ $op != count ]] || echo --count)"
        finish_placed "$scratch/$op"
    done
    means
    pass "every operator on seven relays"
}

# A partial sum that leaves int64 is none of its relay's business.
wide_sums() {
    local -r dir=$scratch/wide most=9223372036854775807
    local i
    mkdir -p "$dir"
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do printf 'k\t0\n' >"$dir/in$i.tsv"; done
    printf 'k\t%s\nj\t-%s\n' "$most" "$most" >"$dir/in1.tsv"
    cp "$dir/in1.tsv" "$dir/in2.tsv"
    printf 'k\t-%s\nj\t%s\n' "$most" "$most" >"$dir/in16.tsv"
    printf 'k\t-%s\nj\t%s\n' "$most" "$most" >"$dir/in17.tsv"
    printf 'j\t0\nk\t0\n' >"$dir/expected.tsv"
    start_task "$dir" wide h5 "--placement $scratch/deep.json"
    finish_placed "$dir"
    pass "sums that leave int64 on the way"
}

# refused TEXT FLAG... : by name, before anything happens.
refused() {
    local -r text=$1
    local code=0
    shift
    on h5 ask-recv --task no --senders 17 --deadline 5 "$@" >"$scratch/no.out" 2>"$scratch/no.err" </dev/null || code=$?
    ((code != 0)) || fail "$* is taken"
    grep -q -- "$text" "$scratch/no.err" || fail "$* ended with $code: $(cat "$scratch/no.err")"
}

odd_plans() {
    local -r odd=$scratch/odd.json
    jq '.placement.hosts[0].sends = 3' "$scratch/deep.json" >"$odd"
    refused 'its hosts send 18 times, and the task has 17 senders' --placement "$odd"
    jq '.placement.relays |= reverse' "$scratch/deep.json" >"$odd"
    refused 'parents come first' --placement "$odd"
    jq '.placement.relays[1].name = .placement.relays[0].name' "$scratch/deep.json" >"$odd"
    refused 'is there twice' --placement "$odd"
    jq '.placement.hosts[0].entry = "s99"' "$scratch/deep.json" >"$odd"
    refused "sends to 's99', which is no relay of the plan" --placement "$odd"
    jq '.placement.relays[0].address = "somewhere:1"' "$scratch/deep.json" >"$odd"
    refused 'must be IPv4:PORT or \[IPv6\]:PORT, not somewhere:1' --placement "$odd"
    jq '.placement.relays[1].parent = .placement.relays[1].name' "$scratch/deep.json" >"$odd"
    refused 'which is no relay of the plan, or comes after it: parents come first' --placement "$odd"
    jq '.placement.relays[0].parent = .placement.relays[-1].name' "$scratch/deep.json" >"$odd"
    refused 'parents come first' --placement "$odd"
    jq '.placement.hosts[0].sends = 0' "$scratch/deep.json" >"$odd"
    refused 'sends must be from 1 to' --placement "$odd"
    jq '.placement.hosts[0].sends = -1' "$scratch/deep.json" >"$odd"
    refused "'sends' must be a whole number from 0 to 4294967295" --placement "$odd"
    jq '.placement.hosts[0].sends = 4294967295' "$scratch/deep.json" >"$odd"
    refused 'sends must be from 1 to' --placement "$odd"
    jq '.placement.links[0].messages = -1' "$scratch/deep.json" >"$odd"
    refused "'messages' must be a whole number from 0" --placement "$odd"
    jq '.placement.hosts[1].address = .placement.hosts[0].address' "$scratch/deep.json" >"$odd"
    refused 'is there twice' --placement "$odd"
    jq '.placement.relays = "s1"' "$scratch/deep.json" >"$odd"
    refused "'relays' must be an array" --placement "$odd"
    jq '.placement.relays[0] = 1' "$scratch/deep.json" >"$odd"
    refused 'a relay is no object' --placement "$odd"
    jq '.placement.relays[0].name = ("s" * 70000)' "$scratch/deep.json" >"$odd"
    refused 'the name of a relay must have 1 to' --placement "$odd"
    # A million, in a file that may be as long as one may; and in one that may not.
    printf '{"relays": [%s{}]}' "$(printf '%01000000d' 0 | sed 's/0/{},/g')" >"$odd"
    refused "a relay has no 'name'" --placement "$odd"
    jq '.placement.relays += [range(100000) | {name: "n\(.)", address: "198.18.129.2:4793"}]' "$scratch/deep.json" >"$odd"
    refused 'is longer than 4194304 bytes' --placement "$odd"
    jq '.placement.relays += [range(1000) | {name: "n\(.)", address: "198.18.129.2:4793"}]' "$scratch/deep.json" >"$odd"
    refused 'the limits are 256 and 4096' --placement "$odd"
    printf 'nonsense' >"$odd"
    refused 'is no JSON object' --placement "$odd"
    refused 'cannot be\|No such file' --placement "$scratch/none.json"
    refused 'choose one\|it goes with' --placement "$scratch/deep.json" --no-switch
    refused 'choose one\|it goes with' --placement "$scratch/deep.json" --switches own
    refused 'choose one\|it goes with' --placement "$scratch/deep.json" --allow-incomplete
    pass "plans that make no sense"
}

# beside_another: a relay whose agent has another switch than the plan's is done without, by name, and the rest goes on.
beside_another() {
    local -r dir=$scratch/beside
    mkdir -p "$dir"
    plan "$dir/right.json" 3 s2,s3,s6
    jq '.placement.relays |= map(if .name == "s6" then .control = "198.19.128.7:4792" else . end)' "$dir/right.json" >"$dir/plan.json"
    numbers beside 16
    start_task "$dir" beside h5 "--placement $dir/plan.json"
    finish_placed "$dir"
    grep -q "relay s6: its agent's switch is 198.19.128.6:4792, and the plan has s6 at 198.19.128.7:4792: .*: the task begins again without relay s6" \
        "$dir/recv.err" || fail "beside: not said: $(cat "$dir/recv.err")"
    jq -e '.runs == 2 and ([.relays[].name] | sort) == ["s2", "s3"]' "$dir/recv.json" >/dev/null || fail "beside: $(cat "$dir/recv.json")"
    # What comes to s6 crosses the link above it now.
    on h5 askctl task explain beside --json |
        jq -e '.here[0].crossed | .unknown == [] and all(.links[]; .flows == .flows_planned) and any(.links[]; .from == "s6" and .flows == 5)' >/dev/null ||
        fail "beside: explained: $(on h5 askctl task explain beside)"
    pass "a relay that is beside another switch"
}

# What a controller says once it is no longer young, of a relay that is away, and without one.
by_controller() {
    # It has grown while the tasks before ran, or not.
    new_controller 10
    numbers early 10
    start_task "$scratch/early" early h5 "--placement auto --k 2"
    finish_placed "$scratch/early"
    grep -q '^ask-recv: no relays: ' "$scratch/early/recv.err" || fail "early: it is not said: $(cat "$scratch/early/recv.err")"
    wait_for 60 is_grown
    numbers auto 11
    start_task "$scratch/auto" auto h5 "--placement auto --k 2"
    finish_placed "$scratch/auto"
    jq -e '.runs == 1 and (.relays | length) > 0' "$scratch/auto/recv.json" >/dev/null || fail "auto: $(cat "$scratch/auto/recv.json")"
    on h5 askctl tasks --json | jq -e 'any(.[]; .id == "auto" and (.relays | length) > 0)' >/dev/null || fail "auto: tasks do not show relays"
    on h5 askctl task explain auto | grep -q '^Relay s[0-9] (198.18.1[0-9]*.2:4793) sends one flow to the receiver: ' || fail "auto: not explained"
    tasks_of_relays
    planned_again away-auto auto '' relay_stays_away
    planned_again full-auto away-auto memory_mib relay_is_full
    pass "planned again without a relay that is away, or full"
    lab_do kill r3.relayd -KILL
    lab_do kill s1.controld -KILL
    numbers alone 12
    start_task "$scratch/alone" alone h5 "--placement auto --k 2"
    finish_placed "$scratch/alone"
    lab_do restart r3.relayd
    pass "placed by a controller, a young one, and none"
    controller_dies
}

# planned_again ID FROM WORDS COMMAND...: what COMMAND does to a relay of FROM's plan keeps it from opening, which WORDS say of it. The controller
# hears of it from the receiver: another plan, without that relay.
planned_again() {
    local -r id=$1 dir=$scratch/$1 words=$3
    local lost
    lost=$(jq -r '.relays[0].name' "$scratch/$2/recv.json")
    "${@:4}" "r${lost#s}"
    numbers "$id" 17
    start_task "$dir" "$id" h5 "--placement auto --k 2"
    finish_placed "$dir"
    grep -qE "ask-recv: relay $lost.*$words.*: the task begins again without relay $lost" "$dir/recv.err" || fail "$id: not said: $(cat "$dir/recv.err")"
    jq -e --arg lost "$lost" '.runs == 2 and .complete and (.relays | length) > 0 and all(.relays[]; .name != $lost)' "$dir/recv.json" >/dev/null ||
        fail "$id: $(cat "$dir/recv.json")"
    # The agent tells it beside the task.
    wait_for 10 has_refused "$lost"
    sed -i '/^memory_mib/d' "$ASK_LAB_DIR/$name/conf/r${lost#s}.relayd.toml"
    lab_do restart "r${lost#s}.relayd"
}

# has_refused RELAY: the controller has heard of it.
has_refused() {
    asked_controller relays --json | jq -e --arg lost "$1" 'any(.[]; .name == $lost and (.refusals | tonumber) > 0)' >/dev/null
}

relay_stays_away() {
    relay_killed "$1.relayd"
}

# Less than one task reserves.
relay_is_full() {
    sed -i '1i memory_mib = 64' "$ASK_LAB_DIR/$name/conf/$1.relayd.toml"
    lab_do restart "$1.relayd"
}

# new_controller LEASE: one that knows of no task, and is young for so many seconds.
new_controller() {
    local -r conf=$ASK_LAB_DIR/$name/conf/s1.controld.toml
    sed -i '/^lease_seconds/d' "$conf"
    sed -i "1i lease_seconds = $1" "$conf"
    lab_do restart s1.controld
}

asked_controller() {
    on s1 askctl --controller "unix:$ASK_LAB_DIR/$name/s1/controller.sock" "$@"
}

# has_plan TASK
has_plan() {
    asked_controller plans --json | jq -e --arg task "$1" 'any(.[]; .task == $task and (.switches | length) > 0)' >/dev/null
}

no_plans() {
    asked_controller plans --json | jq -e '. == []' >/dev/null
}

not_renewed() {
    grep -q "task $1: its plan is not renewed, and it goes on" "$ASK_LAB_DIR/$name/logs/h5.log"
}

# The controller dies under two tasks that it placed: one ends before there is another controller, which hears of the other by
# its renewals.
controller_dies() {
    local id
    new_controller 4
    wait_for 20 is_grown
    for id in ends lasts; do
        numbers "$id" 18
        FEED=halves start_task "$scratch/$id" "$id" h5 "--deadline 20 --placement auto --k 2" "--deadline 20"
        wait_for 20 is_streaming h5 "$id"
        has_plan "$id" || fail "$id: the controller has no plan: $(asked_controller plans)"
    done
    lab_do kill s1.controld -KILL
    wait_for 20 not_renewed lasts
    : >"$scratch/ends.rest"
    finish_placed "$scratch/ends"
    lab_do restart s1.controld
    wait_for 20 has_plan lasts
    ! has_plan ends || fail "ends: the controller has a plan of a task that is over"
    : >"$scratch/lasts.rest"
    finish_placed "$scratch/lasts"
    for id in ends lasts; do
        jq -e '.runs == 1 and .complete and (.relays | length) > 0' "$scratch/$id/recv.json" >/dev/null || fail "$id: $(cat "$scratch/$id/recv.json")"
    done
    wait_for 20 no_plans
    pass "a controller that dies under the tasks that it placed"
}

# is_streaming NODE TASK
is_streaming() {
    on "$1" askctl tasks --json | jq -e --arg task "$2" 'any(.[]; .id == $task and .role == "receiver" and .state == "streaming")' >/dev/null
}

# What relays say of their tasks, asked one by one or all that the controller knows.
tasks_of_relays() {
    local controller
    local -r whole='.state == "committed" and .senders_joined == .senders and .senders_finished == .senders'
    on r2 askctl relays --relay "unix:$ASK_LAB_DIR/$name/r2/relay.sock" --json >"$scratch/r2.json"
    jq -e "length == 1 and .[0].relay == \"r2\" and any(.[0].tasks[]; .task_id == \"sum\" and $whole)" "$scratch/r2.json" >/dev/null ||
        fail "r2 says of its tasks: $(cat "$scratch/r2.json")"
    controller=$(sed -nE 's/^controller = "(.*)"$/\1/p' "$ASK_LAB_DIR/$name/conf/h5.toml")
    on h5 askctl --controller "$controller" relays --tasks --json >"$scratch/tasks.json"
    jq -e "length == 7 and all(.[]; any(.tasks[]; .task_id == \"sum\" and $whole)) and ([.[] | .relay] | sort) == [\"s1\", \"s2\", \"s3\", \"s4\", \"s5\", \"s6\", \"s7\"]" \
        "$scratch/tasks.json" >/dev/null || fail "relays say of their tasks: $(cat "$scratch/tasks.json")"
}

is_grown() {
    ! asked_controller plans | grep -q ' more$'
}

plans() {
    tree_up
    figures
    operators
    wide_sums
    odd_plans
    beside_another
    by_controller
    wait_for 20 no_tasks h1 h2 h3 h4 h5 r1 r2 r3 r4 r5 r6 r7 s1 s2 s3 s4 s5 s6 s7
}

# A half of each input at once, the rest on request: $scratch/TASK.rest.
halves() {
    local -r all=$(wc -l <"$1")
    head -n $((all / 2)) "$1"
    wait_for 60 test -e "$scratch/$2.rest"
    tail -n +$((all / 2 + 1)) "$1"
}

relayed_under_way() {
    on "$1" askctl tasks --json | jq -e 'any(.[]; .role == "receiver" and .state == "streaming")' >/dev/null
}

# dies ID RUNS COMMAND... : in the middle of a task, whose answer is exact all the same. Who is silent for half of $DEADLINE
# is left out, and a relay that has not opened within a third of it.
dies() {
    local -r id=$1 runs=$2 dir=$scratch/$1
    shift 2
    numbers "$id" 3
    FEED=halves start_task "$dir" "$id" h5 "--deadline ${DEADLINE:-12} --placement $scratch/deep.json" "--deadline ${DEADLINE:-12}"
    wait_for 20 relayed_under_way r4
    "$@"
    : >"$scratch/$id.rest"
    finish_placed "$dir"
    jq -e --argjson runs "$runs" '.runs == $runs and .complete' "$dir/recv.json" >/dev/null || fail "$id: $(cat "$dir/recv.json")"
    pass "$id"
}

restart_all() {
    local node
    for node; do lab_do restart "$node"; done
}

relay_killed() {
    lab_do kill "$1" -KILL
}

switch_loses_all() {
    lab_do kill "$1" -KILL
    unload "$1"
    lab_do restart "$1"
}

cut_for_a_while() {
    lab_do link s4 s2 down
    sleep 2 # how long the link is cut
    lab_do link s4 s2 up
}

# FINs of the links above that were sent again, or doubled by the wire.
repeated_fins() {
    "$lab" link --name "$name" --json | jq '[.[] | .up, .down | (.fin.packets // 0) - (.first_fins // 0)] | add'
}

# First copies are SOAR's messages whatever the wire does to the others.
counted_under_loss() {
    FAULTS=1 DEADLINE=40 counted lossy-two 20 2
    FAULTS=1 DEADLINE=40 counted lossy-none 51 0
    (($(repeated_fins) > 0)) || fail "no FIN came twice on a bad wire"
    pass "as many FINs on each link as planned, of which $(repeated_fins) came again"
}

under_loss() {
    lab_do chaos set --loss 3 --dup 3 --reorder 3 --seed 5
    counted_under_loss
    # TCP doubles its pause while the link is cut, and the first that it sends afterwards may be lost too.
    DEADLINE=40 dies loss 1 cut_for_a_while
    lab_do chaos clear
}

# Hangs before it has opened anything.
relay_hangs() {
    lab_do kill "$1.relayd" -STOP
    numbers hangs 8
    start_task "$scratch/hangs" hangs h5 "--deadline 9 --placement $scratch/deep.json" "--deadline 9"
    finish_placed "$scratch/hangs"
    grep -q 'ask-recv: relay s3 .*: the task begins again without relay s3' "$scratch/hangs/recv.err" || fail "hangs: not said: $(cat "$scratch/hangs/recv.err")"
    lab_do kill "$1.relayd" -CONT
    restart_all "$1.relayd"
    pass "a relay that hangs"
}

# lease SECONDS, of s1.
lease() {
    local -r conf=$ASK_LAB_DIR/$name/conf/s1.toml
    sed -i '/^lease_seconds/d' "$conf"
    sed -i "1i lease_seconds = $1" "$conf"
    lab_do kill s1 -HUP
}

# The channel of an agent that was killed stays at the switch that its task used, which gives it up. What the next agent sends
# by it passes there, for a task of which that switch does not know.
left_behind() {
    local -r dir=$scratch/past
    local channel
    channel="channel $(on r2 ip -4 -json addr show eth0 | jq -r '.[0].addr_info[0].local'):[0-9]+"
    lease 5
    dies agent-killed 2 relay_killed r2
    restart_all r2 r2.relayd
    wait_for 20 grep -qE "$channel .* is given up" "$ASK_LAB_DIR/$name/logs/s1.log"
    plan "$scratch/past.json" 1 s2
    numbers past 16
    start_task "$dir" past h5 "--placement $scratch/past.json"
    finish_placed "$dir"
    jq -e '.runs == 1' "$dir/recv.json" >/dev/null || fail "past: $(cat "$dir/recv.json")"
    lease 30
    pass "past a switch that a killed agent used"
}

# A channel that is registered at a switch whose daemon is away cannot leave it, and its packets are dropped there: the next
# task, to which that switch is on the way, takes another.
on_the_way() {
    local -r dir=$scratch/passes
    plan "$scratch/leaf.json" 1 s4
    numbers leaf 13
    start_task "$scratch/leaf" leaf h5 "--placement $scratch/leaf.json"
    finish_placed "$scratch/leaf"
    lab_do kill s4 -KILL
    plan "$scratch/root.json" 1 s1
    numbers passes 14
    start_task "$dir" passes h5 "--placement $scratch/root.json"
    finish_placed "$dir"
    lab_do restart s4
    jq -e '.runs == 1' "$dir/recv.json" >/dev/null || fail "passes: $(cat "$dir/recv.json")"
    numbers again 15
    start_task "$scratch/again" again h5 "--placement $scratch/root.json"
    finish_placed "$scratch/again"
    pass "past a switch whose daemon is away"
}

# Who never comes is named, and everybody else ends with that.
one_missing() {
    local -r dir=$scratch/missing
    local i pid who
    numbers missing 4
    : >"$dir/pids"
    spawn "$dir/recv" h5 ask-recv --task missing --senders 17 --deadline 10 --placement "$scratch/deep.json" </dev/null
    printf '%s recv\n' "$spawned" >>"$dir/pids"
    for ((i = 1; i <= 16; i++)); do
        spawn "$dir/send$i" "$(sender_host "$i")" ask-send --task missing --to h5 --deadline 20 "$dir/in$i.tsv" </dev/null
        printf '%s send%s\n' "$spawned" "$i" >>"$dir/pids"
    done
    while read -r pid who; do
        exit_of "$pid"
        ((code == 10)) || fail "missing: $who ended with $code: $(cat "$dir/$who.err")"
        grep -qE 'relay s1.*relay s3.*relay s7.*3 of 4 senders joined within.*h4' "$dir/$who.err" || fail "missing: $who said $(cat "$dir/$who.err")"
    done <"$dir/pids"
    pass "one that never comes"
}

# What has come through a pipe cannot be sent again: everybody hears who it is.
cannot_repeat() {
    local -r dir=$scratch/pipe
    local pid who
    numbers pipe 6
    FEED=halves start_task "$dir" pipe h5 "--deadline 12 --placement $scratch/deep.json" "--deadline 12 --spool 0"
    wait_for 20 relayed_under_way r4
    sleep 6 # until the word that one of them cannot has gone up three levels, a second each if nobody is late, which nothing shows
    relay_killed r2.relayd
    while read -r pid who; do
        exit_of "$pid"
        ((code == 13)) || fail "pipe: $who ended with $code: $(cat "$dir/$who.err")"
        grep -q 'cannot send again' "$dir/$who.err" || fail "pipe: $who said $(cat "$dir/$who.err")"
    done <"$dir/pids"
    : >"$scratch/pipe.rest"
    restart_all r2.relayd
    pass "a relay lost, and a sender that cannot repeat"
}

# What its switch has added up can come from nowhere else: who sent there, and who waits for it, hears of that switch.
switchd_gone() {
    local -r dir=$scratch/gone
    local pid who
    numbers gone 19
    FEED=halves start_task "$dir" gone h5 "--deadline 12 --placement $scratch/deep.json" "--deadline 12"
    wait_for 20 relayed_under_way r4
    relay_killed s6
    : >"$scratch/gone.rest"
    while read -r pid who; do
        exit_of "$pid"
        ((code == 10)) || fail "gone: $who ended with $code: $(cat "$dir/$who.err")"
        grep -qE 'relay s1.*relay s3.*relay s6.*what switch 198.19.128.6:4792 has aggregated could not be fetched' "$dir/$who.err" ||
            fail "gone: $who said $(cat "$dir/$who.err")"
    done <"$dir/pids"
    restart_all s6
    pass "a switch that is gone before its relay has fetched"
}

# Before any has sent; of a geometry that is given, before the receiver has heard anything else.
relay_away() {
    relay_killed "$1.relayd"
    numbers away 7
    start_task "$scratch/away" away h5 "--geometry 16*8 --placement $scratch/deep.json"
    finish_placed "$scratch/away"
    jq -e '.runs == 2 and .complete' "$scratch/away/recv.json" >/dev/null || fail "away: $(cat "$scratch/away/recv.json")"
    restart_all "$1.relayd"
    pass "a relay that is away"
}

deaths() {
    tree_up
    plan "$scratch/deep.json" 7
    under_loss
    dies relay-killed 2 relay_killed r2.relayd
    restart_all r2.relayd
    dies leaf-killed 2 relay_killed r4.relayd
    restart_all r4.relayd
    left_behind
    dies switchd-killed 1 restart_all s2
    dies maps-lost 2 switch_loses_all s4
    relay_away r3
    relay_hangs r3
    on_the_way
    switchd_gone
    cannot_repeat
    one_missing
    wait_for 20 no_tasks h1 h2 h3 h4 h5 r1 r2 r3 r4 r5 r6 r7 s1 s2 s3 s4 s5 s6 s7
}

# stopped_for_good ID NODE WORDS: in the middle of a task, which begins again without it, and says who it was.
stopped_for_good() {
    local -r id=$1 node=$2 words=$3
    dies "$id" 2 lab_do kill "$node" -STOP
    grep -qE "$words.*: the task begins again without relay" "$scratch/$id/recv.err" || fail "$id: not said: $(cat "$scratch/$id/recv.err")"
    lab_do kill "$node" -CONT
}

# Everybody who sends to it or through it, and cannot send again, hears who it was.
stopped_beside_a_pipe() {
    local -r dir=$scratch/hung-pipe
    local pid who
    numbers hung-pipe 6
    FEED=halves start_task "$dir" hung-pipe h5 "--deadline 12 --placement $scratch/deep.json" "--deadline 12 --spool 0"
    wait_for 20 relayed_under_way r4
    sleep 6 # until the word that one of them cannot has gone up three levels, a second each if nobody is late, which nothing shows
    lab_do kill r2.relayd -STOP
    while read -r pid who; do
        exit_of "$pid"
        ((code == 13)) || fail "hung-pipe: $who ended with $code: $(cat "$dir/$who.err")"
        grep -qE 'relay s2, .* gave up: ask-relayd has not answered for [0-9]+ s, and .* cannot send again' "$dir/$who.err" ||
            fail "hung-pipe: $who said $(cat "$dir/$who.err")"
    done <"$dir/pids"
    : >"$scratch/hung-pipe.rest"
    lab_do kill r2.relayd -CONT
    pass "a relay stopped for good, and a sender that cannot repeat"
}

hangs() {
    tree_up
    plan "$scratch/deep.json" 7
    stopped_for_good root-hangs r1.relayd 'relay s1, .* gave up: ask-relayd has not answered for [0-9]+ s'
    stopped_for_good below-hangs r6.relayd 'relay s1, .* relay s3, .* relay s6, .* gave up: ask-relayd has not answered for [0-9]+ s'
    stopped_for_good agent-hangs r2 'relay s2, .* has not been heard of for [0-9]+ s'
    stopped_beside_a_pipe
    wait_for 20 no_tasks h1 h2 h3 h4 h5 r1 r2 r3 r4 r5 r6 r7 s1 s2 s3 s4 s5 s6 s7
}

# parts_of ID: of each relay, parts and the memory that its tables took at most, KiB.
parts_of() {
    sed -nE "s/.*task $1: committed, .* sent on in ([0-9]+) parts, tables took ([0-9]+) KiB of ([0-9]+) at most.*/\\1 \\2 \\3/p" \
        "$ASK_LAB_DIR/$name"/logs/r*.relayd.log
}

# Fifteen times as many keys as one table of a relay takes, of which the last ones come out of its switch's memory.
# many_keys ID OP [BYTES]: keys that one or two senders have. Long ones go past the switches' memory.
many_keys() {
    local -r dir=$scratch/$1
    mkdir -p "$dir"
    awk -v dir="$dir" -v op="$2" -v bytes="${3:-1}" 'BEGIN {
        pad = sprintf("%*s", bytes, ""); gsub(" ", "x", pad)
        for (i = 1; i <= 17; i++) for (j = 0; j < 6000; j++) {
            key = sprintf("key-%06d%s", i * 3500 + j, pad)
            value = j % 97 - 48 + i
            print (op == "count" ? key : key "\t" value) > (dir "/in" i ".tsv")
            if (op == "count") result[key]++
            else if (op == "sum") result[key] += value
            else if (!(key in result) || value < result[key]) result[key] = value
        }
        for (key in result) print key "\t" result[key] > (dir "/unsorted.tsv")
    }'
    LC_ALL=C sort "$dir/unsorted.tsv" >"$dir/expected.tsv"
}

all_relays_said() {
    (($(parts_of "$1" | wc -l) == 7))
}

in_parts() {
    local -r id=$1 op=$2
    local before before_all
    many_keys "$id" "$op"
    before=$(fins)
    before_all=$(carried)
    start_task "$scratch/$id" "$id" h5 "--op $op --placement $scratch/deep.json" "$([[ $op != count ]] || echo --count)"
    finish_placed "$scratch/$id"
    # One flow goes up from each relay, however many parts it has sent on.
    as_planned "$scratch/$id" "$id" "$scratch/deep.json" "$before" "$before_all"
    wait_for 20 all_relays_said "$id"
    parts_of "$id" | awk '{ parts += $1; if ($2 == 0 || $2 > $3 || $3 != 2048) exit 1 } END { exit !(parts > 14) }' ||
        fail "$id: parts, KiB, reserve: $(parts_of "$id")"
    pass "$id: in $(parts_of "$id" | awk '{ parts += $1 } END { print parts }') parts"
}

# waits_by_name NODE
waits_by_name() {
    on "$1" askctl tasks --json | jq -e 'any(.[]; .role == "sender" and (.state | test("r2 .* waits for its application")))' >/dev/null
}

# parent_stops ID RUNS SIGNAL: what cannot go up waits below, at a host and at a relay, which hear whom for, until it can or
# the parent has died.
parent_stops() {
    local -r id=$1 runs=$2 dir=$scratch/$1
    many_keys "$id" sum 300
    FEED=halves start_task "$dir" "$id" h5 "--deadline 40 --placement $scratch/chain.json" "--deadline 40"
    wait_for 20 relayed_under_way r4
    lab_do kill r2.relayd -STOP
    : >"$scratch/$id.rest"
    wait_for 30 waits_by_name h2
    wait_for 30 waits_by_name r4
    lab_do kill r2.relayd "$3"
    finish_placed "$dir"
    jq -e --argjson runs "$runs" '.runs == $runs and .complete' "$dir/recv.json" >/dev/null || fail "$id: $(cat "$dir/recv.json")"
    pass "$id"
}

reserve() {
    local at
    tree_up
    plan "$scratch/deep.json" 7
    for at in 1 2 3 4 5 6 7; do
        printf 'reserve_mib = 2\n' >>"$ASK_LAB_DIR/$name/conf/r$at.relayd.toml"
        lab_do restart "r$at.relayd"
    done
    in_parts sum sum
    in_parts least min
    in_parts lines count
    lab_do chaos set --loss 2 --dup 2 --reorder 2 --seed 5
    FAULTS=1 in_parts lossy sum
    lab_do chaos clear
    plan "$scratch/chain.json" 2 s2,s4
    parent_stops stops 1 -CONT
    parent_stops dies 2 -KILL
    lab_do restart r2.relayd
    wait_for 20 no_tasks h1 h2 h3 h4 h5 r1 r2 r3 r4 r5 r6 r7 s1 s2 s3 s4 s5 s6 s7
}

[[ $(type -t "${1-}") == function && $1 =~ ^(plans|deaths|hangs|reserve)$ ]] || fail "usage: $0 plans|deaths|hangs|reserve"
"$1"
