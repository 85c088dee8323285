#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Alert rules by promtool: they are rules, alerts_test.yml has each of them fire, and would find it changed.

set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
packaged=$here/../../packaging/monitoring
dir=$(mktemp -d /tmp/ask-alerts.XXXXXX)
trap 'rm -r "$dir"' EXIT

fail() {
    printf 'FAIL %s\n' "$*" >&2
    exit 1
}

cp "$here/alerts_test.yml" "$packaged"/{alerts,prometheus}.yml "$dir"
cd "$dir"
promtool check config prometheus.yml >said 2>&1 || fail "$(<said)"
promtool test rules alerts_test.yml >said 2>&1 || fail "$(<said)"
mapfile -t alerts < <(sed -n 's/^ *- alert: //p' alerts.yml)
((${#alerts[@]} > 5)) || fail "found ${#alerts[@]} alerts"
for alert in "${alerts[@]}"; do
    # One that never fires, and one that always does.
    for expr in 'vector(1) > 2' 'vector(1)'; do
        perl -0pe 'BEGIN { $alert = shift; $expr = shift }
            s/(- alert: \Q$alert\E\n(?:\s*#[^\n]*\n)?\s*expr: )(?:>-\n(?:\s+(?!for:|labels:)[^\n]*\n)+|[^\n]*\n)/$1$expr\n/ or die "no $alert\n"' \
            "$alert" "$expr" "$packaged/alerts.yml" >alerts.yml
        promtool check rules alerts.yml >said 2>&1 || fail "$(<said)"
        ! promtool test rules alerts_test.yml >said 2>&1 || fail "nothing tests $alert: as '$expr' it passes, too"
    done
done
printf 'ok %s alerts, each tested\n' "${#alerts[@]}"
