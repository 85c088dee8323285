/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A third service, for tests of the seam alone: its packets are absorbed until a task's number of them has
 * come, and that one goes to all members of the task's fan. Shared by the program and its test.
 */
#pragma once

#include <linux/types.h>

#include "lib/abi/map_types.h"

#define ECHO_SERVICE 2u
#define ECHO_TYPE 32u
#define ECHO_TASKS 4u

/* The one extension word that a packet has, host order. */
#define ECHO_WORD 0xec40u

/* Map `echo_tasks`, by the task's number. */
struct echo_task {
    __u32 wanted;  /* packets that make one go out */
    __u32 fan;     /* to whom */
    __u32 came;    /* new ones */
    __u32 entered; /* runs of the program */
};

/* Behind the shipped counters: the test makes the map that much longer. */
enum echo_counter {
    ECHO_CNT_absorbed = ASK_CNT_COUNT,
    ECHO_CNT_absorbed_seen,
    ECHO_CNT_fanned_out,
    ECHO_CNT_COUNT,
};
