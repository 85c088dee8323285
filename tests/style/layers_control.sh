#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What lib/control/member and its sessions, and lib/control/placing, decide, they decide without input, output, clocks or
# threads of their own: ports and lib/base/runtime.h stand between, so that the simulator can run the same code.

set -euo pipefail

readonly forbidden='#include <(sys/|linux/|unistd|poll|grpc|thread|mutex|condition_variable|future)'
readonly names='\b(grpc::|std::(thread|jthread|mutex|lock_guard|unique_lock|condition_variable|future|promise|async)\b|std::this_thread|steady_clock|system_clock)'
if grep -rnE --include='*.h' --include='*.cpp' "$forbidden|$names" "$ASK_SOURCE_DIR"/lib/control/{member,receive,send,placing}; then
    echo "lib/control takes threads and time from lib/base/runtime.h, and has all else behind ports (above)" >&2
    exit 1
fi
