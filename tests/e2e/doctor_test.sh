#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# askctl doctor: nothing wrong in a lab that is sound; then faults, one at a time, each of which it finds and names.

# shellcheck source=tests/e2e/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# doctor NODE FLAGS... : its findings, in $scratch/findings; sets $code.
doctor() {
    local -r node=$1
    shift
    code=0
    on "$node" askctl doctor --json "$@" >"$scratch/findings" 2>"$scratch/doctor.err" || code=$?
    [[ ! -s $scratch/doctor.err ]] || fail "askctl doctor said: $(cat "$scratch/doctor.err")"
}

# file_of NODE: the configuration of its daemon.
file_of() {
    printf '%s/%s/conf/%s.toml' "$ASK_LAB_DIR" "$name" "$1"
}

# changed NODE SED: a copy of its configuration, changed.
changed() {
    sed -E "$2" "$(file_of "$1")" >"$scratch/changed.toml"
    ! cmp -s "$scratch/changed.toml" "$(file_of "$1")" || fail "'$2' changes nothing of $1's configuration"
}

# finds CHECK LEVEL TEXT CODE: the last look found it (regular expression), and ended so.
finds() {
    jq -en --arg check "$1" --arg level "$2" --arg text "$3" \
        'input | any(.findings[]; .check == $check and .level == $level and (.text + " -> " + .remedy | test($text)))' \
        "$scratch/findings" >/dev/null || fail "no $2 of $1 that says '$3': $(jq -c '.findings[] | select(.level != "ok")' "$scratch/findings")"
    ((code == $4)) || fail "ended with $code, not $4: $(jq -c '.findings[] | select(.level == "fault")' "$scratch/findings")"
    pass "$1: $3"
}

# Of a file with an error nothing else is said.
configurations() {
    changed_host 's/^interface = .*/interfaze = "eth0"/'
    finds configuration fault 'changed.toml:[0-9]+.*interfaze.*interface' 2
    doctor h1
    finds configuration warning 'no daemon is configured in /etc/ask' 0
}

# host FLAGS... : of h1, by its own configuration; changed_host SED FLAGS... : by one that is changed.
host() {
    doctor h1 --agent-config "$(file_of h1)" "$@"
}
changed_host() {
    changed h1 "$1"
    shift
    doctor h1 --agent-config "$scratch/changed.toml" "$@"
}
box() {
    doctor sw --switch-config "$(file_of sw)"
}
changed_box() {
    changed sw "$1"
    doctor sw --switch-config "$scratch/changed.toml"
}

# Whether something keeps the clock is this machine's affair, and so is its kernel.
nothing_wrong() {
    host --to h2,h3
    ((code == 0)) || fail "a sound host: $(jq -c '.findings[] | select(.level == "fault")' "$scratch/findings")"
    jq -e '.faults == 0 and all(.findings[]; .level == "ok" or ([.check] | inside(["clock", "kernel", "btf"])))
        and ([.findings[] | select(.check == "path")] | length == 2)' "$scratch/findings" >/dev/null ||
        fail "a sound host: $(jq -c '.findings[] | select(.level != "ok")' "$scratch/findings")"
    box
    jq -e '.faults == 0 and all(.findings[]; .level == "ok" or ([.check] | inside(["clock", "kernel", "btf"])))' \
        "$scratch/findings" >/dev/null || fail "a sound switch: $(jq -c '.findings[] | select(.level != "ok")' "$scratch/findings")"
    on h1 askctl doctor --agent-config "$(file_of h1)" --to h2 >"$scratch/text" || fail "in words: $?"
    grep -qE '^ok +path +packets of 1500 bytes get to h2 \(198\.18\.2\.2\) and back, and its agent answers$' "$scratch/text" ||
        fail "in words: $(cat "$scratch/text")"
    tail -n 1 "$scratch/text" | grep -qE '^0 fault\(s\), [0-9]+ warning\(s\)$' || fail "in words: $(tail -n 1 "$scratch/text")"
    pass "nothing is wrong where nothing is"
}

