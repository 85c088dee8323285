// SPDX-License-Identifier: Apache-2.0
/*
 * Passes everything. A veth takes what XDP sends it only while it has a program itself: this one is for the
 * ports of a bridge between a switch and a host.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

SEC("xdp")
int ask_pass(struct xdp_md* ctx) {
    (void)ctx;
    return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
