# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Roots for guests, made of packages and kept in the cache.

# keep_root DIR : as `make_root DIR` makes it of ${packages[@]}, unless this very recipe has made it before.
keep_root() {
    local -r dir=$1
    local recipe
    # shellcheck disable=SC2154 # the caller's packages
    recipe=$(declare -f make_root && printf '%s\n' "${packages[@]}")
    if [[ -d $dir && -e $dir.recipe && $(<"$dir.recipe") == "$recipe" ]]; then return; fi
    mkdir -p "${dir%/*}"
    rm -rf --one-file-system "$dir"
    make_root "$dir"
    printf '%s\n' "$recipe" >"$dir.recipe"
}
