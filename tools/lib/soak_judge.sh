# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Whether what a task's processes printed and how they ended is what docs/commands.md promises. Functions that can find
# something wrong return 1 and say what in $soak_why. Used by soak_run.sh, whose variables these are.
# shellcheck disable=SC2004,SC2034,SC2154 # indices are those of associative arrays

# What a busy machine may take more.
readonly BUSY_MS=15000

# A message that names somebody: a host, an address, or the switch; or how many senders, which ranks never joined: a receiver, a
# root does not know who they would have been. That a result was not taken, or is not kept, a predecessor whose agent is stopped not
# gone, or a task cancelled, is about nobody else, and of agents one's own is known.
names_who() {
    grep -qE '\b[hrs][1-9]\b|198\.18\.[0-9]+|switch|interrupted|[0-9]+ of [0-9]+ senders joined|ranks? [0-9, ]+ of [0-9]+ did not join|not taken|is kept here|in use on this host|cancelled|its agent is stopping' "$1"
}

# The words for a process that ended with an error.
complaint() {
    printf '%s (exit code %s): %s' "$1" "${soak_end[$1]}" "$(tail -n 2 "$soak_work/round/$1.err" | cut -c 1-300)"
}

# difference TASK WHO: of an answer to the reference, its first lines.
difference() {
    diff "$soak_work/round/$2.out" "$soak_work/round/task$1/expected.tsv" | head -n 4 | cut -c 1-100 | tr '\n' ' '
}

# whole TASK WHO: it printed all of the answer.
whole() {
    cmp -s "$soak_work/round/$2.out" "$soak_work/round/task$1/expected.tsv"
}

# beginning TASK WHO: it printed some of the answer, or nothing.
beginning() {
    [[ ! -s $soak_work/round/$2.out ]] ||
        cmp -s -n "$(stat -Lc %s "$soak_work/round/$2.out")" "$soak_work/round/$2.out" "$soak_work/round/task$1/expected.tsv"
}

# part_of SENDER FILE: the lines of its keys, in a task whose senders have none in common.
part_of() {
    LC_ALL=C grep -a "^$1:" "$2" || true
}

# sent_whole TASK SENDER WHO: all of its tuples are in what WHO printed.
sent_whole() {
    cmp -s <(part_of "$2" "$soak_work/round/$3.out") <(part_of "$2" "$soak_work/round/task$1/expected.tsv")
}

# within_bounds TASK WHO: no key that nobody has sent, and no value that no part of its tuples has.
within_bounds() {
    LC_ALL=C awk -F'\t' '
        NR == FNR { low[$1] = $2; high[$1] = $3; next }
        !($1 in low) || $2 < low[$1] || $2 > high[$1] { exit 1 }' "$soak_work/round/task$1/bounds.tsv" "$soak_work/round/$2.out"
}

# missing WHO HOST: how many senders there its result is said to lack something of; with '' for HOST, how many never joined.
missing() {
    jq --arg host "$2" '[.missing[] | select((.name | split(" ")[0] // "") == $host) | .senders] | add // 0' "$soak_work/round/$1.json"
}

