#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the daemons tell Prometheus: well formed, as docs/metrics.md lists it, and true: of tasks that have committed, of one
# that has failed and of one under way. Totals outlive tasks. With --fix, writes the list.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

readonly document=$root/docs/metrics.md fix=${1-}

# page NODE [PORT] > FILE: its metrics.
page() {
    # shellcheck disable=SC2016 # the node's
    on "$1" bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1"; printf "GET /metrics HTTP/1.0\r\n\r\n" >&3; cat <&3' page "${2-9792}" |
        tr -d '\r' | sed '1,/^$/d'
}

# value NODE SERIES: as the page has it, integers as such.
value() {
    page "$1" | awk -v series="$2" '{ at = match($0, / [^ ]*$/); if (substr($0, 1, at - 1) == series) printf "%.15g\n", substr($0, at + 1) }'
}

# has_value NODE SERIES VALUE
has_value() {
    [[ $(value "$1" "$2") == "$3" ]]
}

# must_be NODE SERIES VALUE: soon. A command may have its answer before its agent has counted it, and of several that are under
# way each comes when it does.
must_be() {
    wait_for 10 has_value "$1" "$2" "$3"
}

# must_exceed NODE SERIES VALUE
must_exceed() {
    local -r got=$(value "$1" "$2")
    jq -en --arg got "$got" "(\$got | tonumber) > $3" >/dev/null || fail "$1 has $2 = '$got', which should be more than $3"
}

# A line of the log, with the figures that the statistics have.
says_figures() {
    wait_for 10 grep -qE -- "$2" "$ASK_LAB_DIR/$name/logs/$1.log"
}

committed() {
    local -r dir=$scratch/one
    make_input "$dir" --seed 1 --senders 2 --tuples 5000 --keys 300
    start_task "$dir" one h3 "" "--merge-window 0"
    local pid role
    while read -r pid role; do
        exit_of "$pid"
        ((code == 0)) || fail "$role ended with $code: $(cat "$dir/$role.err")"
    done <"$dir/pids"
    local switched sent keys
    read -r switched sent < <(jq -r '"\(.tuples_switch) \(.tuples_sent)"' "$dir/recv.json")
    keys=$(wc -l <"$dir/recv.out")
    must_be h3 'ask_agent_tasks_ended_total{role="receiver",code="0"}' 1
    must_be h3 'ask_agent_task_duration_seconds_count{role="receiver"}' 1
    must_be h3 'ask_agent_task_duration_seconds_count{role="sender"}' 0
    must_exceed h3 'ask_agent_task_duration_seconds_sum{role="receiver"}' 0
    must_be h3 'ask_agent_result_tuples_total{added="switch"}' "$switched"
    must_be h3 'ask_agent_result_tuples_total{added="host"}' $((sent - switched))
    must_be h3 ask_agent_result_keys_total "$keys"
    must_exceed h3 ask_agent_result_bytes_total $((keys * 8))
    must_be h1 'ask_agent_tasks_ended_total{role="sender",code="0"}' 1
    must_be h1 ask_agent_sender_tuples_in_total 5000
    must_be h1 ask_agent_sender_packets_sent_total "$(jq .packets_sent "$dir/send1.json")"
    must_be h1 ask_agent_ack_duration_seconds_count "$(jq .packets_sent "$dir/send1.json")"
    must_exceed h1 ask_agent_ack_duration_seconds_sum 0
    # What the switch has counted of it outlives it there.
    wait_for 10 no_tasks sw
    must_be sw ask_switch_tasks 0
    must_be sw ask_switch_tasks_opened_total 1
    must_be sw 'ask_switch_tuples_total{result="aggregated"}' "$switched"
    says_figures h3 "task one: committed: 10000 tuples of 2 senders, $keys keys in [0-9]+ bytes, [0-9.]+ s, $(jq -n "1000 * $switched / $sent | round / 10 | floor")(\.[0-9])? % of the tuples sent added at the switch, [0-9]+ packets, [0-9]+ sent again"
    says_figures h1 'task one: sent to h3 .* and committed: 5000 tuples, [0-9.]+ s, [0-9.]+ % of the tuples sent added at the switch, [0-9]+ packets, [0-9]+ sent again'
    pass "totals of a task that has committed, and what daemons log of it"
}

failed() {
    receive bad bad --senders 1
    printf 'no tab here\n' >"$scratch/bad.tsv"
    spawn "$scratch/bad-send" h1 ask-send --task bad --to h3 "$scratch/bad.tsv"
    expect "$scratch/bad-send" 3 'no TAB' "$spawned"
    expect "$scratch/bad" 11 'gave up' "$receiver"
    must_be h3 'ask_agent_tasks_ended_total{role="receiver",code="11"}' 1
    must_be h1 'ask_agent_tasks_ended_total{role="sender",code="11"}' 1
    must_be h3 'ask_agent_tasks_ended_total{role="receiver",code="0"}' 1
    pass "a task that has failed, by its code"
}

