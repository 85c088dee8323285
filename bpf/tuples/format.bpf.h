/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What packets of tuples look like (lib/abi/wire.h), for the dispatcher: DATA, VAR, LONG and FIN with
 * the geometry and operator of their task. DATA is asked for first, and of the others alone the rest.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/packet.bpf.h"
#include "bpf/tuples/var_format.bpf.h"
#include "lib/abi/map_types.h"
#include "lib/abi/wire.h"

static __always_inline __u32 tuples_check_header(const struct ask_hdr *hdr,
						 const struct ask_task *task)
{
	if (hdr->type != ASK_DATA && hdr->type != ASK_VAR && hdr->type != ASK_LONG &&
	    hdr->type != ASK_FIN)
		return ASK_CNT_bad_type;
	if (hdr->short_slots != task->short_slots || hdr->groups != task->groups ||
	    hdr->m != task->m || hdr->op != task->op ||
	    (hdr->rows > task->rows && hdr->type != ASK_VAR))
		return ASK_CNT_bad_geometry;
	return 0;
}

static __always_inline bool fits_long(const struct ask_hdr *hdr, __u32 bytes)
{
	if (hdr->rows)
		return false;
	if (hdr->type == ASK_FIN)
		return bytes == sizeof(struct ask_fin);
	return bytes >= sizeof(struct ask_long_hdr) && bytes % ASK_SLOT_BYTES == 0;
}

/* Whether the length is exactly what type, rows and geometry ask for. A bitmap for each row; the
 * rows of LONG are there for the check only. */
static __always_inline __u32 tuples_lay_out(struct xdp_md *ctx, const struct ask_hdr *hdr,
					    const struct ask_task *task, __u32 bytes,
					    struct ask_packet *packet)
{
	const __u32 aas = task->short_slots + (__u32)task->groups * task->m;

	packet->extensions = hdr->rows;
	packet->line_words = aas;
	if (hdr->type == ASK_DATA)
		return hdr->rows > 0 && bytes == hdr->rows * (sizeof(__be32) + aas * ASK_SLOT_BYTES)
			       ? 0
			       : ASK_CNT_bad_length;
	if (hdr->type == ASK_VAR)
		return (__u32)ask_lay_out_var(ctx, packet, bytes, hdr->rows);
	packet->line_words = ASK_LONG_ROW_WORDS;
	return fits_long(hdr, bytes) ? 0 : ASK_CNT_bad_length;
}

static __always_inline bool tuples_dedupes(void)
{
	return true;
}

/* Whether no bitmap has a bit beyond the geometry's slots. Nothing feeds on such a bit: it
 * would come out cleared, as if a tuple had been aggregated. Those of VAR have been asked about. */
static __always_inline __u32 tuples_check_body(const struct ask_hdr *hdr,
					       const struct ask_task *task,
					       const struct ask_packet *packet)
{
	if ((__u64)packet->bits >> (task->short_slots + task->groups))
		return hdr->type == ASK_VAR ? 0 : ASK_CNT_bad_geometry;
	return 0;
}
