/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What the sources need from kernel and libbpf, in one place. A native build (tests/pisa, the
 * simulator) puts a folder in front of the include path, which has a header of this name.
 */
#pragma once

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
 * none. The native build calls `native`. */
#define ask_tail_call(ctx, programs, index, native) \
	((void)(native), bpf_tail_call_static(ctx, programs, index))

/* One access to a register array: a hook for the native build, nothing here. */
#define ask_touch(array, number, index) ((void)(array), (void)(number), (void)(index))
