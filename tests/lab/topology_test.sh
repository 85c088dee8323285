#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# tools/lab up --topology without daemons: who reaches whom by which way, links that are cut, files that are refused, and
# that nothing is left, whatever ends it.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../e2e/lib.sh"

topology_up() {
    lab_up --no-daemons "$@" >/dev/null
}

lab_down() {
    "$lab" down --name "$name"
    nothing_left
}

# grep finds nothing where all is well, and says so by its exit code.
nothing_left() {
    [[ -z $(ip netns list | grep "^ask-$name-" || true) ]] || fail "namespaces left: $(ip netns list)"
    [[ ! -e $ASK_LAB_DIR ]] || fail "files left: $(find "$ASK_LAB_DIR")"
    [[ -z $(findmnt --noheadings --list --output TARGET | grep -F "$ASK_LAB_DIR/" || true) ]] || fail "mounts left"
}

# A closed TCP port answers at once, so a refusal proves that packets go both ways.
reaches() {
    local said
    said=$(on "$1" timeout "${patience:-5}" bash -c "</dev/tcp/$2/9" 2>&1) && fail "port 9 of $2 is open"
    [[ $said == *"Connection refused"* ]]
}

all_reach() {
    local from to
    for from in $1; do
        for to in $2; do reaches "$from" "$to" || fail "$3: $from does not reach $to"; done
    done
}

# ways NODE ADDRESS: by how many interfaces its packets may go there.
ways() {
    on "$1" ip route show "$2" | grep -o 'dev [a-z0-9-]*' | sort -u | wc -l
}

# lost_carrier NODE INTERFACE. The kernel tells the other end of a link by work that it may put off for a second.
lost_carrier() {
    on "$1" ip -json link show "$2" | jq -e '.[0].operstate != "UP"' >/dev/null
}

status() {
    "$lab" status --name "$name" --json
}

# expect_status JQ WANT
expect_status() {
    [[ $(status | jq -c "$1") == "$2" ]] || fail "status: $1 is $(status | jq -c "$1"), expected $2"
}

test_two_ways() {
    topology_up --topology leaf-spine:2,2,2 --relays
    all_reach "h1 r1" "198.18.4.2 198.18.132.2 198.19.128.4" "leaf-spine"
    expect_status '[.nodes[] | select(.node | test("^[hr]"))] | length' 8
    expect_status '[.links[].state] | unique' '["up"]'
    (($(ways s1 198.18.4.0/24) == 2)) || fail "not two ways: $(on s1 ip route)"
    lab_do link s3 s1 down
    (($(ways s1 198.18.4.0/24) == 1 && $(ways s3 198.18.1.0/24) == 1)) || fail "routes do not follow: $(on s1 ip route)"
    wait_for 10 lost_carrier s3 to-s1
    all_reach "h1" "198.18.4.2 198.19.128.3" "by the other spine"
    lab_do link s1 s4 down
    expect_status '[.links[] | select(.state == "down") | "\(.from) \(.to)"]' '["s1 s3","s1 s4"]'
    ! reaches h1 198.18.4.2 || fail "two leaves without a link between them reach each other"
    reaches h1 198.18.2.2 || fail "hosts of one leaf do not reach each other"
    lab_do link s1 s4 up
    all_reach "h1" "198.18.4.2" "by the second spine"
    lab_do link s1 s3 up
    (($(ways s1 198.18.4.0/24) == 2)) || fail "a link that is back is no way: $(on s1 ip route)"
    [[ $(lab_do link --json | jq '[.[] | .up.other.packets + .down.other.packets | select(. > 0)] | length') -gt 6 ]] ||
        fail "links count nothing: $(lab_do link)"
    lab_do link | grep -q '^1 h1 to s1, up$' || fail "links in words: $(lab_do link)"
    lab_do chaos set --link s4:s2 --loss 100 --all-traffic
    lab_do chaos set --link s2:s3 --loss 100 --all-traffic
    ! patience=0.3 reaches h1 198.18.4.2 || fail "packets pass links that lose them all"
    lab_do chaos status | grep -q '^s2:s4 up *loss 100.0 %, all traffic' || fail "faults in words: $(lab_do chaos status)"
    ! lab_do chaos set --link s1:s2 --loss 1 2>"$scratch/said" || fail "a link was set that is none"
    grep -q "number from 1 to 12 or A:B" "$scratch/said" || fail "of a link that is none: $(cat "$scratch/said")"
    ! lab_do link s1 s2 down 2>"$scratch/said" || fail "a link was cut that is none"
    grep -q "no link between s1 and s2" "$scratch/said" || fail "of a link that is none: $(cat "$scratch/said")"
    lab_down
    pass "leaf and spine"
}

