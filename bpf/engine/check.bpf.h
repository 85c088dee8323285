/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The keyed check over a frame (lib/abi/check.h). What verification learns is kept,
 * so that re-sealing after aggregation reads no row again.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/maps.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "lib/abi/check.h"

/* Offsets of rows are bounded by this mask for the verifier; larger than any frame
 * that native XDP without fragments delivers. */
#define ASK_OFFSET_MASK 0xfffu

/* NH of one 8-byte word. */
static __always_inline __u64 sum_word(const __u32 *key, const __u32 *word)
{
	return ask_check_nh(key[0], key[1], word[0], word[1]);
}

/*
 * NH over `words` 8-byte words at frame offset `offset`, under the flow's key. Words
 * beyond the frame end the sum: the caller has checked the length, so that never
 * happens. Eight at a time share a bounds check. A global function, so that the verifier
 * looks at a row once.
 */
__noinline __u64 ask_sum_words(struct xdp_md *ctx, const struct ask_check_key *keys, __u32 offset,
			       __u32 words)
{
	const void *end = (const void *)(long)ctx->data_end;
	const __u32 *word =
		(const void *)((const char *)(long)ctx->data + (offset & ASK_OFFSET_MASK));
	const __u32 *key;
	__u64 sum = 0;
	__u32 w;

	if (!keys)
		return 0;
	key = keys->nh;
#pragma clang loop unroll(disable)
	for (w = 0; w + 8 <= ASK_MAX_AAS; w += 8, word += 16, key += 16) {
		__u32 j;

		if (w + 8 > words || (const void *)(word + 16) > end)
			break;
#pragma unroll
		for (j = 0; j < 16; j += 2) {
			sum += sum_word(key + j, word + j);
			/* One after the other, or clang keeps all products on the stack. */
			ask_opaque(sum);
		}
	}
#pragma clang loop unroll(disable)
	for (; w < ASK_MAX_AAS; w++, word += 2, key += 2) {
		if (w >= words || (const void *)(word + 2) > end)
			break;
		sum += sum_word(key, word);
	}
	return sum;
}

/* Frame offset of a row of the packet. */
static __always_inline __u32 row_offset(const struct ask_phv *phv, __u32 r)
{
	return ASK_BITMAP_OFFSET + ASK_ROWS(phv) * (__u32)sizeof(__be32) +
	       r * ASK_AAS(phv) * ASK_SLOT_BYTES;
}

/* Sums of all rows, kept in `phv`; returns their total. */
static __always_inline __u64 sum_rows(struct xdp_md *ctx, const struct ask_check_key *key,
				      struct ask_phv *phv)
{
	__u32 offset = row_offset(phv, 0);
	__u64 total = 0;
	__u32 r;

#pragma clang loop unroll(disable)
	for (r = 0; r < ASK_MAX_ROWS; r++) {
		if (r >= ASK_ROWS(phv))
			break;
		phv->sums[r] = key->row[r] * ask_sum_words(ctx, key, offset, ASK_AAS(phv));
		total += phv->sums[r];
		offset += ASK_AAS(phv) * ASK_SLOT_BYTES;
	}
	return total;
}

/* Sum of a LONG packet's payload, in rows of ASK_LONG_ROW_WORDS words. */
static __always_inline __u64 sum_long(struct xdp_md *ctx, const struct ask_check_key *key,
				      __u32 words)
{
	__u64 total = 0;
	__u32 r;

#pragma clang loop unroll(disable)
	for (r = 0; r < ASK_MAX_CHECK_ROWS; r++) {
		const __u32 done = r * ASK_LONG_ROW_WORDS;
		const __u32 left = words - done;

		if (words <= done)
			break;
		total += key->row[r] *
			 ask_sum_words(ctx, key, ASK_BITMAP_OFFSET + done * ASK_SLOT_BYTES,
				       left < ASK_LONG_ROW_WORDS ? left : ASK_LONG_ROW_WORDS);
	}
	return total;
}

/* Sum of ports and header as they stand in the frame. */
static __always_inline __u64 sum_head(const struct ask_frame *frame,
				      const struct ask_check_key *key)
{
	return ask_check_head(key, (const __u32 *)frame->hdr,
			      ask_check_ports(frame->udp->source, frame->udp->dest));
}

static __always_inline struct ask_phv *find_phv(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&packet_vector, &zero);
}

/* Takes the bitmaps of a packet's rows into its vector; returns their part of the sum. */
__noinline __u64 ask_read_bitmaps(struct xdp_md *ctx, const struct ask_check_key *key,
				  struct ask_phv *phv)
{
	const __u32 *bitmap = (const __u32 *)((const char *)(long)ctx->data + ASK_BITMAP_OFFSET);
	const void *end = (const void *)(long)ctx->data_end;
	__u32 bits = 0;
	__u64 sum = 0;
	__u32 r;

	if (!key || !phv)
		return 0;
#pragma clang loop unroll(disable)
	for (r = 0; r < ASK_MAX_ROWS; r++) {
		if (r >= ASK_ROWS(phv) || (const void *)(bitmap + r + 1) > end)
			break;
		phv->left[r] = bpf_ntohl(bitmap[r]);
		bits |= bitmap[r];
		sum += key->head[ASK_CHECK_BITMAP_WORD + r] * bitmap[r];
	}
	phv->bits = bpf_ntohl(bits);
	return sum;
}

/* Writes what is left back into the packet; returns the part of the sum that bitmaps and
 * the rows still present have. */
__noinline __u64 ask_write_bitmaps(struct xdp_md *ctx, const struct ask_check_key *key,
				   const struct ask_phv *phv)
{
	__u32 *bitmap = (__u32 *)((char *)(long)ctx->data + ASK_BITMAP_OFFSET);
	const void *end = (const void *)(long)ctx->data_end;
	__u64 sum = 0;
	__u32 r;

	if (!key || !phv)
		return 0;
#pragma clang loop unroll(disable)
	for (r = 0; r < ASK_MAX_ROWS; r++) {
		if (r >= ASK_ROWS(phv) || (const void *)(bitmap + r + 1) > end)
			break;
		bitmap[r] = bpf_htonl(phv->left[r]);
		sum += key->head[ASK_CHECK_BITMAP_WORD + r] * bitmap[r];
		if (r < ASK_PRESENT(phv))
			sum += phv->sums[r];
	}
	return sum;
}

/* The check of a sum. A global function: verified once, and a third of the code. */
__noinline __u64 ask_close_check(__u64 sip0, __u64 sip1, __u64 sum)
{
	return ask_siphash_u64(sip0, sip1, sum);
}

static __always_inline __be64 close_check(const struct ask_check_key *key, __u64 sum)
{
	return bpf_cpu_to_be64(ask_close_check(key->sip[0], key->sip[1], sum));
}
