# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Machines on one kernel, each with a systemd, a file system, devices, and a network of its own: a switch with a port to each of the
# others. Names are `sw` and hN; host N is 192.0.2.(16 (N - 1) + 2), behind the switch's eth N, which is the address below it. A
# shell runs on each, as its terminal would. Needs fail().

declare -rx RACK=/run/ask-rack RACK_CGROUP=/run/ask-rack-cgroup

# rack_host N : its address's last number less two.
rack_net() {
    printf '%s' $((16 * ($1 - 1)))
}

# rack_dev ROOT : the few devices that a machine without hardware has.
rack_dev() {
    local -r dev=$1/dev
    local name
    mount -t tmpfs -o mode=0755 dev "$dev"
    for name in null zero full random urandom tty; do
        touch "$dev/$name"
        mount --bind "/dev/$name" "$dev/$name"
    done
    mkdir "$dev/pts" "$dev/shm"
    mount -t devpts -o newinstance,mode=0620,ptmxmode=0666 devpts "$dev/pts"
    ln -s pts/ptmx "$dev/ptmx"
    ln -s /proc/self/fd "$dev/fd"
    mount -t tmpfs shm "$dev/shm"
    ln -s /dev/null "$dev/kmsg"
}

# rack_boot NAME : becomes the machine's first process, in namespaces that are its own by now.
rack_boot() {
    local -r name=$1 root=$RACK/$1/root
    mount --make-rprivate /
    mount --bind "$root" "$root"
    rack_dev "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    mount -t bpf bpf "$root/sys/fs/bpf"
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
    mount -t tmpfs -o mode=0755 run "$root/run"
    mount -t tmpfs -o mode=1777 tmp "$root/tmp"
    # What its scp copies to (below).
    mkdir -p "$root/mnt"
    mount --rbind "$RACK" "$root/mnt"
    hostname "$name"
    cd "$root" || return
    pivot_root . "mnt/$name/old"
    # shellcheck disable=SC2016  # the inner shell expands
    exec chroot . /bin/sh -c 'umount -l "/mnt/$1/old" && exec env -i container=ask-rack PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd' \
        boot "$name" </dev/null >/dev/null 2>&1
}

# rack_files NAME LOWER : a machine's files are LOWER's, and what it writes is its own.
rack_files() {
    local -r at=$RACK/$1
    mkdir -p "$at"/{upper,work,root,old} "$RACK_CGROUP/$1"
    mount -t overlay -o "lowerdir=$2,upperdir=$at/upper,workdir=$at/work" overlay "$at/root"
    echo "$1" >"$at/root/etc/hostname"
    : >"$at/root/etc/machine-id"
}

rack_start() {
    local -r name=$1 at=$RACK/$1
    ip netns add "ask-$name"
    export -f rack_boot rack_dev
    # shellcheck disable=SC2016  # the inner shell expands
    ip netns exec "ask-$name" bash -c '
        echo $$ >"$2/$1/cgroup.procs"
        exec unshare --pid --fork --kill-child --mount --uts --ipc --cgroup bash -euc "rack_boot \"\$1\"" boot "$1"' net "$name" "$RACK_CGROUP" \
        >"$at/boot.log" 2>&1 &
    printf '%s\n' $! >"$at/keeper"
}

# rack_pid NAME : its systemd, seen from here.
rack_pid() {
    pgrep --parent "$(<"$RACK/$1/keeper")"
}

