/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What the sources need from compiler and libbpf, in one place, so that the same
 * sources also compile natively (tests/pisa, the simulator) against a stand-in.
 */
#pragma once

#include <stdbool.h>

#ifdef ASK_NATIVE_BPF
#include "tests/support/native_bpf.h"
#else

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Hides a value from the compiler, so that it keeps an offset in one register
 * for the verifier to bound instead of re-deriving it. */
#define ask_opaque(var) asm volatile("" : "+r"(var))

/* Atomics that return the old value: fully ordered, on every architecture. The result of
 * ask_add_ordered64() is used, or clang would emit the form without it, which is not. */
#define ask_cas64(ptr, old, val) __sync_val_compare_and_swap(ptr, old, val)
#define ask_fetch_or64(ptr, val) __sync_fetch_and_or(ptr, val)
#define ask_fetch_and64(ptr, val) __sync_fetch_and_and(ptr, val)
#define ask_xchg64(ptr, val) __sync_lock_test_and_set(ptr, val)
#define ask_add_ordered64(ptr, val)                             \
	do {                                                    \
		__u64 ask_old = __sync_fetch_and_add(ptr, val); \
		asm volatile("" : : "r"(ask_old) : "memory");   \
	} while (0)

/* Goes on in the program at `index`, a constant, and does not come back; comes back if there is
 * none. The native build has one program, `native`. */
#define ask_tail_call(ctx, programs, index, native) bpf_tail_call_static(ctx, programs, index)

/* One access to a register array: a hook for the native build, nothing here. */
#define ask_touch(array, number, index) ((void)(array), (void)(number), (void)(index))

#endif

#define ask_likely(x) __builtin_expect(!!(x), 1)

#define ASK_READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define ASK_WRITE_ONCE(x, val) (*(volatile typeof(x) *)&(x) = (val))

/* Register arrays, as the native build counts their accesses. */
enum ask_array {
	ASK_ARRAY_DEDUPE,    /* seen: one per channel */
	ASK_ARRAY_MAX_SEQ,   /* compact only */
	ASK_ARRAY_COPY,	     /* the task's copy index */
	ASK_ARRAY_AA,	     /* number: which AA */
	ASK_ARRAY_PKT_STATE, /* number: which row */
	ASK_ARRAY_HEAT,	     /* number: which AA; tasks that replace only, as the next */
	ASK_ARRAY_CARRIED,   /* number: which row */
};
