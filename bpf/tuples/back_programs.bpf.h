/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The back level's programs, each where the others look for it (bpf/tuples/maps.bpf.h).
 */
#pragma once

#include "bpf/tuples/back_program.bpf.h"
#include "bpf/tuples/maps.bpf.h"
#include "bpf/tuples/var_program.bpf.h"

struct ask_back_programs back_programs SEC(".maps") = {
	.values = {[ASK_BACK_PROGRAM] = ask_back, [ASK_VAR_PROGRAM] = ask_var},
};
