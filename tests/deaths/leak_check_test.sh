#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# leak_check finds what is planted, of every kind, and names it; and is content again once it is gone.

# shellcheck source=tests/deaths/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# finds WHAT REGEX... : it complains, and of each.
finds() {
    local -r what=$1
    local regex
    shift
    if "$here/leak_check" compare "$name" "$scratch/snapshot" 0 2>"$scratch/said"; then
        fail "$what: leak_check saw nothing"
    fi
    for regex; do
        grep -qE "^$regex: [0-9]+, was [0-9]+$" "$scratch/said" || fail "$what: no '$regex' in: $(cat "$scratch/said")"
    done
}

pins_and_entries() {
    local -r pins=$ASK_LAB_DIR/$name/bpf/sw/ask
    mkdir "$pins/tasks/ghost"
    bpftool map create "$pins/tasks/ghost/region" type array key 4 value 8 entries 1 name ghost
    finds "a pin" 'sw pin ask/tasks/ghost/region' 'sw pin ask/tasks/ghost'
    rm "$pins/tasks/ghost/region"
    rmdir "$pins/tasks/ghost"
    nothing_left "a pin too many is found"

    # The kind of map that a task's flow carries evicted tuples in: of the same shape, or the kernel refuses it.
    bpftool map update pinned "$pins/maps/channel_ids" key hex 01 02 03 04 c0 01 00 00 value hex 00 00 00 00
    finds "an entry of a map" 'sw entries of channel_ids'
    bpftool map delete pinned "$pins/maps/channel_ids" key hex 01 02 03 04 c0 01 00 00
    nothing_left "an entry of a pinned map is found"
}

# is_now COMMAND PID: what was started has become that, and is where it belongs. By name another test's would do as well.
is_now() {
    [[ $(<"/proc/$2/comm") == "$1" ]]
}

processes() {
    spawn "$scratch/sleeper" h1 sleep 60 </dev/null
    wait_for 5 is_now sleep "$spawned"
    finds "a process" 'h1 process sleep'
    kill "$spawned"
    ends_in 5 "$spawned"
    nothing_left "a process too many is found"
}

# What is alive is what a task that nobody cleaned up would be: everything of it shows.
a_task() {
    stream_task alive alive 5000
    finds "a task" 'sw tasks' 'sw maps within regions' 'sw maps within heats' 'sw maps within carried' \
        'sw entries of flow_ids' 'sw pin ask/tasks/[0-9a-f]*/meta' 'sw pin ask/tasks/[0-9a-f]*/region' 'sw pin ask/tasks/by-name/@/alive' 'sw SRAM bytes' \
        'sw descriptor bpf-map' 'h2 descriptor memfd' 'h2 mapping /memfd:' 'h2 descriptor socket' \
        'h2 channels in use' 'h2 tasks under way' 'h3 tasks under way' 'h3 descriptor memfd' 'h3 thread ask-agentd' \
        'h2 process ask-send' 'h3 process ask-recv'
    exec 9>&-
    ends_in 20 "$sender" "$receiver"
    nothing_left "a task under way is found"
}

# A dead agent's channel stays on the switch until the agent is back or a lease is over, but is nobody's meanwhile.
channel_of_nobody() {
    # With a task the switch keeps it; of one that is over, for no longer than a lease.
    stream_task nobody nobody 5000
    lab_do kill h2 -KILL
    finds "a dead agent's channel" 'sw channels of nobody'
    kill -INT "$receiver"
    ends_in 20 "$sender" "$receiver"
    exec 9>&-
    lab_do restart h2
    nothing_left "a channel of nobody is found"
}

# The switch gives channels up between its answer and the count of entries: that is no entry too few.
channels_given_up() {
    local -r slow=$scratch/slow
    mkdir -p "$slow/bin"
    mkfifo "$slow/looks" "$slow/go"
    : >"$slow/first"
    ln -s "$build"/bin/* "$slow/bin/"
    rm "$slow/bin/askctl"
    cat >"$slow/bin/askctl" <<SLOW
#!/bin/bash
if [[ \$1 == status && -n \${ASK_SWITCH-} ]] && rm "$slow/first" 2>/dev/null; then
    echo >"$slow/looks"
    read -r <"$slow/go"
fi
"$build/bin/askctl" "\$@" | tee -a "$slow/said" || exit
[[ \$1 == status && -n \${ASK_SWITCH-} ]] || exit 0
until "$build/bin/askctl" status --json | jq -e '.channels == []' >/dev/null; do sleep 0.1; done # between two looks: nothing tells when a lease is over
SLOW
    chmod +x "$slow/bin/askctl"
    # Right before the first answer: on a busy machine a lease may pass while leak_check asks the others.
    { read -r <"$slow/looks" && warm_up && echo >"$slow/go"; } &
    ASK_BUILD_DIR=$slow "$here/leak_check" snapshot "$name" "$slow/facts"
    jq -es 'any(.[]; type == "object" and .sram_used_bytes != null and .channels != [])' "$slow/said" >/dev/null ||
        fail "there were no channels to give up"
    grep -qx $'sw entries of channel_ids\t0' "$slow/facts" || fail "channels given up are counted: $(cat "$slow/facts")"
    pass "channels given up while entries are counted"
}

namespaces() {
    ip netns add "ask-$name-more"
    finds "a namespace" 'namespaces'
    ip netns del "ask-$name-more"
    nothing_left "a namespace too many is found"
}

deaths_lab --hosts 3
nothing_left "an idle lab is clean"
pins_and_entries
processes
a_task
channel_of_nobody
channels_given_up
namespaces