# laid KIND NUMBERS JQ [RELAYS]: of what a lab of it would be, with relays or without (false).
laid() {
    jq -n -r -c -L "$root/tools/lib" --arg kind "$1" --argjson numbers "[$2]" --argjson relays "${4:-false}" \
        "include \"lab_topology\"; {\$kind, \$numbers} | generated | laid_out(\"all\"; \$relays) | $3"
}

# laid_out KIND NUMBERS JQ WANT [RELAYS]
laid_out() {
    local said
    said=$(laid "$1" "$2" "$3" "${5:-false}")
    [[ $said == "$4" ]] || fail "$1:$2: $3 is $said, expected $4"
}

# How many switches, hosts, links, and how many links at most and at least a switch has.
readonly SHAPE='[(.switches, .nodes, .links | length), ([.links[] | .from, .to | select(startswith("s"))] | group_by(.) | map(length) | max, min)]'

test_shapes() {
    laid_out fat-tree 4 "$SHAPE" '[20,16,48,4,4]'
    laid_out fat-tree 8 "$SHAPE" '[80,128,384,8,8]'
    laid_out leaf-spine 4,2,4 "$SHAPE" '[6,16,24,6,4]'
    laid_out tree 2,5 "$SHAPE" '[31,17,47,3,2]'
    laid_out tree 1,3 "$SHAPE" '[3,2,4,2,2]'
    laid_out tree 3,2,2 "$SHAPE" '[4,7,10,4,3]'
    # In a pod by two ways, to another by four, of which a switch sees its own two.
    laid_out fat-tree 4 '[.links[] | select(.from == "s1" and .bits == 31) | .to]' '["s9","s10"]'
    laid_out fat-tree 4 '[.links[] | select(.from == "s10") | .to]' '["s19","s20"]'
    pass "shapes"
}

readonly PLACES='[.nodes[] | "\(.name) \(.address) \(.switch) \(.asks)"]'

test_numbering() {
    laid_out leaf-spine 2,2,2 "$PLACES" '["h1 198.18.1.2 s1 198.19.128.1","h2 198.18.2.2 s1 198.19.128.1",'\
'"h3 198.18.3.2 s2 198.19.128.2","h4 198.18.4.2 s2 198.19.128.2"]'
    # BT(8): a host at each of the four below, and one at the root; a relay at each.
    laid_out tree 2,3 "$PLACES" '["h1 198.18.1.2 s4 198.19.128.4","h2 198.18.2.2 s5 198.19.128.5",'\
'"h3 198.18.3.2 s6 198.19.128.6","h4 198.18.4.2 s7 198.19.128.7","h5 198.18.5.2 s1 198.19.128.1"]'
    laid_out tree 2,3 '[.nodes[5:][] | "\(.kind) \(.name) \(.address) \(.switch)"] | (.[0], .[6], length)' \
        $'relay r1 198.18.129.2 s1\nrelay r7 198.18.135.2 s7\n7' true
    # Links as a tree's parents are, numbered after the hosts' own, each with a /31.
    laid_out tree 2,3 '[.links[5:][] | "\(.number) \(.from) \(.to) \(.from_ip) \(.to_ip)"] | (.[0], .[5])' \
        $'6 s2 s1 198.19.0.0 198.19.0.1\n11 s7 s3 198.19.0.10 198.19.0.11'
    # Nothing twice in the largest of each kind: names, addresses, interfaces of a node.
    local shape
    for shape in "tree 2,6,3" "fat-tree 8" "leaf-spine 64,6"; do
        # shellcheck disable=SC2016,SC2086 # variables of jq; two words
        laid_out $shape '([.links[] | .from_ip, .to_ip] + [.switches[].control]) as $ips
            | [.links[] | "\(.from) \(.from_if)", "\(.to) \(.to_if)"] as $ends | [.switches[].name, .nodes[].name] as $names
            | [$ips, $ends, $names] | map((unique | length) == length)' '[true,true,true]'
    done
    pass "numbering"
}

