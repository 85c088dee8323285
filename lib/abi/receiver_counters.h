/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The receiving end's list, beside that of the programs (lib/abi/counters.def): their names are what is read
 * outside, and say what tuples make of what the engine counts.
 */
#pragma once

/* Every way a packet can go at the receiver: exactly one each. (name, class, text) */
#define ASK_RECEIVER_COUNTERS(X)                                                 \
	X(accepted_data, traffic, "DATA, first time: aggregated, acknowledged")  \
	X(accepted_long, traffic, "LONG, first time: aggregated, acknowledged")  \
	X(accepted_var, traffic, "VAR, first time: aggregated, acknowledged")    \
	X(accepted_fin, traffic, "FIN, first time: acknowledged")                \
	X(duplicate, traffic, "seen before: acknowledged again")                 \
	X(ended, traffic, "of a task that has ended: acknowledged again")        \
	X(stale, drop, "older than the channel's window")                        \
	X(malformed, drop, "no well-formed ASK packet")                          \
	X(unknown_flow, drop, "channel, incarnation or task not joined here")    \
	X(bad_check, drop, "keyed check does not fit")                           \
	X(bad_ports, drop, "UDP ports are not the channel's")                    \
	X(bad_mark, drop, "marked by another switch than joined: went round it") \
	X(other_switch, drop, "marked by another switch of the task")            \
	X(bad_geometry, drop, "geometry or operator differ from the task's")     \
	X(bad_type, drop, "VAR, which the flow has not agreed to")               \
	X(bad_seq, drop, "outside the task's interval of seqs")                  \
	X(bad_record, drop, "a record or a slot that no sender writes")          \
	X(table_full, drop, "the task's table cannot grow: not acknowledged")
