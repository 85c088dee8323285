#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The recipes of docs/recipes.md and docs/streams.md that need other people's programs, word for word, in a lab: each answer is
# what sort | uniq -c makes of the same lines, or awk.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../e2e/lib.sh"

# block HEADING [DOCUMENT [N]]: what stands in the first fence below it, or the N-th.
block() {
    awk -v head="## $1" -v n="${3:-1}" '
        /^## / { on = $0 == head }
        on && /^```/ { open = !open; at += open; next }
        open && at == n' "$root/docs/${2:-recipes.md}"
}

# receive TASK: at h2.
receive() {
    spawn "$scratch/recv" h2 ask-recv --task "$1" --senders 1 --op count --output "$scratch/$1.tsv" </dev/null
    receiver=$spawned
}

# answers TASK FILE: the receiver has what these lines come to.
answers() {
    exit_of "$receiver"
    ((code == 0)) || fail "$1: the receiver ended with $code: $(cat "$scratch/recv.err")"
    LC_ALL=C sort "$2" | LC_ALL=C uniq -c | awk '{ print $2 "\t" $1 }' | cmp -s - <(LC_ALL=C sort "$scratch/$1.tsv") ||
        fail "$1: $(cat "$scratch/$1.tsv")"
    pass "$1"
}

lines() {
    for ((i = 0; i < $1; i++)); do printf '%s%d\n' "$2" $((i * i % 17)); done
}

# A broker that lives as long as the consumer that brings it.
broker_port() {
    port=$(on h1 ss -ltnpH | sed -nE 's/.*127\.0\.0\.1:([0-9]+) .*"kcat".*/\1/p' | head -n 1)
    [[ -n $port ]]
}

from_kafka() {
    lines 500 page >"$scratch/hits.txt"
    spawn "$scratch/kafka" h1 kcat -C -b mock -t hits -X test.mock.num.brokers=1 </dev/null
    local -r broker=$spawned
    wait_for 20 broker_port
    on h1 kcat -P -b "127.0.0.1:$port" -t hits <"$scratch/hits.txt" || fail "kafka: nothing is produced"
    receive hits
    on h1 env BROKER="127.0.0.1:$port" bash -e -o pipefail -c "$(block 'From Kafka')" || fail "kafka: the recipe ended with $?"
    answers hits "$scratch/hits.txt"
    kill -TERM "$broker"
    # By the signal, or in its own way.
    exit_of "$broker"
}

from_syslog() {
    lines 300 program >"$scratch/programs.txt"
    receive syslog
    block 'From syslog' | sed "s|/usr/bin/ask-send|$scratch/ask-send|" >"$scratch/omprog.conf"
    # Where the test's program is, and its host's agent.
    printf '#!/bin/bash\nexec env PATH=%q ASK_AGENT=%q ask-send "$@"\n' "$build/bin:$PATH" "$(on h1 printenv ASK_AGENT)" >"$scratch/ask-send"
    chmod +x "$scratch/ask-send"
    printf 'module(load="imuxsock" SysSock.Use="off")\ninput(type="imuxsock" Socket="%s/log" RateLimit.Interval="0")\nglobal(workDirectory="%s")\n' \
        "$scratch" "$scratch" | cat - "$scratch/omprog.conf" >"$scratch/rsyslog.conf"
    on h1 rsyslogd -N1 -f "$scratch/rsyslog.conf" >"$scratch/check.err" 2>&1 || fail "syslog: $(cat "$scratch/check.err")"
    spawn "$scratch/rsyslog" h1 rsyslogd -n -f "$scratch/rsyslog.conf" -i "$scratch/rsyslog.pid" </dev/null
    local -r syslog=$spawned
    wait_for 20 test -S "$scratch/log"
    while read -r line; do logger --socket "$scratch/log" --tag "$line" hello; done <"$scratch/programs.txt"
    wait_for 20 test -s "$scratch/rsyslog.pid"
    kill -TERM "$(cat "$scratch/rsyslog.pid")"
    exit_of "$syslog"
    answers syslog "$scratch/programs.txt"
}

from_the_journal() {
    local -r writer=/lib/systemd/systemd-journal-remote now=$(date +%s)
    lines 200 unit >"$scratch/units.txt"
    awk -v now="$now" '{ printf "__REALTIME_TIMESTAMP=%d000000\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%032x\nMESSAGE=hello\n_SYSTEMD_UNIT=%s\n\n", now - 60, NR, 1, $0 }' \
        "$scratch/units.txt" | "$writer" -o "$scratch/recipes.journal" - >"$scratch/writer.err" 2>&1 ||
        fail "journal: $(cat "$scratch/writer.err")"
    mkdir "$scratch/bin"
    # Which journal the recipe reads: this one.
    printf '#!/bin/bash\nexec /usr/bin/journalctl --file %q "$@"\n' "$scratch/recipes.journal" >"$scratch/bin/journalctl"
    chmod +x "$scratch/bin/journalctl"
    receive units
    # shellcheck disable=SC2016 # expanded inside
    on h1 bash -e -o pipefail -c 'PATH=$1:$PATH && eval "$2"' _ "$scratch/bin" "$(block 'From the journal')" || fail "journal: the recipe ended with $?"
    answers units "$scratch/units.txt"
}

# Connections of UDP within a host, counted and forgotten by its kernel: what conntrack -E says of them goes to $scratch/events, too.
make_flows() {
    local host=$1 pair
    on "$host" sysctl -qw net.netfilter.nf_conntrack_acct=1
    on "$host" nft 'add table ip flows; add chain ip flows in { type filter hook input priority 0; }; add rule ip flows in ct state new accept'
    for pair in 2 3 4 5; do
        # shellcheck disable=SC2016 # expanded inside
        on "$host" bash -c 'for ((i = 0; i < $1; i++)); do echo "some bytes" >/dev/udp/127.0.0.$1/9; done' _ "$pair"
    done
    on "$host" conntrack -F >/dev/null 2>&1
}

# heard HOST: its conntrack has said as many lines as make_flows comes to. Connections of the daemons are there, too.
heard() {
    grep -c 'dst=127.0.0.[2-5] ' "$scratch/events.$1" 2>/dev/null | grep -qx 14
}

pairs() {
    cat "$scratch"/events.* | awk '{
        from = to = ""; bytes = 0
        for (i = 1; i <= NF; i++) {
            split($i, part, "=")
            if (part[1] == "src" && from == "") { from = part[2] }
            if (part[1] == "dst" && to == "") { to = part[2] }
            if (part[1] == "bytes") { bytes += part[2] }
        }
        if (bytes) { sum[from " " to] += bytes }
    } END { for (pair in sum) print pair "\t" sum[pair] }' | LC_ALL=C sort
}

talkers() {
    cat "$scratch"/flows/talkers/2*.tsv 2>/dev/null | awk -F'\t' '{ sum[$1] += $2 } END { for (pair in sum) print pair "\t" sum[pair] }' | LC_ALL=C sort
}

all_counted() {
    cmp -s <(pairs) <(talkers)
}

from_conntrack() {
    local host line
    local -A running=()
    mkdir -p "$scratch/flows/bin"
    block 'Flow records to top talkers' streams.md 1 >"$scratch/flows/flows.py"
    # What it says, for who checks, too.
    # shellcheck disable=SC2016 # expanded inside
    printf '#!/bin/bash\n%q "$@" | tee -a "%s/events.${EVENTS:?}"\n' "$(command -v conntrack)" "$scratch" >"$scratch/flows/bin/conntrack"
    chmod +x "$scratch/flows/bin/conntrack"
    while read -r host line; do
        host=${host%$}
        # shellcheck disable=SC2016 # expanded inside
        spawn "$scratch/flows/$host" "$host" bash -c 'cd "$1" && export EVENTS=$2 PATH=$1/bin:$PATH && eval "$3"' _ "$scratch/flows" "$host" \
            "${line/--every 1m/--every 1s}" </dev/null
        running[$host]=$spawned
    done < <(block 'Flow records to top talkers' streams.md 2)
    for host in h1 h2; do
        wait_for 20 conntrack_listens "$host"
        make_flows "$host"
        wait_for 20 heard "$host"
    done
    wait_for 20 all_counted
    on h3 askctl task finish flows >/dev/null
    exit_of "${running[h3]}"
    ((code == 0)) || fail "flows: the receiver ended with $code: $(cat "$scratch/flows/h3.err")"
    pass flows
}

# It holds a socket that hears of netfilter's events.
conntrack_listens() {
    on "$1" cat /proc/net/netlink | awk '$2 == 12 && $3 != 0 { found = 1 } END { exit !found }'
}

lab_up --hosts 3
from_kafka
from_syslog
from_the_journal
from_conntrack