# Every route as "NODE PREFIX NEXT", a line each next hop, NEXT the switch that has its address, or "-" where there is none.
# shellcheck disable=SC2016 # variables of jq
readonly HOPS='. as $laid | (reduce $laid.links[] as $l ({}; .[$l.from_ip] = $l.from | .[$l.to_ip] = $l.to)) as $at
    | routes($down) | split("\t") as [$node, $route] | ($route | [scan("via ([0-9.]+)")[0]]) as $via
    | ($route | capture("(?<prefix>[0-9.]+/[0-9]+)").prefix) as $prefix
    | if $via == [] then "\($node) \($prefix) -" else $via[] | "\($node) \($prefix) \($at[.])" end'

# follow KIND NUMBERS DOWN: "WALKS LONGEST LOST" of all walks by those routes from each switch to each prefix, whichever next hop
# they take. A walk that goes round would not end.
follow() {
    {
        laid "$1" "$2" '(.nodes[] | "at \(.address | sub("2$"; "0/24")) \(.switch)"), (.switches[] | "at \(.control)/32 \(.name)")'
        laid "$1" "$2" "$3 as \$down | $HOPS"
    } | awk '
        function walk(node, prefix, steps,   i, hops) {
            if (steps > longest) longest = steps
            if (node == at[prefix]) { walks++; return }
            if (steps > 20) { print "goes round: " prefix; exit 1 }
            hops = split(next_of[node, prefix], hop, " ")
            if (hops == 0 || hop[1] == "-") { lost++; return }
            for (i = 1; i <= hops; i++) { split(next_of[node, prefix], hop, " "); walk(hop[i], prefix, steps + 1) }
        }
        $1 == "at" { at[$2] = $3; next }
        { next_of[$1, $2] = next_of[$1, $2] $3 " "; from[$1] = 1 }
        END { for (node in from) for (prefix in at) walk(node, prefix, 0); print walks + 0, longest + 0, lost + 0 }'
}

follows() {
    local said
    said=$(follow "$1" "$2" "$3")
    [[ $said == "$4" ]] || fail "routes of $1:$2 without $3: $said, expected $4"
}

test_routes() {
    # To itself and its hosts 3, to the other leaf and its hosts by two ways 6, to spines 2: a leaf 11. A spine 1 + 6 + 2.
    follows leaf-spine 2,2,2 '[]' "40 2 0"
    # 7 switches, 12 prefixes, one way.
    follows tree 2,3 '[]' "84 4 0"
    # An edge 99, of which 72 by four ways to the other pods' edges and their hosts; a switch above it 81, a core 57.
    follows fat-tree 4 '[]' "1668 4 0"
    # Without one link of the root, 3 switches with 2 hosts and 4 with 3 are two networks: 3 * 5 and 4 * 7.
    follows tree 2,3 '[6]' "43 2 41"
    follows leaf-spine 2,1,2 '[5]' "11 1 10"
    pass "routes"
}

test_tree() {
    topology_up --topology tree:2,3 --blue s3
    all_reach "h1 h5" "198.18.4.2 198.19.128.7" "tree"
    expect_status '[.topology.switch[] | select(.available) | .name]' '["s3"]'
    # SOAR's tree of seven switches: the receiver is above the root.
    status | ask_plan --receiver h5 --k 1 --json | jq -e '.messages == 4 and .aggregate == ["s3"]' >/dev/null ||
        fail "ask-plan makes something else of it: $(status | ask_plan --receiver h5 --k 1)"
    lab_down
    pass "tree"
}

