#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# One table of exit codes (docs/commands.md) for all commands: real invocations end as it says. tests/docs compares it
# with the classes of errors in the code.

set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
scratch=$(mktemp -d /tmp/ask-codes-test.XXXXXX)
readonly root scratch bin=$ASK_BUILD_DIR/bin installed=(ask-send ask-recv askctl ask-plan ask-switchd ask-agentd)
trap 'rm -rf "$scratch"' EXIT
unset ASK_AGENT ASK_SWITCH

fail() {
    printf 'FAIL: %s\n' "$*" >&2
    exit 1
}

# ends CODE TEXT COMMAND... : ends with the code, and standard error holds the text.
ends() {
    local -r want=$1 text=$2
    local code=0 said
    shift 2
    said=$(timeout 60 "$@" 2>&1 >/dev/null </dev/null) || code=$?
    ((code == want)) || fail "'$*' ended with $code, not $want; it said: $said"
    [[ $said == *"$text"* ]] || fail "'$*' said '$said', not '$text'"
}

every_command() {
    local program
    for program in "${installed[@]}"; do
        [[ $("$bin/$program" --version) == "$program "[0-9]*.[0-9]*.[0-9]* ]] || fail "$program --version: $("$bin/$program" --version)"
        [[ $("$bin/$program" --help) == *docs/commands.md* ]] || fail "$program --help does not say where exit codes are explained"
        ends 2 "$program: unknown flag --no-such-flag; see $program --help" "$bin/$program" --no-such-flag
    done
}

codes() {
    ends 2 'unknown flag --taks: did you mean --task?' "$bin/ask-send" --taks hits --to h3
    ends 2 'unknown flag --sender: did you mean --senders?' "$bin/ask-recv" --task hits --sender 2
    ends 2 'unknown command "stauts": did you mean status?' "$bin/askctl" stauts
    ends 2 'Usage: askctl' "$bin/askctl"
    ends 2 'geometry 16+8x9: m: 9' "$bin/ask-recv" --task hits --senders 1 --geometry 16+8x9
    ends 3 '/nonexistent.tsv: ' "$bin/ask-send" --task hits --to h3 /nonexistent.tsv
    ends 3 'ask-plan: /nonexistent.toml: no such file' "$bin/ask-plan" /nonexistent.toml
    ends 3 'ask-switchd: --config: /nonexistent.toml: no such file' "$bin/ask-switchd" --config /nonexistent.toml
    ends 3 'ask-agentd: --config: /nonexistent.toml: no such file' "$bin/ask-agentd" --config /nonexistent.toml
    ends 6 'no agent listens' "$bin/ask-send" --task hits --to h3 --agent "$scratch/none" /dev/null
    ends 6 'no agent listens' "$bin/ask-recv" --task hits --senders 1 --agent "$scratch/none"
    ends 6 'cannot be reached' "$bin/askctl" --agent "$scratch/none" status
    printf 'max_tsaks = 1\n' >"$scratch/switchd.toml"
    ends 2 "$scratch/switchd.toml:1: unknown key \"max_tsaks\": did you mean max_tasks?" "$bin/ask-switchd" --config "$scratch/switchd.toml"
    printf '\nhots = 1\n' >"$scratch/agentd.toml"
    ends 2 "$scratch/agentd.toml:2: unknown key \"hots\": did you mean hosts?" "$bin/ask-agentd" --config "$scratch/agentd.toml"
    printf '[message]\nmodl = 1\n' >"$scratch/plan.toml"
    ends 3 "unknown key 'modl': did you mean model?" "$bin/ask-plan" "$scratch/plan.toml"
    printf '# nothing\n' >"$scratch/plan.toml"
    ends 3 "ask-plan: $scratch/plan.toml" "$bin/ask-plan" "$scratch/plan.toml"
    ! "$bin/ask-plan" "$scratch/plan.toml" 2>&1 | grep ':0:' || fail "a line 0 is named"
}

# As somebody who has no rights.
permissions() {
    chmod 755 "$scratch"
    printf 'a\t1\n' >"$scratch/secret.tsv"
    chmod 000 "$scratch/secret.tsv"
    local -a nobody=()
    ((EUID != 0)) || nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    # Wherever the build is: everybody may run these.
    install -m 755 "$bin"/{ask-switchd,ask-send,ask-plan,ask-agentd} "$scratch/"
    ends 7 'missing CAP_' "${nobody[@]}" "$scratch/ask-switchd" --config /dev/null --ports lo
    ends 7 'secret.tsv' "${nobody[@]}" "$scratch/ask-send" --task hits --to h3 "$scratch/secret.tsv"
    ends 7 'secret.tsv' "${nobody[@]}" "$scratch/ask-plan" "$scratch/secret.tsv"
    ends 7 'secret.tsv' "${nobody[@]}" "$scratch/ask-agentd" --config "$scratch/secret.tsv"
}

# Tools of the source tree: a bad flag is a 2 there, too.
tools() {
    local tool
    for tool in bench build demo format-check fuzz lab mutate soak test tidy; do
        ends 2 '' "$root/tools/$tool" --no-such-flag
    done
}

every_command
codes
permissions
tools
echo "ok"
