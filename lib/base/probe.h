// SPDX-License-Identifier: Apache-2.0
//
// Places that a tracer can watch in a daemon that runs (USDT: bpftrace, perf, SystemTap). Where nobody
// watches, one is a nop: its arguments are integers, and C strings that are at hand anyway.
// docs/operations.md lists all of them, and a test holds the programs to it.
//
//     ASK_PROBE(task_closed, id.c_str(), instance);
#pragma once

#ifndef ASK_NO_USDT

#define SDT_USE_VARIADIC
#include <sys/sdt.h>

#define ASK_PROBE(...) STAP_PROBEV(ask, __VA_ARGS__)

#else

#define ASK_PROBE(...) static_cast<void>(0)

#endif
