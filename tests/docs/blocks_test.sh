#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# blocks_test.sh FILE... : runs the fenced blocks of these Markdown files (relative to the tree) as a reader would who
# pastes them. An HTML comment right above a block says if it is another thing; a block that neither runs nor says why
# fails. Programs and options that the text names in `code` must exist, whether the block runs or not.
#
#   (none)                      runs: as root in a folder of its own with `tools`, `bench` and `build` as in the tree, and
#                               words.txt, more.gz; every line succeeds, and no lab is left
#   <!-- run in: a lab of N hosts -->  the same, with that lab up. `h1$ COMMAND` runs on h1, all such lines side by side;
#                               `--every 1m` is `--every 1s --finish-after 5`: what has no end has one here, and soon
#   <!-- output -->             what the block before it prints: these lines, in one piece
#   <!-- file: NAME -->         is that file, for the blocks of this document
#   <!-- synopsis -->           of a command: its options, those of --help and those that its section explains, are the same
#   <!-- not run: REASON -->    only programs and options are looked up
#
# The build is looked for in ASK_BUILD_DIR, or else where tools/build puts it.
#
# All of it is in namespaces of processes, mounts and networks that end with this process, however it ends.

set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
readonly root
export ASK_BUILD_DIR=${ASK_BUILD_DIR:-$root/build/release}
[[ -x $ASK_BUILD_DIR/bin/askctl ]] || { echo "no build in $ASK_BUILD_DIR: tools/build, or name another by ASK_BUILD_DIR" >&2 && exit 1; }
((EUID == 0)) || { echo "needs root" >&2 && exit 1; }
if [[ -z ${ASK_DOCS_INSIDE-} ]]; then
    ASK_DOCS_INSIDE=1 exec unshare --mount --net --pid --fork --kill-child --mount-proc "$0" "$@"
fi
# The first process of a PID namespace gets only signals that it waits for.
trap 'exit 130' INT
trap 'exit 143' TERM
unset ASK_LAB_DIR ASK_AGENT ASK_SWITCH
mount -t tmpfs ask-docs-test /run
readonly work=/run/ask-docs-test blocks=/run/ask-docs-blocks helps=/run/ask-docs-helps
mkdir "$blocks" "$helps"
# A block waits for nothing that a reader would have to end.
readonly patience=${ASK_DOCS_SECONDS:-$((40 * ${ASK_TEST_PATIENCE:-1}))}
failed=0

complain() {
    printf 'FAIL %s\n' "$*" >&2
    failed=1
}

# What the blocks find: the tree's tools, but `tools/build` has nothing left to do; `sudo` where there is none.
make_folder() {
    rm -rf "$work"
    mkdir -p "$work/tools" "$work/.bin"
    ln -s "$root"/tools/* "$work/tools/"
    ln -s "$root/bench" "$work/bench"
    rm "$work/tools/build"
    printf '#!/bin/sh\nexit 0\n' >"$work/tools/build"
    # shellcheck disable=SC2016  # for the script
    printf '#!/bin/sh\nexec "$@"\n' >"$work/.bin/sudo"
    chmod +x "$work/tools/build" "$work/.bin/sudo"
    printf 'to\nbe\nor\nnot\nto\nbe\n' >"$work/words.txt"
    printf 'that\nis\nthe\nquestion\n' | gzip >"$work/more.gz"
    export PATH=$work/.bin:$ASK_BUILD_DIR/bin:$PATH
}

# split FILE: each fenced block to $blocks/N.text, its line, language and comment to $blocks/N.about.
split() {
    rm -rf "${blocks:?}"/*
    awk -v into="$blocks" '
        /^ *```/ && !open { open = 1; name = sprintf("%s/%03d", into, ++n); about = name ".about"
            language = $0; sub(/^ *```/, "", language)
            printf "%d\t%s\t%s\n", NR, language, marker >about; close(about)
            printf "" >(name ".text"); next }
        /^ *```/ { open = 0; marker = ""; close(name ".text"); next }
        open { print >(name ".text"); next }
        /^<!-- .* -->$/ { marker = substr($0, 6, length($0) - 9); next }
        NF { marker = "" }' "$1"
}

# help_text PROGRAM WORD... : its --help, and that of what it lists as subcommands.
help_text() {
    local text sub
    text=$("$@" --help </dev/null 2>&1) || return 1
    printf '%s\n' "$text"
    while read -r sub; do
        help_text "$@" "$sub"
    done < <(sed -n '/^Subcommands:/,$p' <<<"$text" | sed -nE 's/^  ([a-z]+) +.*/\1/p')
}

