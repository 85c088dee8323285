# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The soak of a stream: three senders of logs that grow and are rotated, a window a second, and every so often something that is
# killed, stopped or cut off. soak_windows.pl writes the logs, and judges the tables. Uses soak_run.sh, whose variables these are.
# shellcheck disable=SC2034,SC2154

readonly WINDOW_SENDERS=3
readonly WINDOW_EVENT_SECONDS=20
readonly WINDOW_SAMPLE_SECONDS=60
# No window may take longer than that, whatever happens in it.
readonly WINDOW_PATIENCE_SECONDS=45
# What a process may have at the end more than at its beginning: gRPC's threads, arenas of the allocator.
readonly WINDOW_SPARE_KIB=24576
readonly WINDOW_SPARE_FDS=40

windows_kills=0
windows_last=none
windows_figures=
windows_before=0 # windows that were committed when it was last looked
windows_moved=0  # and when there was another one
windows_writer=()

# windows_dir SENDER: its log, its state.
windows_dir() {
    printf '%s/round/s%s' "$soak_work" "$1"
}

windows_receive() {
    launch recv h4 ask-recv --task soak --every 1s --senders "$WINDOW_SENDERS" --out "$soak_work/round/out"
}

# windows_send SENDER
windows_send() {
    local -r in=$(windows_dir "$1")
    launch "send$1" "h$1" ask-send --follow --task soak --to h4 --state "$in/state" "$in/log"
}

# windows_begin_again WHO
windows_begin_again() {
    wait "${soak_pid[$1]}" 2>/dev/null || true
    cat "$soak_work/round/$1.err" >>"$soak_work/round/$1.said"
    if [[ $1 == recv ]]; then windows_receive; else windows_send "${1#send}"; fi
}

# windows_event: one that is drawn, which takes no longer than some seconds, and is undone.
windows_event() {
    local -a kinds=(recv-kill recv-stop send-kill send-stop sender-agent-kill sender-agent-stop receiver-agent-kill receiver-agent-stop
        agent-restart switch-kill switch-restart switch-stop link-cut)
    local kind ms host=h4 link_end
    draw ${#kinds[@]}
    kind=${kinds[REPLY]}
    draw 3 && ms=$((REPLY ? 1000 * REPLY + 500 : 0))
    draw "$WINDOW_SENDERS" && local -r sender=$((REPLY + 1))
    draw 4 && local -r any=h$((REPLY + 1))
    [[ $kind != sender-agent-* ]] || host=h$sender
    windows_last="$kind $([[ $kind != send-* && $kind != sender-* ]] || printf 'h%s ' "$sender")$ms ms"
    printf '%s %s any=%s\n' "$(date -u +%T)" "$windows_last" "$any" >>"$soak_work/round/events"
    counts[${kind//-/_}]=$((${counts[${kind//-/_}]-0} + 1))
    windows_kills=$((windows_kills + 1))
    case $kind in
        recv-kill) windows_kill_and_begin recv "$ms" ;;
        send-kill) windows_kill_and_begin "send$sender" "$ms" ;;
        recv-stop) windows_stop recv "$ms" ;;
        send-stop) windows_stop "send$sender" "$ms" ;;
        *-agent-kill) down_and_up "$host" "$ms" ;;
        *-agent-stop) soak_lab kill "$host" -STOP && sleep_ms "$((ms + 500))" && soak_lab kill "$host" -CONT ;;
        agent-restart) start_again "$any" ;;
        switch-kill) down_and_up sw "$ms" ;;
        switch-restart) start_again sw ;;
        switch-stop) soak_lab kill sw -STOP && sleep_ms "$((ms + 500))" && soak_lab kill sw -CONT ;;
        link-cut) link "$any" middle down && sleep_ms "$((ms + 500))" && link "$any" middle up ;;
    esac
}

# windows_kill_and_begin WHO MS
windows_kill_and_begin() {
    kill -KILL "${soak_pid[$1]}"
    sleep_ms "$2"
    windows_begin_again "$1"
}

