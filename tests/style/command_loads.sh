#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What is started once for each sender of a job loads neither gRPC nor OpenSSL: with them starting takes longer than
# sending a small input.

set -euo pipefail

failed=0
for command in ask-send ask-recv; do
    loads=$(ldd "$ASK_BUILD_DIR/bin/$command")
    grep -q libc.so <<<"$loads" || { echo "$command: ldd does not say what it loads" >&2 && exit 1; }
    if grep -E 'lib(grpc|gpr|absl_|ssl|crypto|systemd|bpf|spdlog)' <<<"$loads"; then
        echo "$command loads the libraries above: link it with what needs none of them (lib/rpc/CMakeLists.txt)" >&2
        failed=1
    fi
done
exit "$failed"