ask_plan() {
    "$build/bin/ask-plan" - "$@"
}

# refused TEXT WHAT... : `up` with that says so.
refused() {
    local -r text=$1
    local said
    shift
    said=$("$lab" up --name "$name" --no-daemons "$@" 2>&1 >/dev/null) && fail "'$*' was taken"
    [[ $said == *"$text"* ]] || fail "'$*' said '$said', expected '$text'"
}

# refused_file TEXT JSON
refused_file() {
    printf '%s' "$2" >"$scratch/t.json"
    refused "$1" --topology "$scratch/t.json"
}

test_refusals() {
    refused "is no tree" --topology tree:2
    refused "is no tree" --topology "tree:2,-1"
    refused "is no leaf-spine" --topology "leaf-spine:1,2,3,4"
    refused "even, not 3" --topology fat-tree:3
    refused "number of switches is 511, and must be from 1 to 127" --topology tree:2,9
    refused "number of switches is" --topology tree:999,999
    refused "number of links with relays' own is" --topology leaf-spine:64,6,2 --relays
    refused "cannot read" --topology "$scratch/none"
    refused "'s9' is no switch" --topology tree:2,3 --blue s1,s9
    refused "no --hosts beside it" --topology tree:2,3 --hosts 3
    refused "want a --topology" --relays
    refused_file "not JSON" '{"switch": [}'
    refused_file "not one document but 2" '{} {}'
    refused_file "must be an object, not an array" '[]'
    refused_file "'host.0.name' is given twice" '{"host": [{"name": "h1", "name": "h2"}]}'
    refused_file "unknown key 'hosts'; known: switch, host, link, task, message" '{"hosts": []}'
    refused_file "unknown key 'a?[31m'" '{"a\u001b[31m": []}'
    refused_file "number of switches is 0" '{"host": [{"name": "h1", "switch": "a"}]}'
    refused_file "number of hosts is 0" '{"switch": [{"name": "a"}]}'
    refused_file "unknown key 'color'" '{"switch": [{"name": "a", "color": 1}], "host": [{"name": "h", "switch": "a"}]}'
    refused_file "name 'A' is no name" '{"switch": [{"name": "A"}], "host": [{"name": "h", "switch": "A"}]}'
    refused_file "name '../x' is no name" '{"switch": [{"name": "a"}], "host": [{"name": "../x", "switch": "a"}]}'
    refused_file "must be a name, not a number" '{"switch": [{"name": 5}], "host": [{"name": "h", "switch": "a"}]}'
    refused_file "'logs': the lab uses that name" '{"switch": [{"name": "logs"}], "host": [{"name": "h", "switch": "logs"}]}'
    refused_file "'a' is the name of two nodes" '{"switch": [{"name": "a"}], "host": [{"name": "a", "switch": "a"}]}'
    refused_file "its parent 'b' is no switch" '{"switch": [{"name": "a", "parent": "b"}], "host": [{"name": "h", "switch": "a"}]}'
    refused_file "is its own ancestor" \
        '{"switch": [{"name": "r"}, {"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}], "host": [{"name": "h", "switch": "a"}]}'
    refused_file "the network is in two parts" '{"switch": [{"name": "a"}, {"name": "b"}], "host": [{"name": "h", "switch": "a"}]}'
    refused_file "'x' is no switch" '{"switch": [{"name": "a"}], "host": [{"name": "h", "switch": "x"}]}'
    refused_file "both ends are one switch" \
        '{"switch": [{"name": "a"}], "host": [{"name": "h", "switch": "a"}], "link": [{"from": "a", "to": "a"}]}'
    refused_file "have two links" \
        '{"switch": [{"name": "a"}, {"name": "b", "parent": "a"}], "host": [{"name": "h", "switch": "a"}], "link": [{"from": "a", "to": "b"}]}'
    refused_file "number of hosts is 129, and must be from 1 to 128" \
        "$(jq -n '{switch: [{name: "a"}], host: [range(129) | {name: "h\(.)", switch: "a"}]}')"
    refused_file "is longer than" "\"$(head -c 1100000 /dev/zero | tr '\0' x)\""
    nothing_left
    pass "refusals"
}

