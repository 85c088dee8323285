# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What was found good before, in this clone of the tree or another. For checks whose outcome follows from what they read and from nothing
# else, as that of a compiler does: the name of a stamp is all that, so what has changed in any way has none.

# stamps_of CHECK : prints the folder of its stamps, and makes it. A stamp is good for a month.
stamps_of() {
    local dir=${XDG_CACHE_HOME-}
    [[ -n $dir ]] || dir=~/.cache
    dir+=/ask-$1
    mkdir -p "$dir"
    find "$dir" -type f -mtime +30 -delete
    printf '%s\n' "$dir"
}

# digest_of [FILE]... : of these files and of standard input.
digest_of() {
    cat -- "$@" - | sha256sum | cut -d ' ' -f 1
}

# stamps_for FOLDER DIGEST : for each file that standard input names, the path of its stamp and its own, by a tab. DIGEST is of
# whatever else the outcome follows from.
stamps_for() {
    local -r folder=$1 others=$2
    local digest file
    # sha256sum would put a back-slash before odd names.
    xargs -r -d '\n' sha256sum -- | while read -r digest file; do
        printf '%s/%s-%s-%s\t%s\n' "$folder" "${others:0:16}" "$digest" "${file//\//,}" "$file"
    done
}

# without_stamp : of such lines those whose stamp is missing.
without_stamp() {
    local stamp file
    while IFS=$'\t' read -r stamp file; do
        [[ -e $stamp ]] || printf '%s\t%s\n' "$stamp" "$file"
    done
}
