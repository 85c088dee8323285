/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What the sources need from the compiler, on top of what kernel and libbpf give
 * (bpf/engine/kernel.bpf.h).
 */
#pragma once

#include <stdbool.h>

#include "bpf/engine/kernel.bpf.h"

#define ask_likely(x) __builtin_expect(!!(x), 1)

#define ASK_READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define ASK_WRITE_ONCE(x, val) (*(volatile typeof(x) *)&(x) = (val))

/* Eight bytes of a frame, wherever they begin: all machines that JIT BPF read so. */
#define ask_read64(at) (*(const __u64 *)(const void *)(at))

/* Register arrays, as the native build counts their accesses. */
enum ask_array {
	ASK_ARRAY_DEDUPE,  /* seen: one per channel */
	ASK_ARRAY_MAX_SEQ, /* compact only */
	ASK_ARRAY_SERVICE, /* the first of the service's */
};
