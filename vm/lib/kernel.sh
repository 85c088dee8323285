# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Kernels of the distribution, unpacked into a cache and not installed; and their initramfs. Old versions leave
# the package lists, so a kernel is named by its series ("6.1") and the newest of it is taken.
#
# Needs tools/lib/common.sh, and fail() and VM_ARCH (amd64 or arm64) from the script that sources this.

# What the guest needs before it has the host's root, hence modprobe; kmod loads the rest from there.
readonly VM_BOOT_MODULES=(virtio_pci virtio_console virtiofs overlay)
# And if it has a disk.
readonly VM_DISK_MODULES=(virtio_blk ext4)

vm_cache() {
    printf '%s\n' "${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ask-vm"
}

# kernel_filter SERIES : of names on standard input, "linux-image-" removed, prints the series' kernels, oldest first.
kernel_filter() {
    local -r series=${1//./\\.}
    sed -nE "s/^(linux-image-)?($series\.[0-9]+(\+[a-z0-9.]+)?(-[0-9]+)?-cloud-$VM_ARCH)\$/\2/p" | LC_ALL=C sort -V
}

# kernel_unpack VERSION DIR : downloads and unpacks it to DIR, all or nothing. The cache's lock is held.
kernel_unpack() {
    local -r version=$1 dir=$2 work=$2.part
    rm -rf --one-file-system "$work"
    mkdir -p "$work"
    (
        cd "$work"
        # apt's own user may not enter a private cache; it then downloads as root and says so.
        apt-get -q -o APT::Sandbox::User=root download "linux-image-$version"
        dpkg -x linux-image-*.deb root
        rm linux-image-*.deb
        [[ -e root/lib/modules ]] || mv root/usr/lib root/lib
        depmod -b root "$version"
    ) >"$work/log" 2>&1 || return 1
    rm -rf --one-file-system "$dir"
    mv "$work" "$dir"
}

# kernel_modules DIR VERSION MODULE... : the files to load, in order, for these.
kernel_modules() {
    local -r dir=$1 version=$2
    local module
    shift 2
    for module; do
        modprobe --dirname "$dir/root" --set-version "$version" --show-depends "$module" ||
            fail "kernel $version has no module $module: guests cannot reach their root with it"
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }'
}

# add_modules ROOT : the files on standard input, to ROOT/modules; prints the names of those that were not there yet.
add_modules() {
    local file name
    while read -r file; do
        name=${file##*/}
        name=${name%.xz}
        [[ ! -e $1/modules/$name ]] || continue
        case $file in
            *.xz) xz --decompress --stdout "$file" >"$1/modules/$name" ;;
            *) cp "$file" "$1/modules/$name" ;;
        esac
        printf '%s\n' "$name"
    done
}

# kernel_initramfs DIR VERSION FILE
kernel_initramfs() {
    local -r root=$1/initramfs
    rm -rf --one-file-system "$root"
    mkdir -p "$root"/{bin,modules,proc,sys,dev,lower,layer,root}
    cp "$VM_BUSYBOX" "$root/bin/busybox"
    cp "$ASK_ROOT/vm/guest/init" "$root/init"
    add_modules "$root" < <(kernel_modules "$1" "$2" "${VM_BOOT_MODULES[@]}") >"$root/modules.list"
    add_modules "$root" < <(kernel_modules "$1" "$2" "${VM_DISK_MODULES[@]}") >"$root/disk.list"
    (cd "$root" && find . -print0 | LC_ALL=C sort -z | cpio --null --create --format=newc --owner=0:0 --quiet) >"$3.part"
    mv "$3.part" "$3"
}

# kernel_newest SERIES : fetches the newest of it unless the cache has it, and sets KERNEL_VERSION to what the cache has.
kernel_newest() {
    local -r series=$1
    local cache newest
    cache=$(vm_cache)
    newest=$(apt-cache pkgnames "linux-image-$series." | kernel_filter "$series" | tail -n 1)
    if [[ -n $newest && ! -e $cache/$newest ]]; then
        note "fetching kernel $newest"
        # Lists grow old: the version they name may have been replaced since.
        if ! kernel_unpack "$newest" "$cache/$newest" && apt-get -q update >"$cache/update.log" 2>&1; then
            newest=$(apt-cache pkgnames "linux-image-$series." | kernel_filter "$series" | tail -n 1)
            kernel_unpack "$newest" "$cache/$newest" || note "cannot fetch kernel $newest: $(tail -n 3 "$cache/$newest.part/log")"
        fi
    fi
    # shellcheck disable=SC2012  # names of our own making
    KERNEL_VERSION=$(ls "$cache" | kernel_filter "$series" | tail -n 1)
    [[ -n $KERNEL_VERSION ]] ||
        fail "no cloud kernel of series $series, neither in the package lists (apt-get update?) nor in $cache"
    KERNEL_DIR=$cache/$KERNEL_VERSION
}

# kernel_of_root SERIES : that of the root of another architecture, which was made with it.
kernel_of_root() {
    KERNEL_DIR=$(vm_cache)/$VM_ARCH
    # shellcheck disable=SC2012  # names of the distribution's making
    KERNEL_VERSION=$(ls "$KERNEL_DIR/root/lib/modules" 2>/dev/null | kernel_filter "$1" | tail -n 1)
    [[ -n $KERNEL_VERSION ]] || fail "no kernel of series $1 for $VM_ARCH in $KERNEL_DIR/root: run vm/$VM_ARCH"
}

# kernel_fetch SERIES : sets KERNEL_VERSION, KERNEL_INITRAMFS and KERNEL_DIR, which holds root/boot/vmlinuz-VERSION
# and root/lib/modules/VERSION. Looks for a newer kernel each time; without package sources it takes what the cache has.
kernel_fetch() {
    local cache lock
    cache=$(vm_cache)
    mkdir -p "$cache"
    exec {lock}>"$cache/lock"
    flock --wait 300 "$lock" || fail "another run has held $cache/lock for 5 minutes"
    if [[ $VM_ARCH == amd64 ]]; then
        kernel_newest "$1"
        VM_BUSYBOX=/bin/busybox
    else
        kernel_of_root "$1"
        VM_BUSYBOX=$KERNEL_DIR/root/bin/busybox
    fi
    # Named by what it is made of: two trees may share the cache.
    KERNEL_INITRAMFS=$(cat "$ASK_ROOT/vm/guest/init" "$ASK_ROOT/vm/lib/kernel.sh" "$VM_BUSYBOX" | sha256sum)
    KERNEL_INITRAMFS=$KERNEL_DIR/initramfs-${KERNEL_INITRAMFS:0:16}.cpio
    [[ -e $KERNEL_INITRAMFS ]] || kernel_initramfs "$KERNEL_DIR" "$KERNEL_VERSION" "$KERNEL_INITRAMFS"
    exec {lock}>&-
}