# windows_stop WHO MS
windows_stop() {
    kill -STOP "${soak_pid[$1]}"
    sleep_ms "$(($2 + 500))"
    kill -CONT "${soak_pid[$1]}"
}

# windows_committed: sets REPLY to the number of lines of windows.tsv.
windows_committed() {
    REPLY=0
    [[ ! -e $soak_work/round/out/windows.tsv ]] || REPLY=$(($(wc -l <"$soak_work/round/out/windows.tsv") - 1))
}

# windows_alive: nobody ends unasked, and windows are committed.
windows_alive() {
    local who
    for who in "${!soak_pid[@]}"; do
        alive "$who" || wrong "$who has ended by itself after $windows_last: $(tail -n 3 "$soak_work/round/$who.err")" || return
    done
    windows_committed
    if ((REPLY > windows_before)); then
        windows_before=$REPLY windows_moved=$SECONDS
    fi
    ((SECONDS - windows_moved < WINDOW_PATIENCE_SECONDS)) ||
        wrong "no window for $WINDOW_PATIENCE_SECONDS s after $windows_last: $(tail -qn 2 "$soak_work"/round/*.err | tr '\n' ' ')"
}

# windows_sample: a line a process and fact to $soak_work/samples: seconds, who, resident KiB, descriptors; pins and files too.
windows_sample() {
    local node pid who
    local -a pids=()
    {
        while read -r node pid; do
            [[ $node == chaos || $pid == null ]] || { windows_sample_of "$node" "$pid" && pids+=("$pid"); }
        done < <(soak_lab status --json | jq -r '.nodes[] | "\(.node) \(.pid)"')
        for who in "${!soak_pid[@]}"; do windows_sample_of "$who" "${soak_pid[$who]}"; done
        printf '%s pins %s 0\n' "$windows_at" "$(find "$soak_lab_dir/bpf/sw" -mindepth 1 | wc -l)"
        printf '%s files %s 0\n' "$windows_at" "$(find "$soak_work/round/out" "$soak_work"/round/s? -name '.*' -o -name 'state*' | wc -l)"
        printf '%s shared-memory-kib %s 0\n' "$windows_at" "$(windows_shared_kib "${pids[@]}" "${soak_pid[@]}")"
    } >>"$soak_work/samples"
}

# windows_shared_kib PID... : in memory that these processes share, each piece once, whoever has it.
windows_shared_kib() {
    local pid
    for pid in "$@"; do
        # One that has just ended shares nothing.
        find "/proc/$pid/fd" -mindepth 1 -lname '/memfd:*' -exec stat -Lc '%i %b' {} + 2>/dev/null || true # it has ended
    done | sort -u | awk '{ blocks += $2 } END { print int(blocks / 2) }'
}

windows_sample_of() {
    printf '%s %s %s %s\n' "$windows_at" "$1" "$(awk '$1 == "VmRSS:" { print $2 }' "/proc/$2/status" 2>/dev/null || echo 0)" \
        "$(find "/proc/$2/fd" -mindepth 1 2>/dev/null | wc -l)"
}

# windows_grown: what the last samples have more of than the first: their least of three, as a window may be under way.
windows_grown() {
    awk -v spare_kib="$WINDOW_SPARE_KIB" -v spare_fds="$WINDOW_SPARE_FDS" '
        { n = ++count[$2]; size[$2, n] = $3; fds[$2, n] = $4 }
        function least(a, who, from, to, i, m) {
            m = a[who, from]
            for (i = from; i <= to; ++i) { if (a[who, i] < m) { m = a[who, i] } }
            return m
        }
        END {
            for (who in count) {
                n = count[who]
                if (n < 6) { continue }
                more = least(size, who, n - 2, n) - least(size, who, 1, 3)
                limit = who == "pins" ? 60 : who == "files" ? 10 : spare_kib
                if (more > limit) { print who " has grown by " more }
                more = least(fds, who, n - 2, n) - least(fds, who, 1, 3)
                if (more > spare_fds) { print who " has " more " descriptors more" }
            }
        }' "$soak_work/samples"
}