# While a task and a group are there, so that all labels are.
under_way() {
    receive live live --senders 2 --geometry 16 --no-back
    hold live h1 live
    printf 'a\t1\nb\t2\n' >"$scratch/live.tsv"
    spawn "$scratch/first" h2 ask-send --task live --to h3 "$scratch/live.tsv"
    local -r first=$spawned
    # It waits for the other one.
    spawn "$scratch/group" h1 "$build/tests/ask-e2e-survivor" --group wait --rank 0 --size 2 --root h1 </dev/null
    local -r member=$spawned
    wait_for 20 has_value sw 'ask_switch_task_tuples_total{task="live",result="aggregated"}' 2
    wait_for 20 has_value h1 'ask_agent_group_operations{group="wait"}' 0
    must_be h3 'ask_agent_tasks{role="receiver"}' 1
    must_be h1 'ask_agent_tasks{role="sender"}' 1
    must_be h1 'ask_agent_worker_streams{worker="0"}' 1
    must_be h1 ask_agent_channels_in_use 2 # the send and the member of the group
    must_be sw ask_switch_flows 2
    must_exceed h3 ask_agent_table_bytes 0
    must_exceed sw 'ask_switch_port_packets_total{port="p1",direction="in"}' 10
    must_exceed h1 process_resident_memory_bytes 1000000
    must_exceed sw process_open_fds 10
    must_exceed h1 process_cpu_seconds_total 0
    # Begun after this lab was.
    must_exceed h1 process_start_time_seconds "$(($(date +%s) - SECONDS - 60))"
    local node
    for node in h1 h3 sw; do page "$node" >"$scratch/$node.page"; done
    exec 9>&-
    exit_of "$receiver"
    ((code == 0)) || fail "ask-recv ended with $code: $(cat "$scratch/live.err")"
    exit_of "$first"
    ((code == 0)) || fail "the first ask-send ended with $code: $(cat "$scratch/first.err")"
    kill -KILL "$member"
    pass "a task under way, queues, ports and processes"
}

page_at() {
    page h2 "$1" >"$scratch/$2.page" 2>/dev/null && [[ -s $scratch/$2.page ]]
}

# Those that this lab has no use for.
others() {
    jq -n '{switch: [{name: "sw", relay: "127.0.0.1:4793"}], host: [{name: "h1", switch: "sw", address: "198.18.1.2", load: 1},
        {name: "h2", switch: "sw", address: "198.18.2.2"}]}' >"$scratch/network.json"
    spawn "$scratch/controller" h2 ask-controld --config /dev/null --topology "$scratch/network.json" --plain-text loopback \
        --listen 127.0.0.1:4794 --socket "$scratch/controller.sock" --metrics 127.0.0.1:9794 </dev/null
    local -r controller=$spawned
    spawn "$scratch/relay" h2 ask-relayd --config /dev/null --name sw --plain-text loopback --listen 127.0.0.1:4793 \
        --socket "$scratch/relay.sock" --metrics 127.0.0.1:9793 </dev/null
    local -r relay=$spawned
    wait_for 20 page_at 9794 controller
    wait_for 20 page_at 9793 relay
    local each
    for each in h1:agent sw:switch controller:controller relay:relay; do
        grep -q "^ask_${each#*:}_build_info{version=\"$("$build/bin/askctl" --version | cut -d ' ' -f 2)\"" "$scratch/${each%:*}.page" ||
            fail "the page of ${each%:*} does not say its version"
    done
    kill "$controller" "$relay"
    exit_of "$controller"
    exit_of "$relay"
    pass "every daemon says its version"
}

listed() {
    "$root/tests/e2e/exposition" "$scratch"/{h1,h3,sw,controller,relay}.page >"$scratch/rows" || fail "the pages are not well formed (above)"
    if [[ $fix == --fix ]]; then
        { sed '/^| `/d' "$document" && cat "$scratch/rows"; } >"$scratch/document"
        cp "$scratch/document" "$document"
    fi
    grep '^| `' "$document" | diff - "$scratch/rows" >&2 ||
        fail "docs/metrics.md (<) is not what daemons tell (>): tests/e2e/metrics_test.sh --fix writes it"
    pass "$(wc -l <"$scratch/rows") metrics, as docs/metrics.md has them"
}

# What is planted in a page is found.
mistakes() {
    local bad
    for bad in 's/^# HELP ask_agent_tasks .*/# HELP ask_agent_tasks /' '/^# HELP ask_agent_tasks /d' \
        's/ask_agent_channels_limit/ask_agent_channels_limit_mib/' 's/^ask_agent_results_kept .*/ask_agent_results_kept 1,5/' \
        's/_bucket{le="+Inf"} .*/_bucket{le="+Inf"} 7777777/' 's/counter$/gauge/' 's/^ask_agent_groups .*/&\n&/'; do
        sed "$bad" "$scratch/h1.page" >"$scratch/bad.page"
        ! "$root/tests/e2e/exposition" "$scratch/bad.page" >/dev/null 2>&1 || fail "a page is well formed after $bad"
    done
    pass "what is wrong with a page is found"
}

printf 'metrics = "127.0.0.1:9792"\nmetrics_tasks = true\n' >"$scratch/metrics.toml"
lab_up --hosts 3 --config-switch "$scratch/metrics.toml" --config-agent "$scratch/metrics.toml"
committed
failed
under_way
others
listed
mistakes
