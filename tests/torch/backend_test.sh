#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# ask.torch on four hosts and a switch: collectives of every kind and type, groups, DDP with the backend and with the hook
# against the exact means, buckets under way beside autograd, and errors by name. The cases are backend_test.py's.

# shellcheck source=tests/torch/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

export SCRATCH=$scratch/stores
mkdir "$SCRATCH"
lab_up --hosts "$workers"
for case in ${1:-collectives groups refused nowhere hook in_flight memory disagree closing missing}; do
    run_workers "$scratch/$case" "$root/tests/torch/backend_test.py" "$case"
    pass "$case"
done
