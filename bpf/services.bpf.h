/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The services of the switch, by number and name: bpf/engine/service.bpf.h says what each has.
 * tests/bpf/echo puts a list with one more in front of this one.
 */
#pragma once

#include "bpf/tuples/back_programs.bpf.h"
#include "bpf/tuples/format.bpf.h"
#include "bpf/tuples/long.bpf.h"
#include "bpf/tuples/program.bpf.h"
#include "bpf/values/format.bpf.h"
#include "bpf/values/program.bpf.h"

#define ASK_SERVICES(service) \
	service(ASK_SERVICE_TUPLES, tuples) service(ASK_SERVICE_VALUES, values)
