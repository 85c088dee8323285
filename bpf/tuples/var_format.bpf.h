/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What a VAR packet looks like (lib/abi/var.h), for the dispatcher. Looked at ahead of its check: what is wrong
 * with it says a counter, and what follows may take counts and bitmaps as they are.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/packet.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "lib/abi/map_types.h"
#include "lib/abi/var.h"

/* Behind so many bitmaps; NULL: the frame ends ahead of it. */
static __always_inline const struct ask_var_hdr *find_var(const struct xdp_md *ctx, __u32 rows)
{
	const char *data = (const char *)(long)ctx->data;
	const struct ask_var_hdr *var;

	rows &= ASK_MAX_EXTENSION - 1;
	ask_opaque(rows);
	rows &= ASK_MAX_EXTENSION - 1;
	var = (const void *)(data + ASK_BODY_OFFSET + rows * sizeof(__be32));
	return (const char *)(var + 1) <= (const char *)(long)ctx->data_end ? var : NULL;
}

/* Whether no bitmap has a bit beyond the records: it would come out cleared, as if there had been one. */
static __always_inline bool fit_records(const struct xdp_md *ctx, __u32 rows, __u32 records)
{
	const __be32 *bitmap = (const void *)((const char *)(long)ctx->data + ASK_BODY_OFFSET);
	const void *end = (const void *)(long)ctx->data_end;
	__u32 beyond = 0, r;

#pragma clang loop unroll(disable)
	for (r = 0; r < ASK_VAR_MAX_ROWS; r++) {
		if (r >= rows || (const void *)(bitmap + r + 1) > end)
			break;
		beyond |= bpf_ntohl(bitmap[r]) & ~ask_var_full_row(records, r);
	}
	return !beyond;
}

/*
 * What is wrong with the `bytes` behind a packet's header, of which all are in the frame: a counter, or 0.
 * A global function, so that the dispatcher has it for a call that only VAR makes.
 */
__noinline int ask_lay_out_var(struct xdp_md *ctx, struct ask_packet *packet, __u32 bytes,
			       __u32 rows)
{
	const struct ask_var_hdr *var;
	__u32 front, records;

	if (!packet)
		return ASK_CNT_abort_state;
	if (!rows || rows > ASK_VAR_MAX_ROWS)
		return ASK_CNT_bad_geometry;
	packet->extensions = rows;
	packet->line_words = ASK_LONG_ROW_WORDS;
	front = rows * (__u32)sizeof(__be32);
	var = find_var(ctx, rows);
	if (!var || bytes < front || bytes - front != ask_var_body_bytes(var))
		return ASK_CNT_bad_length;
	records = ask_var_records(var);
	if (!records || records > ASK_VAR_MAX_RECORDS || rows != ask_var_rows(records) ||
	    var->reserved[0] | var->reserved[1] | var->reserved[2] | var->reserved[3] ||
	    !fit_records(ctx, rows, records))
		return ASK_CNT_bad_records;
	return 0;
}
