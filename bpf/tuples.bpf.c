/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The tuples' program alone. The loader makes one of it for each size of region, on the
 * dispatcher's maps but for `regions`.
 */
#include "bpf/tuples/program.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";