# judge_incomplete TASK WHO: all is there of every sender that has succeeded, and as many as are not whole are named.
judge_incomplete() {
    local -r task=$1 who=$2
    local -a from
    local -A lacking=()
    local -i i unnamed more
    local host
    [[ -n ${plan[$task.incomplete]-} ]] || { wrong "a result that may not be incomplete is: $(complaint "$who")"; return 1; }
    within_bounds "$task" "$who" || { wrong "WRONG ANSWER of the incomplete task ${plan[$task.id]}: $(difference "$task" "$who")"; return 1; }
    read -ra from <<<"${plan[$task.from]}"
    for ((i = 1; i <= ${#from[@]}; i++)); do
        sent_whole "$task" "$i" "$who" && continue
        ((soak_end[${current[$task.send$i]}] != 0)) || { wrong "sender $i of the incomplete task ${plan[$task.id]} succeeded, and lacks tuples: $(difference "$task" "$who")"; return 1; }
        lacking[${from[i - 1]}]=$((${lacking[${from[i - 1]}]-0} + 1))
    done
    unnamed=$(missing "$who" '')
    for host in "${!lacking[@]}"; do
        more=$((lacking[$host] - $(missing "$who" "$host")))
        unnamed=$((unnamed - (more > 0 ? more : 0)))
    done
    ((unnamed >= 0)) || { wrong "task ${plan[$task.id]} lacks tuples of a sender that it does not name: $(complaint "$who")"; return 1; }
    ! jq -e .complete "$soak_work/round/$who.json" >/dev/null || { wrong "an incomplete result is said to be complete: $(complaint "$who")"; return 1; }
    counts[incomplete]=$((counts[incomplete] + 1))
}

# judge_nothing TASK WHO: a receiver without a result has printed none, but one that was ended, and says why.
judge_nothing() {
    local -r task=$1 who=$2
    if ((${hurt[$task]-0})); then
        # To the first bytes of an incomplete result there is nothing to compare.
        [[ -n ${plan[$task.incomplete]-} ]] || beginning "$task" "$who" || { wrong "WRONG ANSWER of task ${plan[$task.id]} that did not end well: $(difference "$task" "$who")"; return 1; }
    elif [[ -s $soak_work/round/$who.out ]]; then
        wrong "task ${plan[$task.id]} failed and yet printed a result"
        return
    fi
    # One that was ended before it could say so has said all with its exit code.
    names_who "$soak_work/round/$who.err" || ((${hurt[$task]-0} && soak_end[$who] > 128)) ||
        { wrong "an error that names nobody: $(complaint "$who")"; return 1; }
}

# judge_senders TASK TAKEN: none has succeeded unless somebody has the result, and all have if it was taken in time.
judge_senders() {
    local -r task=$1 taken=$2
    local -r code=${soak_end[${current[$1.recv]}]}
    local who i
    for who in ${sends[$task]}; do
        ((taken || soak_end[$who] != 0)) || { wrong "a send succeeded, but $(complaint "${current[$task.recv]}")"; return 1; }
    done
    ((taken && !${hurt[$task]-0} && code != 20)) || return 0
    ((code == 0)) || [[ ${plan[$task.again]} == at-once ]] || return 0
    for ((i = 1; i <= plan[$task.senders]; i++)); do
        who=${current[$task.send$i]}
        ((soak_end[$who] == 0)) || { wrong "task ${plan[$task.id]} has its result, but $(complaint "$who")"; return 1; }
    done
}

# in_time TASK: one without a result has not taken longer for that, from the last event or a pause on, than it may wait
# for its senders, for their packets, and its senders for whoever takes the result. As long as something moves, a task
# may go on.
in_time() {
    local sender percent pause
    read -r sender percent pause <<<"${plan[$1.pause]-}"
    local -r paused_until=$((round_began + ${pause:-0}))
    local -r took=$((end_ms[$1] - (paused_until > events_end ? paused_until : events_end)))
    ((took <= 3000 * plan[$1.deadline] + BUSY_MS)) || wrong "task ${plan[$1.id]} ended $took ms after all was done to it, with a deadline of ${plan[$1.deadline]} s"
}

# judge TASK
judge() {
    local -r task=$1
    local who taken=0
    if [[ -n ${plan[$task.group]-} ]]; then
        judge_group "$task"
        return
    fi
    counts[tasks]=$((counts[tasks] + 1))
    for who in ${takers[$task]}; do
        case ${soak_end[$who]} in
            0) whole "$task" "$who" || { wrong "WRONG ANSWER of task ${plan[$task.id]}: $(difference "$task" "$who")"; return 1; } ;;
            20) judge_incomplete "$task" "$who" || return ;;
            *) whole "$task" "$who" || { judge_nothing "$task" "$who" || return; continue; } ;;
        esac
        taken=1
        [[ $who != *.again* ]] || counts[kept]=$((counts[kept] + 1))
    done
    ((taken)) || in_time "$task" || return
    judge_senders "$task" "$taken" || return
    who=${current[$task.recv]}
    case ${soak_end[$who]} in
        0) counts[exact]=$((counts[exact] + 1)) ;;
        20) tell_unaimed "$task" "$who" ;;
        *) count_error "$task" "$who" ;;
    esac
}

# tell_unaimed TASK WHO: of a task that nobody aimed at, what is less than its result may be right, and is worth a look.
tell_unaimed() {
    ((${hurt[$1]-0})) && return
    counts[unaimed]=$((counts[unaimed] + 1))
    soak_summary+="; ${plan[$1.id]}: $(complaint "$2")"
}

count_error() {
    # Its output was refused.
    ((soak_end[$2] != 9)) || [[ -z ${plan[$1.output]} ]] || return 0
    counts[errors]=$((counts[errors] + 1))
    tell_unaimed "$1" "$2"
}
