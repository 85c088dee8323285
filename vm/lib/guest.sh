# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# One guest: the share with its files, the machine, and the pipes that its results come through. Needs lib/kernel.sh
# (kernel_fetch done) and lib/nics.sh. VM_ROOT is what the guest sees as its root: the host's /, or a directory. If
# VM_REBOOTS is 1, what it writes is on a disk.
#
# shellcheck disable=SC2034  # GUEST_* are for the script that sources this, or read by name

readonly VM_VIRTIOFSD=/usr/lib/qemu/virtiofsd

# visible_dirs : what of the host's files the command was promised, one directory a line.
visible_dirs() {
    printf '%s\n' "$ASK_ROOT" "$PWD" "$(vm_cache)"
    [[ -z ${ASK_BUILD_DIR-} ]] || printf '%s\n' "$ASK_BUILD_DIR"
}

# guest_prepare WORK TIMEOUT COMMAND... : WORK/initrd, with the command in it.
guest_prepare() {
    local -r work=$1 timeout=$2 ask=$1/tail/ask
    local -a visible
    shift 2
    mkdir -p "$ask"
    mapfile -t visible < <(visible_dirs)
    {
        printf 'VM_TIMEOUT=%q\nVM_MODULES=%q\n' "$timeout" "$KERNEL_DIR/root/lib/modules/$KERNEL_VERSION"
        printf 'VM_VISIBLE=('
        printf ' %q' "${visible[@]}"
        printf ' )\n'
    } >"$ask/settings"
    printf '%s\n' "$VM_INIT" >"$ask/init"
    {
        printf 'cd -- %q || exit 126\n' "$PWD"
        export -p | sed -n '/^declare -x ASK_[A-Za-z0-9_]*=/p'
        printf 'exec'
        printf ' %q' "$@"
        printf '\n'
    } >"$ask/command"
    cp "$ASK_ROOT/vm/guest/pid1" "$ASK_ROOT/vm/guest/ask-vm.service" "$ask/"
    (cd "$work/tail" && find . -print0 | cpio --null --create --format=newc --owner=0:0 --quiet) >"$work/tail.cpio"
    cat "$KERNEL_INITRAMFS" "$work/tail.cpio" >"$work/initrd"
}

# share_root WORK : in a mount namespace of its own, binds what the guest may see, read-only, to WORK/share and serves
# it. Not / as it is: the guest's kernel is what is tested, and may not be able to harm the host.
share_root() {
    local -r share=$1/share
    local target dir
    mount --make-rprivate /
    if [[ $VM_ROOT != / ]]; then
        while read -r dir; do mkdir -p "$VM_ROOT$dir"; done < <(visible_dirs)
        mount --bind "$VM_ROOT" "$share"
        mount -o remount,bind,ro "$share"
    fi
    while read -r target; do
        mount --bind "$target" "$share$target" 2>/dev/null || continue
        mount -o remount,bind,ro "$share$target"
    done < <(shared_dirs)
    exec "$VM_VIRTIOFSD" --socket-path="$1/fs.sock" -o source="$share" -o cache=always -o sandbox=chroot -o xattr
}

# shared_dirs : what of the host's files to bind, one a line: all disks, or what was promised.
shared_dirs() {
    local dir
    if [[ $VM_ROOT != / ]]; then
        visible_dirs
        return
    fi
    {
        findmnt --real --raw --noheadings --output TARGET
        while read -r dir; do findmnt --raw --noheadings --output TARGET --target "$dir"; done < <(visible_dirs)
    } | LC_ALL=C sort -u
}

guest_share() {
    local -r work=$1
    [[ -x $VM_VIRTIOFSD ]] || fail "no $VM_VIRTIOFSD here: run vm/install-deps"
    mkdir "$work/share"
    export -f share_root shared_dirs visible_dirs vm_cache
    export ASK_ROOT VM_ROOT VM_VIRTIOFSD
    # shellcheck disable=SC2016  # the inner shell expands
    unshare --mount bash -euc 'share_root "$1"' share "$work" >"$work/virtiofsd.log" 2>&1 &
    GUEST_SHARE_PID=$!
    wait_until 20000 test -S "$work/fs.sock" || fail "virtiofsd does not start: $(<"$work/virtiofsd.log")"
}

