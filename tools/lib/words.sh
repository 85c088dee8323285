# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The words of a text, as the demo and the benches count them: maximal runs of the letters A-Z and a-z, lower-cased.
# Source it after common.sh.

# Debian's dict-gcide: the GNU Collaborative International Dictionary of English.
readonly ASK_TEXT=/usr/share/dictd/gcide.dict.dz

# A line end after each file: no word spans two files.
raw_text() {
    local file
    if (($# == 0)); then
        [[ -r $ASK_TEXT ]] || die "no $ASK_TEXT: run tools/install-deps, or name a text"
        gunzip -c "$ASK_TEXT"
    fi
    for file; do cat -- "$file" && echo; done
}

# cut_lines FILE PARTS: whole lines of it, in their order, in FILE.1 ...
cut_lines() {
    local -r file=$1 parts=$2
    local i
    split --number="l/$parts" --numeric-suffixes=1 --suffix-length="${#parts}" "$file" "$file."
    for ((i = 1; i < 10 && parts >= 10; i++)); do mv "$file.0$i" "$file.$i"; done
}

# split_words DIR PARTS [FILE...]: the words of the files, or of the dictionary, in DIR/words, cut in the text's order
# into DIR/words.1 ...; how often each occurs in DIR/reference, key<TAB>count, sorted by bytes.
split_words() {
    local -r dir=$1 parts=$2
    shift 2
    # shellcheck disable=SC2018,SC2019  # bytes, whatever the locale: the same for everybody
    raw_text "$@" | LC_ALL=C tr -cs 'A-Za-z' '\n' | LC_ALL=C tr 'A-Z' 'a-z' | sed '/^$/d' >"$dir/words"
    [[ -s $dir/words ]] || die "no words in ${*:-$ASK_TEXT}"
    cut_lines "$dir/words" "$parts"
    LC_ALL=C sort "$dir/words" | LC_ALL=C uniq -c | awk '{ print $2 "\t" $1 }' >"$dir/reference"
}
