/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for kernel and libbpf when the switch program is compiled natively: the folder that this lies in
 * goes in front of the include path. Helpers become functions of tests/pisa/native_switch.c, which keeps maps
 * in plain memory and records every access, or of tests/sim/switch_program.c, which lets other CPUs run in
 * between.
 */
#pragma once

/* The kernel's context has 32-bit pointers, which only the verifier makes whole. */
#define xdp_md kernel_xdp_md
#include <linux/bpf.h>
#undef xdp_md
#include <linux/types.h>
#include <stddef.h>

#include <bpf/bpf_endian.h>

struct xdp_md {
    __u64 data;
    __u64 data_end;
    __u32 ingress_ifindex;
    __u32 rx_queue_index;
    __u32 egress_ifindex;
};

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define SEC(name)
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val)* name
#define __array(name, val) typeof(val)* name[]

void* native_map_lookup(const void* map, const void* key);
long native_fib_lookup(struct bpf_fib_lookup* fib);
long native_redirect_map(__u32 ifindex, __u64 flags);
long native_adjust_tail(struct xdp_md* ctx, int delta);
long native_adjust_head(struct xdp_md* ctx, int delta);
__u32 native_cpu(void);
__u64 native_now(void);
__u64 native_cas(__u64* at, __u64 old, __u64 val);
void native_touch(__u32 array, __u32 number, __u32 index);
/* Before an atomic access: another CPU may run now. */
void native_pause(void);

/* Where rounds wait for another CPU: it may run ahead of the first. */
static inline void native_loop(__u32 rounds, long (*round)(__u32, void*), void* data) {
    native_pause();
    for (__u32 i = 0; i < rounds && !round(i, data); i++) {
    }
}

#define bpf_map_lookup_elem(map, key) native_map_lookup(map, key)
#define bpf_fib_lookup(ctx, fib, size, flags) ((void)(ctx), native_fib_lookup(fib))
#define bpf_redirect_map(map, key, flags) native_redirect_map(key, flags)
#define bpf_loop(rounds, round, data, flags) native_loop(rounds, round, data)
#define bpf_xdp_adjust_tail(ctx, delta) native_adjust_tail(ctx, delta)
#define bpf_xdp_adjust_head(ctx, delta) native_adjust_head(ctx, delta)
/* Frames are in one piece here. */
#define bpf_xdp_get_buff_len(ctx) ((ctx)->data_end - (ctx)->data)
#define bpf_get_smp_processor_id() native_cpu()
#define bpf_ktime_get_coarse_ns() native_now()
#define bpf_jiffies64() (native_now() / 1000000)

#define ask_tail_call(ctx, programs, index, native) return ((void)(index), native(ctx))

#define ask_opaque(var) ((void)(var))
#define ask_cas64(ptr, old, val) native_cas(ptr, old, val)
#define ask_fetch_or64(ptr, val) (native_pause(), __sync_fetch_and_or(ptr, val))
#define ask_fetch_and64(ptr, val) (native_pause(), __sync_fetch_and_and(ptr, val))
#define ask_xchg64(ptr, val) (native_pause(), __sync_lock_test_and_set(ptr, val))
#define ask_add_ordered64(ptr, val) (native_pause(), (void)__sync_fetch_and_add(ptr, val))
#define ask_touch(array, number, index) native_touch(array, number, (__u32)(index))