windows_say() {
    windows_committed
    say "$windows_at of $windows_seconds s: $REPLY windows, $windows_kills events, last: $windows_last"
}

# windows_run: for so long as logs are written.
windows_run() {
    local event_at=$WINDOW_EVENT_SECONDS sample_at=$WINDOW_SAMPLE_SECONDS
    windows_before=0 windows_moved=$SECONDS windows_at=0
    while ((windows_at < windows_seconds)); do
        windows_alive || return
        if ((windows_at >= event_at)); then
            windows_event || wrong "$windows_last cannot be done" || return
            event_at=$((event_at + WINDOW_EVENT_SECONDS))
            windows_at=$((SECONDS - windows_began)) && windows_say
        fi
        if ((windows_at >= sample_at)); then
            windows_sample
            sample_at=$((sample_at + WINDOW_SAMPLE_SECONDS))
        fi
        [[ ! -t 3 ]] || windows_say
        sleep 0.5
        windows_at=$((SECONDS - windows_began))
    done
}

# windows_read SENDER: all of its log is in windows that it has left.
windows_read() {
    local -r in=$(windows_dir "$1")
    jq -e --argjson size "$(stat -c %s "$in/log")" --argjson inode "$(stat -c %i "$in/log")" \
        '.place.offset == $size and .place.inode == $inode' "$in/state" >/dev/null
}

# windows_end WHO SIGNAL CODE: it is told to end, and does so with this code.
windows_end() {
    local code=0
    kill "-$2" "${soak_pid[$1]}"
    wait_until 30000 ended "$1" || wrong "$1 does not end: $(tail -n 3 "$soak_work/round/$1.err")" || return
    wait "${soak_pid[$1]}" || code=$?
    ((code == $3)) || wrong "$1 ends with $code, not $3: $(tail -n 3 "$soak_work/round/$1.err")" || return
    unset "soak_pid[$1]"
}

windows_finish() {
    local sender
    for ((sender = 1; sender <= WINDOW_SENDERS; sender++)); do
        wait "${windows_writer[sender]}" || wrong "the writer of sender $sender failed" || return
        wait_until 60000 windows_read "$sender" || wrong "sender $sender does not read its log to the end: $(tail -n 3 "$soak_work/round/send$sender.err")" || return
    done
    windows_sample
    for ((sender = 1; sender <= WINDOW_SENDERS; sender++)); do windows_end "send$sender" TERM 0 || return; done
    windows_end recv INT 130 || return
    soak_lab chaos clear
    wait_idle && no_pins
}

windows_judge() {
    perl "$ASK_ROOT/tools/lib/soak_windows.pl" judge "$soak_work/round/out" "$(windows_dir 1)" "$(windows_dir 2)" "$(windows_dir 3)"
}

# soak_windows SECONDS: a lab and its stream; sets windows_figures.
soak_windows() {
    local sender grown
    windows_seconds=$1
    seed_draws 0
    soak_lab up --hosts 4 --chaos >"$soak_work/up.log" 2>&1 || wrong "no lab: $(tail -n 5 "$soak_work/up.log")" || return
    soak_lab chaos set --loss 1 --seed "$soak_seed" || wrong "no loss could be set" || return
    mkdir -p "$soak_work/round"
    windows_began=$SECONDS
    windows_receive
    for ((sender = 1; sender <= WINDOW_SENDERS; sender++)); do
        mkdir "$(windows_dir "$sender")"
        : >"$(windows_dir "$sender")/log"
        perl "$ASK_ROOT/tools/lib/soak_windows.pl" write "$(windows_dir "$sender")" "$sender" "$windows_seconds" "$soak_seed" &
        windows_writer[sender]=$!
        windows_send "$sender"
    done
    windows_run || return
    windows_finish || return
    windows_figures=$(windows_judge) || wrong "$windows_figures" || return
    grown=$(windows_grown)
    [[ -z $grown ]] || wrong "$grown"
}