interfaces() {
    changed_host 's/^interface = .*/interface = "nosuch0"/'
    finds interface fault 'no interface nosuch0' 4
    on h1 ip link add big0 mtu 9300 type veth peer name big1
    changed_host 's/^interface = .*/interface = "big0"/; /^address/d'
    finds interface fault 'big0 is down -> ip link set dev big0 up' 8
    on h1 ip address add 192.0.2.1/32 dev big0
    on h1 ip link set dev big1 up
    on h1 ip link set dev big0 up
    changed_host 's/^interface = .*/interface = "big0"/; /^address/d' --to h2
    finds mtu fault 'big0 has MTU 9300, native XDP takes up to 9216 -> ip link set dev big0 mtu 9216' 8
    finds path fault 'h2 .* leave by eth0, not by big0' 8
    on h1 ip link add off0 type veth peer name off1
    on h1 ip link set dev off0 up
    on h1 ip link set dev off1 up
    on h1 ip address add 192.0.2.2/32 dev off0
    on h1 ethtool -K off0 tx on txvlan on >/dev/null
    changed_host 's/^interface = .*/interface = "off0"/; /^address/d'
    finds offloads warning 'off0 offloads tx, .*txvlan.* -> ethtool -K off0 tx off' 0
    changed_host 's/^(interface = .*)/\1\nworkers = 4/'
    finds queues warning '4 workers share 1 queue' 0
}

drivers() {
    on h1 ethtool -K eth0 gro on
    sed -i '1i xdp_mode = "generic"' "$(file_of h1)"
    lab_do restart h1
    host
    finds xdp warning 'XDP is generic on eth0' 0
    sed -i '/^xdp_mode/d' "$(file_of h1)"
    lab_do restart h1
}

# of_now DAYS DAYS: a certificate of the lab's CA for h1 that begins and ends so many days from now.
of_now() {
    local -r tls=$ASK_LAB_DIR/$name/tls
    rm -rf "$scratch/ca" && mkdir -p "$scratch/ca/new"
    : >"$scratch/ca/index"
    printf '%s\n' '[ca]' 'default_ca = own' '[own]' "database = $scratch/ca/index" "new_certs_dir = $scratch/ca/new" \
        'rand_serial = yes' 'default_md = sha256' 'policy = any' 'unique_subject = no' '[any]' 'commonName = supplied' \
        >"$scratch/ca/conf"
    openssl req -new -key "$tls/h1/key.pem" -subj /CN=h1 -out "$scratch/ca/request" 2>/dev/null
    openssl ca -batch -notext -config "$scratch/ca/conf" -cert "$tls/ca.pem" -keyfile "$tls/ca.key" -in "$scratch/ca/request" \
        -startdate "$(date -u -d "$1 days" +%Y%m%d%H%M%SZ)" -enddate "$(date -u -d "$2 days" +%Y%m%d%H%M%SZ)" \
        -out "$scratch/dated.pem" 2>"$scratch/ca/log" || fail "no certificate: $(cat "$scratch/ca/log")"
}

certificates() {
    local -r dated='s|^tls_certificate = .*|tls_certificate = "'$scratch'/dated.pem"|'
    of_now -10 -1
    changed_host "$dated"
    finds certificate fault 'dated.pem: the certificate expired on 20' 7
    of_now +2 +30
    changed_host "$dated"
    finds clock fault 'dated.pem begins on 20.*: this clock is behind' 7
    of_now -1 +3
    changed_host "$dated"
    finds certificate warning 'dated.pem ends on 20' 0
    on h1 askctl ca make "$scratch/other" >/dev/null
    on h1 askctl ca issue "$scratch/other" h1=198.18.1.2 >/dev/null
    changed_host "s|^tls_(certificate\|key) = \".*/|tls_\\1 = \"$scratch/other/h1/|"
    finds certificate fault 'is not signed by our CA' 7
    changed_host "s|^tls_(ca\|certificate\|key) = \".*/|tls_\\1 = \"$scratch/other/h1/|"
    finds switch fault 'the switch at 198.18.1.1:4792' 7
}

