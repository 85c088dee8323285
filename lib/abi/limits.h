/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Limits that commands, daemons and documents share, beside those of packets and maps
 * (lib/abi/consts.h). tests/docs/check_lists compares the documents with them.
 */
#pragma once

/* Bytes of a task's id: A-Z a-z 0-9 _ -, since it also names a directory of pins. */
#define ASK_MAX_TASK_ID 63u
/* That a task may wait for: agents keep an entry and a secret for each. */
#define ASK_MAX_SENDERS 4096u
/* Switches that a task may be open on (--switches own). */
#define ASK_MAX_TASK_SWITCHES 64u
/* Of a task, seconds: from one, in which agents hear of each other several times, to a day. */
#define ASK_MIN_DEADLINE 1u
#define ASK_MAX_DEADLINE 86400u
/* Decimals that --scale keeps: 10^18 is the largest power of ten within int64. */
#define ASK_MAX_SCALE 18u
/* MTU of an interface that native XDP is put on: jumbo frames, of which what is not ASK's comes in fragments. */
#define ASK_MAX_MTU 9216u
/* Columns of a line that may be key or value. */
#define ASK_MAX_COLUMN 65535u
/* Channels of all hosts, flows and tasks that a switch may be configured for. */
#define ASK_MAX_CHANNELS 65536u
#define ASK_MAX_FLOWS (1u << 20)
#define ASK_MAX_TASKS 4096u
/* Switches, by the 16 bits of their number in a mark. */
#define ASK_MAX_SWITCH_ID 65535u
/* Tuples that an agent may hold back to fill packets. */
#define ASK_MAX_HOLD (1u << 20)
/* Bytes of what the senders of a task show (--token-file): long enough not to be guessed. */
#define ASK_MIN_TOKEN 16u
#define ASK_MAX_TOKEN 256u
/* Applications that may be connected to an agent. */
#define ASK_MAX_SESSIONS 4096u
