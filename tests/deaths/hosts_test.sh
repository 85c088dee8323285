#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Agents and applications die, of senders and of receivers, and links go down: each ends as the table of
# docs/deaths.md says, within the deadline, and nothing is left.

# shellcheck source=tests/deaths/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# Longer than a busy machine lets anybody stand still who is not meant to.
DEADLINE=5

sender_agent_killed() {
    stream_task sagent sagent 5000
    lab_do kill h2 -KILL
    ends_in 15 "$sender" "$receiver"
    expect "$scratch/sagent" 6 'went away' "$sender"
    expect "$scratch/sagent-recv" 10 "sender h2 .*has not been heard of for $DEADLINE s" "$receiver"
    exec 9>&-
    lab_do restart h2
    nothing_left "a sender's agent is killed"
}

# Too long away, and back: nothing that it still sends is believed.
sender_agent_hangs() {
    stream_task shang shang 5000
    lab_do kill h2 -STOP
    ends_in 15 "$receiver"
    expect "$scratch/shang-recv" 10 "sender h2 .*has not been heard of for $DEADLINE s" "$receiver"
    lab_do kill h2 -CONT
    ends_in 15 "$sender"
    expect "$scratch/shang" 10 "h3: .*has not been heard of for $DEADLINE s|receiver h3 .*has not answered for $DEADLINE s" "$sender"
    exec 9>&-
    nothing_left "a sender's agent hangs for longer than the deadline"
}

sender_killed() {
    stream_task sapp sapp 5000
    kill -KILL "$sender"
    ends_in 15 "$receiver"
    expect "$scratch/sapp-recv" 11 'sender h2 .*gave up: its application ended early' "$receiver"
    exec 9>&-
    nothing_left "a sender's application is killed"
}

# The region stays until its lease has run out, and no longer.
receiver_agent_killed() {
    stream_task ragent ragent 5000
    lab_do kill h3 -KILL
    ends_in 15 "$sender" "$receiver"
    expect "$scratch/ragent-recv" 6 'went away' "$receiver"
    expect "$scratch/ragent" 10 "receiver h3 .*has not answered for $DEADLINE s" "$sender"
    exec 9>&-
    wait_for $((lease + 10)) no_tasks sw
    # A task that is being closed is no longer listed; its pins go a moment later.
    wait_for 5 test ! -e "$ASK_LAB_DIR/$name/bpf/sw/ask/tasks/by-name/@/ragent"
    lab_do restart h3
    nothing_left "a receiver's agent is killed: its region is taken back by lease"
}

# A new life of the agent is not taken for the old one.
receiver_agent_restarted() {
    DEADLINE=20 stream_task rback rback 5000
    lab_do kill h3 -KILL
    lab_do restart h3
    ends_in 15 "$sender" "$receiver"
    expect "$scratch/rback-recv" 6 'went away' "$receiver"
    expect "$scratch/rback" 11 'no longer knows task rback: its agent was restarted' "$sender"
    exec 9>&-
    nothing_left "a receiver's agent is killed and restarted" $((lease + 10))
}

receiver_killed() {
    stream_task rapp rapp 5000
    kill -KILL "$receiver"
    ends_in 15 "$sender"
    expect "$scratch/rapp" 11 'receiver h3: task rapp was cancelled' "$sender"
    exec 9>&-
    nothing_left "a receiver's application is killed"
}

# link PORT up|down, at the switch's end.
link() {
    on sw ip link set dev "$1" "$2"
}

# Nothing but delay: the sender is seen to wait while the link is down. Without a back level, with which the switch would
# answer for all of it.
link_flaps() {
    local -r port=$1
    DEADLINE=20 RECV_FLAGS=--no-back stream_task "flap$port" "flap$port" 10000
    link "$port" down
    feed 10001 20000
    wait_for 15 stalled h2
    link "$port" up
    feed 20001 30000
    exec 9>&-
    exact "flap$port"
    nothing_left "the link at $port goes down for less than the deadline"
}

# stalled HOST: its packets have been sent more than once.
stalled() {
    on "$1" askctl tasks --json | jq -e 'any(.[]; .role == "sender" and .stats.retransmissions > 0)' >/dev/null
}

# The agent cannot take the channel back from the switch, and has to come again for that.
sender_killed_without_switchd() {
    stream_task sgone sgone 5000
    lab_do kill sw -KILL
    kill -KILL "$sender"
    ends_in 20 "$sender" "$receiver"
    exec 9>&-
    wait_for 20 grep -q 'channel [0-9]*: switch ' "$ASK_LAB_DIR/$name/logs/h2.log"
    lab_do restart sw >/dev/null
    nothing_left "a sender's application is killed while ask-switchd is away" 30
}

sender_link_down() {
    stream_task sdown sdown 5000
    link p2 down
    ends_in 20 "$sender" "$receiver"
    expect "$scratch/sdown-recv" 10 "sender h2 .*has not been heard of for $DEADLINE s" "$receiver"
    expect "$scratch/sdown" 10 "receiver h3 .*has not answered for $DEADLINE s|no packet to h3 .*acknowledged for $DEADLINE s" "$sender"
    exec 9>&-
    link p2 up
    nothing_left "a sender's link goes down for good"
}

receiver_link_down() {
    stream_task rdown rdown 5000
    link p3 down
    ends_in 20 "$sender" "$receiver"
    expect "$scratch/rdown-recv" 10 "sender h2 .*has not been heard of for $DEADLINE s" "$receiver"
    expect "$scratch/rdown" 10 "receiver h3 .*has not answered for $DEADLINE s|no packet to h3 .*acknowledged for $DEADLINE s" "$sender"
    exec 9>&-
    wait_for $((lease + 10)) no_tasks sw
    link p3 up
    nothing_left "a receiver's link goes down for good" 20
}

# An agent that could not ask the switch at its start what is left of its former self asks later, while a channel of its
# own, which has sent without the switch before, has just been registered anew.
keeper_spares_its_own() {
    local -r own=$scratch/own
    lab_do kill sw -KILL
    lab_do restart h2
    make_input "$own" --seed 12 --senders 1 --tuples 2000 --keys 100
    SENDER_HOST=h2 run_task "$own" own h2 --no-switch
    lab_do restart sw
    DEADLINE=6 stream_task keeper keeper 5000
    wait_for 10 asked_for_left_over
    feed 5001 30000
    exec 9>&-
    exact keeper
    nothing_left "an agent starts while ask-switchd is away: later it does not unregister what it uses"
}

asked_for_left_over() {
    grep -q 'has nothing that a former agent of this host left there' "$ASK_LAB_DIR/$name/logs/h2.log"
}

# No lease runs while nobody could have heard a renewal.
switchd_stopped_for_a_lease() {
    stream_task stopped stopped 5000
    lab_do kill sw -STOP
    sleep $((lease + 3))
    lab_do kill sw -CONT
    feed 5001 30000
    exec 9>&-
    exact stopped
    nothing_left "ask-switchd is stopped for longer than a lease"
}

deaths_lab --hosts 3
keeper_spares_its_own
switchd_stopped_for_a_lease
sender_agent_killed
sender_agent_hangs
sender_killed
sender_killed_without_switchd
receiver_agent_killed
receiver_agent_restarted
receiver_killed
link_flaps p2
link_flaps p3
sender_link_down
receiver_link_down
still_works
nothing_left "after all that, the lab counts exactly"
