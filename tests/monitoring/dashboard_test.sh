#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A real Prometheus asks the daemons of a lab where tasks, a group and a stream run: their pages are as promtool would have them, every
# query of dashboard.json has an answer, and no alert fires that should not.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../e2e/lib.sh"

readonly packaged=$root/packaging/monitoring

# Of a label set, or nothing.
query() {
    on h1 promtool query instant -o json http://127.0.0.1:9090 "$1"
}

answers() {
    jq -e 'length > 0' <<<"$(query "$1" 2>/dev/null)" >/dev/null
}

scraped() {
    [[ $(query 'sum(up)' | jq -r '.[0].value[1]') == 4 ]]
}

start_prometheus() {
    cp "$packaged/alerts.yml" "$scratch"
    cat >"$scratch/prometheus.yml" <<'YAML'
global:
  scrape_interval: 500ms
  evaluation_interval: 1s
rule_files: [alerts.yml]
scrape_configs:
  - job_name: ask-switch
    static_configs: [{targets: ["198.18.1.1:9792"]}]
  - job_name: ask-agent
    static_configs: [{targets: ["198.18.1.2:9792", "198.18.2.2:9792", "198.18.3.2:9792"]}]
YAML
    spawn "$scratch/prometheus" h1 prometheus --config.file="$scratch/prometheus.yml" --storage.tsdb.path="$scratch/tsdb" \
        --web.listen-address=127.0.0.1:9090 </dev/null
    wait_for 30 scraped
    pass "Prometheus has asked all four daemons"
}

# One task after another and a group, until a file is there: rates need several scrapes.
work_on() {
    local i=0
    while [[ ! -e $scratch/enough ]]; do
        i=$((i + 1))
        on h3 ask-recv --task "job$i" --senders 2 </dev/null >/dev/null 2>>"$scratch/jobs.err" &
        on h1 ask-send --task "job$i" --to h3 "$scratch/in/in1.tsv" </dev/null 2>>"$scratch/jobs.err" &
        on h2 ask-send --task "job$i" --to h3 "$scratch/in/in2.tsv" </dev/null 2>>"$scratch/jobs.err" &
        wait
    done
}

# What a stream's sender reads, until the same file is there.
stream_on() {
    while [[ ! -e $scratch/enough ]]; do
        printf 'a\t1\n'
        sleep 0.1 # the pace of a source
    done | on h1 ask-send --follow --task web --to h3 - 2>"$scratch/stream.send"
}

checked_by_promtool() {
    local node
    for node in sw h1 h3; do
        # shellcheck disable=SC2016 # the node's
        on "$node" bash -c 'exec 3<>/dev/tcp/127.0.0.1/9792; printf "GET /metrics HTTP/1.0\r\n\r\n" >&3; cat <&3' |
            tr -d '\r' | sed '1,/^$/d' >"$scratch/$node.page"
        promtool check metrics <"$scratch/$node.page" >"$scratch/said" 2>&1 || fail "promtool, of $node: $(<"$scratch/said")"
    done
    pass "promtool finds no fault with the pages"
}

answered() {
    local -a exprs
    local expr
    mapfile -t exprs < <(jq -r '.panels[].targets[]?.expr' "$packaged/dashboard.json")
    ((${#exprs[@]} > 30)) || fail "the dashboard has ${#exprs[@]} queries"
    for expr in "${exprs[@]}"; do
        # What Grafana fills in.
        expr=${expr//\$__rate_interval/5s}
        [[ $expr != *\$* ]] || fail "a variable that nobody fills in: $expr"
        wait_for 15 answers "$expr"
    done
    ! answers 'ask_agent_no_such_thing' || fail "what is not there has an answer"
    pass "${#exprs[@]} queries of the dashboard have answers"
}

quiet() {
    # On a machine that is busy, packets are sent again.
    local -r firing=$(query 'ALERTS{alertname!~"AskRetransmissions|AskPortDrops"}' | jq -c '[.[].metric | {alertname, instance}]')
    [[ $firing == '[]' ]] || fail "alerts fire: $firing"
    pass "no alert fires"
}

printf 'metrics = "0.0.0.0:9792"\nmetrics_open = true\n' >"$scratch/metrics.toml"
lab_up --hosts 3 --config-switch "$scratch/metrics.toml" --config-agent "$scratch/metrics.toml"
make_input "$scratch/in" --seed 1 --senders 2 --tuples 20000 --keys 1500
start_prometheus
work_on &
worker=$!
spawn "$scratch/stream" h3 ask-recv --task web --every 1s --senders 1 </dev/null
stream_on &
streamer=$!
for rank in 0 1 2; do
    spawn "$scratch/rank$rank" "h$((rank + 1))" "$build/tests/ask-e2e-survivor" --group busy --rank "$rank" --size 3 --root h1 \
        --operations 1000000 --count 2000 --deadline 60 </dev/null
done
checked_by_promtool
answered
quiet
: >"$scratch/enough"
exit_of "$worker"
exit_of "$streamer"
((code == 0)) || fail "the stream's sender ended with $code: $(<"$scratch/stream.send")"
