#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Word counts over several switches, one of which aggregates, under loss on every link: byte for byte the reference's
# answer; what links counted is what agents say that they sent; a link is cut in mid-task where there is another way.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
shopt -s extglob

chaos() {
    "$lab" chaos --name "$name" "$@"
}

# Of the injector, all at one time.
look() {
    chaos status --json >"$scratch/links.json"
}

# carried FROM TO TYPES [OTHER FILE]: packets of these types (data+long+fin) that entered the link from FROM towards TO.
carried() {
    jq --arg from "$1" --arg to "$2" --arg types "$3" '[.links[]
        | if .from == $from and .to == $to then .up elif .from == $to and .to == $from then .down else empty end
        | .carried[$types | split("+")[]].packets] | add' "$scratch/links.json"
}

# arrived FROM TO: packets of ASK's port that came out of the link at TO.
arrived() {
    jq --arg from "$1" --arg to "$2" '[.links[]
        | if .from == $from and .to == $to then .up elif .from == $to and .to == $from then .down else empty end
        | .counters | .packets - .lost + .duplicated] | add' "$scratch/links.json"
}

readonly SENT=data+long+var+fin

# Whatever a host's sends sent, again or not, has entered its link.
sends_entered() {
    local -r dir=$1 host=$2 to=$3
    shift 3
    local said
    said=$(jq -s 'map(.packets_sent + .retransmissions) | add' "$@")
    (($(carried "$host" "$to" $SENT) == said)) ||
        fail "$dir: $host's sends say $said packets, its link $(carried "$host" "$to" $SENT): $(lab_do link)"
    (($(jq -s 'length' "$@") == $(jq --arg host "$host" '[.links[] | select(.from == $host)][0].up.carried.first_fins' \
        "$scratch/links.json"))) || fail "$dir: not a FIN of each send: $(lab_do link)"
}

nothing_held() {
    (($(chaos status --json | jq .sum.held_now) == 0))
}

# passed_on_by_s2: a switch that only routes hands on what arrives, and makes nothing: DATA on the way to the root, ACKs back.
passed_on_by_s2() {
    look
    (($(arrived s4 s2) + $(arrived s5 s2) == $(carried s2 s1 $SENT+ack) &&
        $(arrived s1 s2) == $(carried s2 s4 $SENT+ack) + $(carried s2 s5 $SENT+ack)))
}

# Each sender below another leaf of a tree, the receiver at its root, one switch on the way of all.
tree() {
    local -r dir=$scratch/tree
    lab_up --topology tree:2,3 --blue s1
    chaos set --loss 3 --dup 3 --reorder 3 --seed 20
    make_input "$dir" --seed 5 --senders 3 --tuples 5000 --keys 900 --op count --count-lines
    run_task "$dir" words h5 "--op count --require-region --aggregators 32 --no-back" "--count --merge-window 0"
    jq -e '.tuples_switch > 0 and .tuples_receiver.collision > 0' "$dir/recv.json" >/dev/null ||
        fail "tree: not aggregated on s1: $(cat "$dir/recv.json")"
    wait_for 10 nothing_held
    # Of what was held until now some is still on its way through s2, which takes a moment.
    wait_for 10 passed_on_by_s2
    for i in 1 2 3; do sends_entered "$dir" "h$i" "s$((i + 3))" "$dir/send$i.json"; done
    (($(jq .sum.lost "$scratch/links.json") > 0)) || fail "tree: nothing was lost: $(chaos status)"
    wait_for 10 no_tasks h1 h2 h3 h5 s1
    "$lab" down --name "$name"
    # grep and pgrep find nothing where all is well, and say so by their exit codes; so below.
    [[ -z $(ip netns list | grep "^ask-$name-" || true) ]] || fail "namespaces left"
    pass "tree:2,3"
}

# The spine that DATA takes now, as the last look saw it.
busiest_spine() {
    (($(carried s1 s3 data) >= $(carried s1 s4 data))) && echo s3 || echo s4
}

# What is left of the channel's packets has taken a way beyond s1.
passed_on() {
    look
    (($(carried s1 s3 data) + $(carried s1 s4 data) > $1))
}

# The second halves of both inputs once the first are through and the link that they took is cut.
leaf_spine() {
    local -r dir=$scratch/spine
    local spine other before
    lab_up --topology leaf-spine:2,2,1 --blue s1
    chaos set --loss 3 --seed 21
    make_input "$dir" --seed 6 --senders 2 --tuples 24000 --keys 6000 --op count --count-lines
    FEED=halves SENDER_HOST=h1 start_task "$dir" words h2 "--op count --require-region --aggregators 16 --no-back" \
        "--count --merge-window 0"
    wait_for 20 passed_on 0
    spine=$(busiest_spine)
    [[ $spine == s3 ]] && other=s4 || other=s3
    lab_do link s1 "$spine" down
    look
    before=$(carried s1 "$other" data)
    : >"$scratch/go"
    finish_task "$dir"
    look
    (($(carried s1 "$other" data) > before)) || fail "leaf-spine: nothing went by $other: $(lab_do link)"
    jq -e '.runs == 1' "$dir/recv.json" >/dev/null || fail "leaf-spine: the task began again: $(cat "$dir/recv.json")"
    sends_entered "$dir" h1 s1 "$dir"/send[12].json
    "$lab" status --name "$name" --json | jq -e --arg to "$spine" '[.links[] | select(.state == "down")] | length == 1 and .[0].to == $to' \
        >/dev/null || fail "leaf-spine: another link is down: $(lab_do link)"
    pass "leaf-spine:2,2,1, cut between s1 and $spine"
}

# halves FILE ID: for FEED. A packer keeps tuples until they fill packets: of the first half some travel.
halves() {
    head -n 12000 "$1"
    wait_for 60 test -e "$scratch/go"
    tail -n +12001 "$1"
}

# Killed with daemons in it, the script and all that it is made of: `down` finds them.
killed() {
    local -r slow=$scratch/slow
    "$lab" down --name "$name"
    # Its agents never are ready, so that it is in the middle however late it is killed.
    mkdir -p "$slow/bin"
    ln -s "$build"/!(bin) "$slow"
    ln -s "$build"/bin/!(ask-agentd) "$slow/bin"
    printf '#!/bin/bash\nsleep 600 # until the lab is taken down\n' >"$slow/bin/ask-agentd"
    chmod +x "$slow/bin/ask-agentd"
    ASK_BUILD_DIR=$slow setsid "$lab" up --name "$name" --topology leaf-spine:2,2,1 >/dev/null 2>&1 &
    local -r pid=$!
    wait_for 60 test -s "$ASK_LAB_DIR/$name/pids/h2"
    kill -KILL -- "-$pid"
    # It was killed: that it did not end well, and that the shell says so, is what was meant.
    { wait "$pid" || true; } 2>/dev/null
    "$lab" down --name "$name"
    [[ -z $(ip netns list | grep "^ask-$name-" || true) && ! -e $ASK_LAB_DIR ]] || fail "left behind: $(ip netns list)"
    [[ -z $(pgrep -f -- "--config $ASK_LAB_DIR/" || true) ]] || fail "daemons left"
    pass "killed"
}

tree
leaf_spine
killed
