/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What the loader chooses for tuples before load, as bpf/engine/config.bpf.h for all.
 */
#pragma once

#include <linux/types.h>

#include "lib/abi/consts.h"

/* enum ask_memory: how aggregators are kept exact. */
const volatile __u32 ask_memory = ASK_MEMORY_PIPELINES;