switches() {
    changed_host 's/^switch = .*/switch = "198.18.2.2:4791"/'
    finds switch fault '198.18.2.2:4791.*another service.*HOST:4792' 4
    changed_host 's/^switch = .*/switch = "198.18.1.1:4799"/'
    finds switch fault '198.18.1.1:4799 cannot be reached.*HOST:4792' 6
    on sw sysctl -qw net.ipv4.ip_forward=0
    box
    finds forwarding fault 'does not route.*sysctl net.ipv4.ip_forward=1' 8
    on sw sysctl -qw net.ipv4.ip_forward=1
    mkdir "$scratch/nofs"
    changed_box "s|^bpffs = .*|bpffs = \"$scratch/nofs\"|"
    finds bpffs fault 'no bpffs is mounted at .*nofs.* -> mount -t bpf' 8
    on sw ip link add new0 type veth peer name new1
    on sw ip link set dev new1 up
    on sw ip link set dev new0 up
    changed_box 's/^(ports = .*)\]/\1, "new0"]/'
    finds ports fault 'does not know port new0' 4
    changed_box 's/^(switch_id = .*)/\1\nsocket_group = "nosuchgroup"/'
    finds group fault 'no group "nosuchgroup".*groupadd' 4
}

paths() {
    host --to nosuchhost.invalid
    finds path fault 'nosuchhost.invalid does not resolve' 4
    on sw ip link set dev p2 mtu 1200
    host --to h2
    finds path fault 'packets of 1200 bytes get to h2 .* those of 1500, the MTU of eth0, do not' 8
    on sw ip link set dev p2 mtu 1500
    host --to h2:4799
    finds path fault 'the agent of h2:4799: ' 6
}

deaths() {
    lab_do kill h3
    # It listens until the end, when nobody has an answer by its socket any more.
    wait_for 10 has_ended h3
    doctor h3 --agent-config "$(file_of h3)"
    finds daemon fault 'ask-agentd does not answer.*systemctl status ask-agentd' 6
    host --to h3
    finds path fault 'the agent of h3' 6
    # As whoever may do nothing, who can read the file.
    sed '/^tls_/d' "$(file_of h3)" >"$scratch/changed.toml"
    chmod 711 "$scratch"
    chmod 644 "$scratch/changed.toml"
    code=0
    on h3 prlimit --memlock=1048576 setpriv --bounding-set -all --inh-caps -all --reuid 65534 --regid 65534 --clear-groups \
        "$build/bin/askctl" doctor --json --agent-config "$scratch/changed.toml" >"$scratch/findings" || code=$?
    finds capabilities fault 'ask-agentd, started from here, lacks CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, CAP_NET_RAW' 7
    finds memlock fault 'may lock 1.0 MiB of memory only' 7
    spawn "$scratch/listener" h3 python3 -m http.server 4791
    wait_for 10 on h1 bash -c 'exec 2>/dev/null; : </dev/tcp/198.18.3.2/4791'
    doctor h3 --agent-config "$(file_of h3)"
    finds daemon fault 'another process listens at its port, 0.0.0.0:4791' 5
    kill "$spawned"
}

no_program() {
    ! on sw ip -details link show "$1" | grep -q 'prog/xdp'
}

# The program is attached by a pinned link, which somebody removes.
detached() {
    rm "$ASK_LAB_DIR/$name/bpf/sw/ask/links/p2"
    wait_for 10 no_program p2
    box
    finds ports fault 'not attached to port p2' 6
}

lab_up --hosts 3
nothing_wrong
configurations
interfaces
drivers
certificates
switches
paths
detached
deaths