# machine_options WORK MEMORY CPUS : qemu and its options but for what the command's results come through, one a line.
machine_options() {
    local -r work=$1 memory=$2 cpus=$3
    # la57: five levels of page tables only slow the emulation down; so do pointers signed with the real cipher.
    local -a machine=(qemu-system-x86_64 -M q35 -cpu "max,la57=off") args=()
    local console=ttyS0
    if [[ $VM_ARCH == arm64 ]]; then
        machine=(qemu-system-aarch64 -M virt -cpu "max,pauth-impdef=on")
        console=ttyAMA0
    fi
    # The emulation may be given little of the host: no panic over a late timer, and stalls only if they last.
    args=("console=$console" quiet rdinit=/init no_timer_check rcupdate.rcu_cpu_stall_timeout=300 watchdog_thresh=60)
    [[ $VM_INIT != /sbin/init ]] || args+=(systemd.wants=ask-vm.service systemd.show_status=0)
    # A panic resets, which ends the machine; unless it may be reset: then it just stays, and guest_await sees it.
    if ((VM_REBOOTS)); then
        args+=(panic=0 ask.disk)
        machine+=(-drive "file=$work/disk,format=raw,if=virtio,cache=unsafe")
    else
        args+=(panic=-1)
        machine+=(-no-reboot)
    fi
    printf '%s\n' "${machine[@]}" -accel tcg,thread=multi -m "$memory" -smp "$cpus" \
        -nodefaults -no-user-config -display none \
        -object "memory-backend-memfd,id=mem,size=${memory}M,share=on" -machine memory-backend=mem \
        -chardev "socket,id=fs,path=$work/fs.sock" -device vhost-user-fs-pci,chardev=fs,tag=rootfs \
        -chardev "file,id=console,path=$work/console" -serial chardev:console -device virtio-serial-pci \
        -kernel "$KERNEL_DIR/root/boot/vmlinuz-$KERNEL_VERSION" -initrd "$work/initrd" -append "${args[*]}"
}

# machine_start OPTION... : becomes qemu, in a network namespace that holds the wires, or in the tap's.
machine_start() {
    [[ -z $VM_TAP ]] || exec nsenter --net="/run/netns/${VM_TAP%%:*}" "$@"
    export -f wires_up
    # shellcheck disable=SC2016  # the inner shell expands
    exec unshare --net bash -euc 'wires_up "$1" "$2" && shift 2 && exec "$@"' machine "$VM_WIRES" "$VM_QUEUES" "$@"
}

# guest_waited : milliseconds that the machine's threads have waited for a processor so far.
guest_waited() {
    cat "/proc/$GUEST_PID/task/"*/schedstat 2>/dev/null | awk '{ sum += $2 } END { printf "%d\n", sum / 1000000 }'
}

# guest_await WORK SECONDS : until the machine has ended, or has said all there is to say; 1 if it does neither in time. A second counts only if the machine got it, since a busy host, or one that stopped us all for a while, is no
# kernel that hangs; but all of it ends after five times SECONDS. Under systemd the end in order belongs to it.
guest_await() {
    local -r work=$1 seconds=$2
    local left=$2 ticks=0 waited=0 before=0 ended
    while ((left > 0 && ticks < 5 * seconds)); do
        sleep 1 &
        GUEST_CLOCK_PID=$!
        ended=
        wait -n -p ended "$GUEST_PID" "$GUEST_CLOCK_PID" || true
        [[ $ended != "$GUEST_PID" ]] || return 0
        [[ ! -s $work/code || $VM_INIT == /sbin/init ]] || return 0
        ! grep -q 'Kernel panic - not syncing' "$work/console" || return 0
        waited=$(guest_waited)
        ((waited - before > 500)) || left=$((left - 1))
        before=$waited
        ticks=$((ticks + 1))
    done
    return 1
}

# guest_boot WORK MEMORY CPUS SECONDS : boots and waits for the end. Then WORK/code holds the command's exit code, or
# nothing; WORK/dmesg and WORK/console what the kernel said. Sets GUEST_HUNG.
guest_boot() {
    local -r work=$1 seconds=$4
    local out err
    local -a readers=() options nics
    guest_share "$work"
    if ((VM_REBOOTS)); then
        truncate --size=2G "$work/disk"
        mkfs.ext4 -q -F "$work/disk" || fail "cannot make a file system in $work/disk"
    fi
    mapfile -t options < <(machine_options "$@")
    mapfile -t nics < <(nic_options "$VM_WIRES" "$VM_QUEUES" "$VM_NIC" "$VM_JOIN" "${VM_TAP#*:}")
    # Pipes rather than our own descriptors: qemu makes what it is given non-blocking, or truncates it.
    exec {out}> >(exec cat)
    readers+=($!)
    exec {err}> >(exec cat >&2)
    readers+=($!)
    : >"$work/code"
    : >"$work/dmesg"
    : >"$work/console"
    machine_start "${options[@]}" "${nics[@]}" \
        -chardev "file,id=out,path=/proc/self/fd/$out" -device virtserialport,chardev=out,name=ask.out \
        -chardev "file,id=err,path=/proc/self/fd/$err" -device virtserialport,chardev=err,name=ask.err \
        -chardev "file,id=dmesg,path=$work/dmesg" -device virtserialport,chardev=dmesg,name=ask.dmesg \
        -chardev "file,id=code,path=$work/code" -device virtserialport,chardev=code,name=ask.code \
        >"$work/qemu.log" 2>&1 &
    GUEST_PID=$!
    exec {out}>&- {err}>&-
    GUEST_HUNG=0
    guest_await "$work" "$seconds" || GUEST_HUNG=1
    guest_clear
    wait "${readers[@]}" || true
}

# Ends whatever of the guest still runs. Safe to call at any time.
guest_clear() {
    local name pid
    for name in GUEST_PID GUEST_CLOCK_PID GUEST_SHARE_PID; do
        pid=${!name-}
        [[ -n $pid ]] || continue
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
        unset "$name"
    done
}
