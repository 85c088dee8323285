/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What packets of tuples look like (lib/abi/wire.h), for the dispatcher: DATA, LONG and FIN with
 * the geometry and operator of their task.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/packet.bpf.h"
#include "lib/abi/map_types.h"
#include "lib/abi/wire.h"

static __always_inline __u32 tuples_check_header(const struct ask_hdr *hdr,
						 const struct ask_task *task)
{
	if (hdr->type != ASK_DATA && hdr->type != ASK_LONG && hdr->type != ASK_FIN)
		return ASK_CNT_bad_type;
	if (hdr->short_slots != task->short_slots || hdr->groups != task->groups ||
	    hdr->m != task->m || hdr->op != task->op || hdr->rows > task->rows)
		return ASK_CNT_bad_geometry;
	return 0;
}

/* Whether the length is exactly what type, rows and geometry ask for. A bitmap for each row; the
 * rows of LONG are there for the check only. */
static __always_inline bool tuples_lay_out(const struct ask_hdr *hdr, const struct ask_task *task,
					   __u32 bytes, struct ask_packet *packet)
{
	const __u32 aas = task->short_slots + (__u32)task->groups * task->m;

	packet->extensions = hdr->rows;
	packet->line_words = aas;
	if (hdr->type == ASK_DATA)
		return hdr->rows > 0 &&
		       bytes == hdr->rows * (sizeof(__be32) + aas * ASK_SLOT_BYTES);
	packet->line_words = ASK_LONG_ROW_WORDS;
	if (hdr->rows)
		return false;
	if (hdr->type == ASK_FIN)
		return bytes == sizeof(struct ask_fin);
	return bytes >= sizeof(struct ask_long_hdr) && bytes % ASK_SLOT_BYTES == 0;
}

/* Whether no bitmap has a bit beyond the geometry's slots. Nothing feeds on such a bit: it
 * would come out cleared, as if a tuple had been aggregated. */
static __always_inline __u32 tuples_check_body(const struct ask_task *task,
					       const struct ask_packet *packet)
{
	return (__u64)packet->bits >> (task->short_slots + task->groups) ? ASK_CNT_bad_geometry : 0;
}