# help_of COMMAND: a file with its help; 1 if the tree has no such program.
help_of() {
    local -r kept=$helps/${1//\//_}
    local program=$root/$1
    case $1 in
        ask*) program=$ASK_BUILD_DIR/bin/$1 ;;
        build/*/*) program=$ASK_BUILD_DIR/${1#build/*/} ;;
    esac
    [[ -f $program && -x $program ]] || return 1
    if [[ ! -e $kept ]]; then
        : >"$kept"
        # One that does not know --help would do its work.
        if [[ $program == "$ASK_BUILD_DIR"/bin/* ]] || grep -q -- --help "$program"; then
            help_text "$program" >"$kept" || complain "$1 --help fails"
        fi
    fi
    printf '%s\n' "$kept"
}

# flags: the long options in what it reads.
flags() {
    grep -oE '(^|[^a-zA-Z0-9_-])--[a-z][a-z-]*' | grep -oE -- '--.*' | sort -u || true
}

is_ours() {
    [[ $1 =~ ^(ask-[a-z]+|askctl|(tools|vm|bench|tests|build)/.+)$ ]]
}

# look_up WHERE COMMAND_LINE: each program of ours in it exists and knows the options that it is given.
look_up() {
    local -r where=$1
    local part word help case
    local -a words
    # What follows `exec NODE --` and a pipe are commands of their own.
    while read -ra words; do
        while [[ ${words[0]-} == sudo || ${words[0]-} == *=* ]]; do words=("${words[@]:1}"); done
        is_ours "${words[0]-}" || continue
        if ! help=$(help_of "${words[0]}"); then
            complain "$where: there is no ${words[0]}"
            continue
        fi
        # A case of the benches has options of its own.
        case=bench/${words[1]-}/run
        if [[ ${words[0]} == tools/bench && -x $case ]]; then
            cat "$help" "$(help_of "$case")" >"$helps/case" && help=$helps/case
        fi
        for word in "${words[@]:1}"; do
            [[ $word =~ ^\[?(--[a-z][a-z-]*) ]] || continue
            part=${BASH_REMATCH[1]}
            [[ $part == --help ]] || grep -qE -- "(^|[^a-z-])$part([^a-z-]|$)" "$help" || complain "$where: ${words[0]} has no $part"
        done
    done < <(sed -E 's/^(\$|[a-z0-9]+\$) //; s/ # .*//; s/ -- /\n/g; s/ (\||&&|\|\|) /\n/g' <<<"$2")
}

# Commands that the text names: `tools/lab up --hosts 3`, `ask-recv --swap`.
# shellcheck disable=SC2016  # these are backticks of Markdown
check_text() {
    local line command
    while IFS=: read -r line command; do
        command=${command//\`/}
        # Patterns and folders are no commands.
        [[ $command =~ [*{] || -d $root/${command%% *} ]] || look_up "$1:$line" "$command"
    done < <(awk '/^ *```/ { open = !open } { print open ? "" : $0 }' "$1" |
        grep -noE '`(ask-[a-z]+|askctl|(tools|vm)/[a-z_]+)( [^`]*)?`' || true)
}

# The section of a command: what `## COMMAND` begins.
section() {
    awk -v head="## $2" '/^## / { on = $0 == head } on' "$1" | awk '/^ *```/ { open = !open; next } !open'
}

check_synopsis() {
    local -r file=$1 where=$2 text=$3
    local command help flag
    command=$(awk '{ print $1; exit }' "$text")
    help=$(help_of "$command") || { complain "$where: there is no $command" && return; }
    flags <"$help" | grep -vxE -- '--(help|version|completion)' >"$blocks/known"
    flags <"$text" | grep -vxE -- '--(help|version|completion)' >"$blocks/shown"
    while read -r flag; do
        complain "$where: $command --help has $flag, its synopsis has not"
    done < <(comm -23 "$blocks/known" "$blocks/shown")
    while read -r flag; do
        complain "$where: the synopsis of $command has $flag, its --help has not"
    done < <(comm -13 "$blocks/known" "$blocks/shown")
    # Not through a pipe, which grep leaves before all is written.
    section "$file" "$command" >"$blocks/section"
    while read -r flag; do
        grep -qE "\`${flag}[\` ]" "$blocks/section" || complain "$where: the section of $command does not explain $flag"
    done <"$blocks/shown"
}

# script TEXT: as it is pasted. Lines for hosts run side by side.
script() {
    if grep -qE '^h[0-9]+\$ ' "$1"; then
        sed 's/ --every 1m / --every 1s --finish-after 5 /' "$1" | awk '{ node = $1; sub(/\$$/, "", node); sub(/^[^ ]+ /, ""); gsub(/\x27/, "\x27\\\x27\x27")
            printf "tools/lab exec %s -- bash -e -o pipefail -c \x27%s\x27 &\npids+=($!)\n", node, $0 }
            END { print "for pid in ${pids[*]}; do wait $pid || exit; done" }'
    else
        sed -E 's/^\$ //' "$1"
    fi
}

# run_block WHERE TEXT [HOSTS]
run_block() {
    local -r where=$1 text=$2 hosts=${3-}
    local code=0
    : >"$blocks/out"
    if [[ -n $hosts ]]; then
        "$root/tools/lab" up --hosts "$hosts" >"$blocks/err" 2>&1 || complain "$where: no lab: $(<"$blocks/err")"
    fi
    # From standard input, as a terminal's shell gets it: a command that reads what comes after it is seen.
    (cd "$work" && exec timeout "$patience" bash -e -o pipefail) < <(script "$text") >"$blocks/out" 2>"$blocks/err" || code=$?
    ((code != 124)) || complain "$where: still runs after $patience s"
    ((code == 0)) || complain "$where: ended with $code: $(<"$blocks/out") $(<"$blocks/err")"
    [[ -z $hosts ]] || "$root/tools/lab" down
    if compgen -G '/run/ask-lab/*/token' >/dev/null; then
        complain "$where: leaves its lab behind"
        "$root/tools/lab" down --all
    fi
    printf 'ran %s (%s s)\n' "$where" "$SECONDS"
}

# check_output WHERE TEXT: it is in $blocks/out, line by line and in one piece.
check_output() {
    awk 'NR == FNR { want[++n] = $0; next } { got[FNR] = $0; last = FNR }
        END { for (at = 0; at + n <= last; at++) {
                  for (i = 1; i <= n && got[at + i] == want[i]; i++);
                  if (i > n) exit 0 }
              exit 1 }' "$2" "$blocks/out" || complain "$1: the block before it prints something else: $(<"$blocks/out")"
}

check_block() {
    local -r file=$1 about=$2 text=${2%.about}.text
    local line language marker command
    line=$(cut -f1 "$about") language=$(cut -f2 "$about") marker=$(cut -f3- "$about")
    local -r where=$file:$line
    case $marker in
        '' | 'run in: a lab of '[1-9]*' hosts')
            [[ $language =~ ^(|sh|bash|console)$ ]] || complain "$where: does not run, and no comment above it says why"
            while read -r command; do look_up "$where" "$command"; done <"$text"
            run_block "$where" "$text" "$(grep -oE '[0-9]+' <<<"$marker")" ;;
        output) check_output "$where" "$text" ;;
        'file: '*) ;;
        synopsis) check_synopsis "$file" "$where" "$text" ;;
        'not run: '?*) while read -r command; do look_up "$where" "$command"; done <"$text" ;;
        *) complain "$where: nobody knows what '$marker' is" ;;
    esac
}

check_file() {
    local about name
    [[ -f $1 ]] || { complain "no $1" && return; }
    split "$1"
    make_folder
    for about in "$blocks"/*.about; do
        [[ -e $about ]] || continue
        name=$(sed -nE '1s/.*\tfile: ([a-z.-]+)$/\1/p' "$about")
        [[ -z $name ]] || cp "${about%.about}.text" "$work/$name"
    done
    check_text "$1"
    for about in "$blocks"/*.about; do
        [[ ! -e $about ]] || check_block "$1" "$about"
    done
}

cd "$root"
for file; do check_file "$file"; done
((failed == 0)) && echo ok
exit "$failed"
