#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# libask_test.sh [python]: libask as a stranger installs and uses it. To /usr/local: programs outside the tree are built with
# pkg-config's word and with CMake's and find the library by its soname, with nothing set; to another prefix, with what each
# wants set. What is exported is what ask.h declares. With `python`, that python3 imports the package, which needs numpy.

set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
stage=$(mktemp -d /tmp/ask-libask-test.XXXXXX)
readonly root stage examples=$root/examples/libask python=${1-}
trap 'rm -rf "$stage"' EXIT

fail() {
    printf 'FAIL: %s\n' "$*" >&2
    exit 1
}

# quietly WHAT COMMAND... : what it says is shown if it fails.
quietly() {
    "${@:2}" >"$stage/log" 2>&1 || fail "$1: $(<"$stage/log")"
}

# put PREFIX [COMPONENT] : with DESTDIR, as it is.
put() {
    local part
    for part in lib/ask python; do
        quietly "installing $part" cmake -DCMAKE_INSTALL_PREFIX="$1" ${2:+-DCMAKE_INSTALL_COMPONENT="$2"} \
            -P "$ASK_BUILD_DIR/$part/cmake_install.cmake"
    done
}

# shows COMMAND... : without an agent it says who is missing and what to do, with the code of what cannot be reached.
shows() {
    local said code=0
    said=$(ASK_AGENT=$stage/none "$@" 2>&1 </dev/null) || code=$?
    [[ $code == 6 && $said == *"no agent listens at $stage/none: start ask-agentd"*unavailable* ]] ||
        fail "$1 ended with $code and said: $said"
}

# builds_with_pkg_config DIR
builds_with_pkg_config() {
    local -a flags
    read -ra flags <<<"$(pkg-config --cflags --libs ask) ${CFLAGS-}"
    local -ra strict=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
    mkdir "$1"
    local program
    for program in sum histogram wordcount; do
        quietly "cc" cc -std=c99 "${strict[@]}" "$examples/$program.c" "${flags[@]}" -o "$1/$program"
    done
    for program in columns totals; do
        quietly "c++" c++ -std=c++20 "${strict[@]}" "$examples/$program.cpp" "${flags[@]}" -o "$1/$program"
    done
    [[ $(readelf -d "$1/sum") == *'(NEEDED)'*'[libask.so.0]'* ]] || fail "the program does not ask for libask.so.0"
}

# builds_with_cmake DIR OPTION...
builds_with_cmake() {
    quietly "CMake" cmake -S "$examples" -B "$1" "${@:2}"
    quietly "CMake" cmake --build "$1"
}

runs() {
    shows "$1/sum" g 0 1 h1
    shows "$1/histogram" g 0 1 h1 10
    shows "$1/columns" g 0 1 h1
    shows "$1/wordcount" send t h1
    shows "$1/totals" receive t 1
}

# As after `cmake --install build` and `ldconfig`, in a mount namespace: nothing is set, all is found.
usual_prefix() {
    local said
    mount --bind "$stage/dest/usr/local" /usr/local
    ldconfig -C "$stage/ld.so.cache"
    mount --bind "$stage/ld.so.cache" /etc/ld.so.cache
    export PATH=/usr/bin:/bin
    unset LD_LIBRARY_PATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH PYTHONPATH ASK_LIBRARY
    [[ $(pkg-config --modversion ask) == 0.1.0 ]] || fail "pkg-config knows ask $(pkg-config --modversion ask)"
    builds_with_pkg_config "$stage/local"
    runs "$stage/local"
    builds_with_cmake "$stage/local-cmake"
    runs "$stage/local-cmake"
    said=$(/usr/bin/python3 -c 'import importlib.util as u; print(u.find_spec("ask").origin)') || fail "python3 does not find the package"
    [[ $said == /usr/local/lib/python3.*/dist-packages/ask/__init__.py ]] || fail "python3 finds the package at $said"
    [[ -z $python ]] || imported
}