# A file with all there may be: a ring of three switches with names of their own.
test_a_file() {
    cat >"$scratch/ring.json" <<'JSON'
{"switch": [{"name": "core", "rate": 40}, {"name": "tor-a", "parent": "core", "rate": 10},
            {"name": "tor-b", "parent": "core", "available": false}],
 "host": [{"name": "web", "switch": "tor-a", "load": 3}, {"name": "db", "switch": "tor-b"}],
 "link": [{"from": "tor-a", "to": "tor-b"}], "task": {"receiver": "db", "k": 1}}
JSON
    topology_up --topology "$scratch/ring.json"
    (($(ways tor-a 198.18.2.0/24) == 1)) || fail "the short way is not taken: $(on tor-a ip route)"
    all_reach "web" "198.18.2.2" "ring"
    lab_do link tor-b tor-a down
    all_reach "web" "198.18.2.2" "ring that is cut"
    expect_status '[.topology.switch[] | select(.available) | .name]' '["core","tor-a"]'
    status | ask_plan --json | jq -e '.destination == "db" and .messages == 3 and .aggregate == ["tor-a"]' >/dev/null ||
        fail "ask-plan makes something else of it: $(status | ask_plan)"
    lab_down
    pass "a file"
}

made_at_least() {
    [[ $(wc -l 2>/dev/null <"$ASK_LAB_DIR/$name/made") -ge $1 ]]
}

lab_is_gone() {
    [[ ! -e $ASK_LAB_DIR ]]
}

# up_and_kill COUNT -|"": kills an `up` that has made that many things; the script alone, or with - all that it is made of. One that
# is ready before it could be stopped, as nobody looked for so long, is taken down, and another one killed.
up_and_kill() {
    setsid "$lab" up --name "$name" --no-daemons --topology leaf-spine:3,2,2 >/dev/null 2>&1 &
    local -r pid=$!
    wait_for 10 made_at_least "$1"
    if ! kill -STOP -- "-$pid" 2>/dev/null || [[ -e $ASK_LAB_DIR/$name/ready ]]; then
        kill -CONT -- "-$pid" 2>/dev/null || true # it may have ended
        wait "$pid" || fail "an up that nobody has killed ended with $?"
        lab_down
        ((${3-0} < 3)) || fail "up had finished before it was killed at $1, again and again"
        up_and_kill "$1" "$2" $((${3-0} + 1))
        return
    fi
    kill -KILL -- "$2$pid"
    kill -CONT -- "-$pid" 2>/dev/null || true # nobody may be left to go on
    # It was killed: that it did not end well, and that the shell says so, is what was meant.
    { wait "$pid" || true; } 2>/dev/null
    # What a killed process has asked the kernel for is done before it is gone, and has the lab's lock until then.
    [[ -z $2 ]] || wait_for 10 session_gone "$pid"
}

# session_gone LEADER: nobody of its session runs.
session_gone() {
    ! pgrep --session "$1" --runstates D,R,S,T,t >/dev/null
}

# Killed while it makes the first namespace, and when it has made all and is at the links.
test_killed() {
    up_and_kill 1 -
    lab_down
    # Only the script: what worked for it undoes everything by itself.
    up_and_kill 24 ""
    wait_for 20 lab_is_gone
    nothing_left
    # `up` itself clears what an unfinished one left, of another kind too.
    up_and_kill 24 -
    lab_up --no-daemons --hosts 2 >/dev/null 2>&1
    reaches h1 198.18.2.2 || fail "a lab of one switch in the place of a killed one does not work"
    lab_down
    pass "killed"
}

[[ $(type -t "test_${1-}") == function ]] || fail "usage: $0 $(compgen -A function test_ | sed s/test_// | paste -sd'|')"
"test_$1"