# rack_enter NAME COMMAND...
rack_enter() {
    local -r name=$1
    shift
    nsenter --target "$(rack_pid "$name")" --all -- env -i HOME=/root TERM=dumb LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

rack_is_up() {
    [[ $(rack_enter "$1" systemctl is-system-running 2>/dev/null) =~ ^(running|degraded)$ ]]
}

# rack_wire N : host N to the switch's eth N.
rack_wire() {
    local -r net=$(rack_net "$1")
    ip link add "eth$1" netns ask-sw numrxqueues 1 numtxqueues 1 type veth peer name eth0 netns "ask-h$1" numrxqueues 1 numtxqueues 1
    ip netns exec ask-sw ethtool -K "eth$1" tx off txvlan off gro off >/dev/null
    ip netns exec "ask-h$1" ethtool -K eth0 tx off txvlan off gro off >/dev/null
    ip -n ask-sw address add "192.0.2.$((net + 1))/28" dev "eth$1"
    ip -n ask-sw link set dev "eth$1" up
    ip -n ask-sw link set dev lo up
    ip -n "ask-h$1" address add "192.0.2.$((net + 2))/28" dev eth0
    ip -n "ask-h$1" link set dev lo up
    ip -n "ask-h$1" link set dev eth0 up
    ip -n "ask-h$1" route add default via "192.0.2.$((net + 1))"
}

# rack_up LOWER HOSTS
rack_up() {
    local name i
    mkdir -p "$RACK"
    mountpoint -q "$RACK" || mount -t tmpfs -o mode=0755 rack "$RACK"
    mkdir -p "$RACK_CGROUP"
    mountpoint -q "$RACK_CGROUP" || mount -t cgroup2 cgroup2 "$RACK_CGROUP"
    # All files first: what a machine sees of the others is what is there when it boots.
    for name in sw $(seq --format=h%g "$2"); do rack_files "$name" "$1"; done
    for name in sw $(seq --format=h%g "$2"); do rack_start "$name"; done
    for ((i = 1; i <= $2; i++)); do rack_wire "$i"; done
    for name in sw $(seq --format=h%g "$2"); do
        rack_patiently 300 rack_is_up "$name" || fail "$name does not boot: $(cat "$RACK/$name/boot.log"; rack_enter "$name" systemctl --no-pager list-jobs 2>&1)"
    done
}

# rack_patiently SECONDS COMMAND... : until it succeeds.
rack_patiently() {
    local -r deadline=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < deadline)) || return 1
        sleep 0.2 # between two looks
    done
}

# rack_shell NAME : starts its terminal: what is written to descriptor SHELL_IN[NAME] it runs.
declare -A SHELL_IN=() SHELL_OUT=()
rack_shell() {
    local -r at=$RACK/$1
    local in out
    mkfifo "$at/in" "$at/out"
    rack_enter "$1" bash -c 'cd; exec bash --norc --noprofile 2>&1' <"$at/in" >"$at/out" 2>/dev/null &
    exec {in}>"$at/in" {out}<"$at/out"
    SHELL_IN[$1]=$in SHELL_OUT[$1]=$out
}

# rack_type NAME COMMAND SECONDS : sets TYPED to what the terminal shows until the command has ended, and TYPED_CODE.
rack_type() {
    local line
    TYPED='' TYPED_CODE=
    printf '%s\nprintf "@done %%s\\n" $?\n' "$2" >&"${SHELL_IN[$1]}"
    while IFS= read -r -t "$3" line <&"${SHELL_OUT[$1]}"; do
        line=${line%$'\r'}
        if [[ $line =~ ^(.*)@done\ ([0-9]+)$ ]]; then
            [[ -z ${BASH_REMATCH[1]} ]] || TYPED+=${BASH_REMATCH[1]}$'\n'
            # shellcheck disable=SC2034  # for who calls
            TYPED_CODE=${BASH_REMATCH[2]}
            return
        fi
        TYPED+=$line$'\n'
    done
    fail "$1\$ $2: has not ended within $3 s; so far: $TYPED"
}

# Ends the machines with all that runs there.
rack_down() {
    local keeper name
    for keeper in "$RACK"/*/keeper; do
        [[ -e $keeper ]] || continue
        kill -KILL "$(<"$keeper")" 2>/dev/null || true
    done
    wait &>/dev/null || true
    for keeper in "$RACK"/*/keeper; do
        [[ -e $keeper ]] || continue
        name=$(basename "$(dirname "$keeper")")
        umount -l "$RACK/$name/root" 2>/dev/null || true
        ip netns delete "ask-$name" 2>/dev/null || true
        find "$RACK_CGROUP/$name" -depth -type d -exec rmdir {} + 2>/dev/null || true
    done
    umount -l "$RACK" "$RACK_CGROUP" 2>/dev/null || true
}
