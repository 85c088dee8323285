/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What packets of values look like (lib/abi/values.h), for the dispatcher: VALUE and HAVE, of a member's
 * channel. RESULT comes of no channel, and NEED and HELD go where ACKs go.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/engine/packet.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "lib/abi/map_types.h"
#include "lib/abi/values.h"

/* Where the payload begins in a frame. */
#define ASK_VALUES_BODY_OFFSET (ASK_HDR_OFFSET + ASK_VALUES_FRONT)

/* Whether blocks, stream, level, operator and flags are ones that such a packet may have. */
static __always_inline bool is_values_header(const struct ask_hdr *hdr, __u8 flags, __u8 level)
{
	return hdr->rows == ASK_VALUES_EXTENSION &&
	       ask_values_blocks(hdr) <= ASK_VALUES_MAX_BLOCKS &&
	       ask_values_stream(hdr) < ASK_VALUES_STREAMS && hdr->op < ASK_VALUES_OPS &&
	       !(hdr->flags & ~flags) && ask_values_level(hdr) <= level;
}

static __always_inline bool fits_blocks(const struct ask_hdr *hdr, __u32 bytes)
{
	return bytes ==
	       sizeof(struct ask_values_ext) + ask_values_blocks(hdr) * ASK_VALUES_BLOCK_BYTES;
}

/* How the check goes over it. */
static __always_inline void lay_out_values(struct ask_packet *packet)
{
	packet->extensions = ASK_VALUES_EXTENSION;
	packet->line_words = ASK_VALUES_LINE_WORDS;
}

static __always_inline __u32 values_check_header(const struct ask_hdr *hdr,
						 const struct ask_task *task)
{
	const __u8 level = hdr->type == ASK_VALUE ? ASK_LEVEL_PARTIAL : ASK_LEVEL_MEMBER;

	(void)task;
	if (hdr->type != ASK_VALUE && hdr->type != ASK_HAVE)
		return ASK_CNT_bad_type;
	return is_values_header(hdr, ASK_F_OF_VALUE, level) ? 0 : ASK_CNT_bad_values;
}

static __always_inline __u32 values_lay_out(struct xdp_md *ctx, const struct ask_hdr *hdr,
					    const struct ask_task *task, __u32 bytes,
					    struct ask_packet *packet)
{
	(void)ctx;
	(void)task;
	lay_out_values(packet);
	return fits_blocks(hdr, bytes) ? 0 : ASK_CNT_bad_length;
}

/* Which set a packet may have hangs on its flow and group: its program asks. */
static __always_inline __u32 values_check_body(const struct ask_hdr *hdr,
					       const struct ask_task *task,
					       const struct ask_packet *packet)
{
	(void)hdr;
	(void)task;
	(void)packet;
	return 0;
}

/* What is new is told by the sets in the slots. */
static __always_inline bool values_dedupes(void)
{
	return false;
}

static __always_inline bool values_passes(const struct ask_hdr *hdr)
{
	(void)hdr;
	return false;
}

static __always_inline int values_pass(struct xdp_md *ctx, const struct ask_hdr *hdr)
{
	(void)ctx;
	(void)hdr;
	return leave_abort(ASK_CNT_abort_state);
}