# The module, its documentation, and an example without an agent.
imported() {
    [[ $(/usr/bin/python3 -c 'import ask; print(*ask.version())') == '0 1 0' ]] || fail "python3 does not import ask"
    [[ $(/usr/bin/python3 -m pydoc ask) == *'Returns once all members have joined'* ]] || fail "no help(ask)"
    printf '1 2\n' >"$stage/rows"
    shows /usr/bin/python3 "$examples/least_squares.py" g 0 1 h1 "$stage/rows"
    shows /usr/bin/python3 "$examples/spread.py" receive t 1
    # Who has not run ldconfig is told.
    mount --bind /dev/null /etc/ld.so.cache
    ! said=$(/usr/bin/python3 -c 'import ask' 2>&1) || fail "the module needs no library"
    [[ $said == *"ImportError: no libask: "*"run ldconfig, or name its file in \$ASK_LIBRARY" ]] || fail "import ask says: $said"
}

# Somewhere else, by components, as distributions split them.
other_prefix() {
    local -r prefix=$stage/opt
    local library pc
    put "$prefix" libask
    [[ $(cd "$prefix" && find . -type f -o -type l | sort | sed 's|.*/||' | paste -sd ' ') == 'libask.so.0 libask.so.0.1.0' ]] ||
        fail "the component libask has $(find "$prefix")"
    library=$(find "$prefix" -name libask.so.0)
    put "$prefix" libask-dev
    put "$prefix" python3-ask
    pc=$(find "$prefix" -name ask.pc)
    PKG_CONFIG_PATH=${pc%/*} builds_with_pkg_config "$stage/other"
    LD_LIBRARY_PATH=${library%/*} runs "$stage/other"
    builds_with_cmake "$stage/other-cmake" -DCMAKE_PREFIX_PATH="$prefix"
    LD_LIBRARY_PATH='' runs "$stage/other-cmake"
    [[ -e $prefix/lib/python3/dist-packages/ask/__init__.py ]] || fail "no Python package: $(find "$prefix")"
    ! find "$prefix" -name '*.pyc' | grep . || fail "compiled Python files are installed"
    symbols "$prefix/include/ask.h" "$library"
}

# symbols HEADER LIBRARY: what the header declares, all of it and nothing else, in the version of this ABI.
symbols() {
    local -a declared exported
    [[ $(readelf -d "$2") == *'(SONAME)'*'[libask.so.0]'* ]] || fail "the library's soname is not libask.so.0"
    mapfile -t declared < <(sed -n '/^ASK_API /{ s/(.*//; s/.*[ *]//; p }' "$1" | sort)
    mapfile -t exported < <(nm -D --defined-only "$2" | awk '$2 == "T" { print $3 }' | sort)
    ((${#declared[@]} > 20)) || fail "ask.h declares only ${declared[*]}"
    diff <(printf '%s@@ASK_0\n' "${declared[@]}") <(printf '%s\n' "${exported[@]}") >&2 ||
        fail "ask.h declares (<) what the library does not export (>)"
    [[ -z $(nm -D --defined-only "$2" | awk '$2 != "A" && $2 != "T"') ]] || fail "other symbols are to be seen"
}

# A version that is not there is refused.
wrong_version() {
    mkdir "$stage/wrong"
    printf 'cmake_minimum_required(VERSION 3.25)\nproject(wrong C)\nfind_package(ask %s REQUIRED)\n' "$1" >"$stage/wrong/CMakeLists.txt"
    ! cmake -S "$stage/wrong" -B "$stage/wrong/build" -DCMAKE_PREFIX_PATH="$stage/opt" >"$stage/log" 2>&1 || fail "ask $1 is found"
    grep -q 'version: 0.1.0' "$stage/log" || fail "CMake does not say which version there is: $(<"$stage/log")"
    rm -r "$stage/wrong"
}

export -f fail quietly shows builds_with_pkg_config builds_with_cmake runs imported usual_prefix
export stage examples python
DESTDIR=$stage/dest put /usr/local
unshare --map-root-user --mount bash -euo pipefail -c usual_prefix
[[ -n $python ]] || {
    other_prefix
    wrong_version 0.2
    wrong_version 1.0
}
echo ok
