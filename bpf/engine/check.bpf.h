/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The keyed check over a frame (lib/abi/check.h), whatever its words mean. What verification
 * learns is kept, so that re-sealing reads no line again.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/packet.bpf.h"
#include "bpf/engine/parse.bpf.h"
#include "lib/abi/check.h"

/* Offsets in a frame are bounded by this mask for the verifier; larger than any frame with
 * ASK_MAX_PAYLOAD. */
#define ASK_OFFSET_MASK 0xfffu

/* NH of one 8-byte word. */
static __always_inline __u64 sum_word(const __u32 *key, const __u32 *word)
{
	return ask_check_nh(key[0], key[1], word[0], word[1]);
}

/*
 * N of a line (lib/abi/check.h): `words` 8-byte words at frame offset `offset`, under the flow's
 * key. Words beyond the frame end the sum: the caller has checked the length, so that never
 * happens. Eight at a time share a bounds check. A global function, so that the verifier
 * looks at a line once.
 */
__noinline __u64 ask_sum_words(struct xdp_md *ctx, const struct ask_check_key *keys, __u32 offset,
			       __u32 words)
{
	const void *end = (const void *)(long)ctx->data_end;
	const __u32 *word =
		(const void *)((const char *)(long)ctx->data + (offset & ASK_OFFSET_MASK));
	const __u32 *key;
	__u64 sum = words;
	__u32 w;

	if (!keys)
		return 0;
	key = keys->nh;
#pragma clang loop unroll(disable)
	for (w = 0; w + 8 <= ASK_MAX_LINE_WORDS; w += 8, word += 16, key += 16) {
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
	for (; w < ASK_MAX_LINE_WORDS; w++, word += 2, key += 2) {
		if (w >= words || (const void *)(word + 2) > end)
			break;
		sum += sum_word(key, word);
	}
	return sum;
}

/* Takes the extension words, of which there are `extensions`, into the packet's vector; returns their part of the sum. */
static __always_inline __u64 read_extension(const struct xdp_md *ctx,
					    const struct ask_check_key *key,
					    struct ask_packet *packet)
{
	const __u32 *word = (const __u32 *)((const char *)(long)ctx->data + ASK_BODY_OFFSET);
	const void *end = (const void *)(long)ctx->data_end;
	__u32 bits = 0;
	__u64 sum = 0;
	__u32 i;

#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_MAX_EXTENSION; i++) {
		if (i >= ASK_READ_ONCE(packet->extensions) || (const void *)(word + i + 1) > end)
			break;
		packet->extension[i] = bpf_ntohl(word[i]);
		bits |= word[i];
		sum += key->head[ASK_CHECK_EXTENSION_WORD + i] * word[i];
	}
	packet->bits = bpf_ntohl(bits);
	return sum;
}

/*
 * Sum of all that follows the header: extension words, and a body of `words` words, line by line.
 * Extension words, the sums of the first ASK_KEPT_SUMS lines and that of all stay in the packet's vector. A
 * global function, with registers of its own, as the dispatcher has none left; one, as each
 * call's way back is guarded against speculation.
 */
__noinline __u64 ask_sum_body(struct xdp_md *ctx, const struct ask_check_key *key,
			      struct ask_packet *packet, __u32 words)
{
	__u64 front, total = 0;
	__u32 offset, i;

	if (!key || !packet)
		return 0;
	front = read_extension(ctx, key, packet);
	offset = ASK_BODY_OFFSET + packet->extensions * (__u32)sizeof(__be32);
#pragma clang loop unroll(disable)
	for (i = 0; i < ASK_MAX_CHECK_LINES; i++) {
		const __u32 line_words = ASK_READ_ONCE(packet->line_words);
		const __u32 now = words < line_words ? words : line_words;
		__u64 sum;

		if (!words)
			break;
		sum = ask_check_line(key->line + 2 * i, ask_sum_words(ctx, key, offset, now));
		if (i < ASK_KEPT_SUMS)
			packet->sums[i] = sum;
		total += sum;
		words -= now;
		offset += now * (__u32)sizeof(__u64);
	}
	packet->body = total;
	return front + total;
}

/* Whether the check has a key for each word behind the header, of which there are `bytes`, in the
 * way that a service has laid them out. */
static __always_inline bool has_keys(const struct ask_packet *packet, __u32 bytes)
{
	const __u32 front = packet->extensions * (__u32)sizeof(__be32);

	return packet->extensions <= ASK_MAX_EXTENSION &&
	       packet->line_words <= ASK_MAX_LINE_WORDS && front <= bytes &&
	       (bytes - front) % sizeof(__u64) == 0 &&
	       (bytes - front) / sizeof(__u64) <= packet->line_words * ASK_MAX_CHECK_LINES;
}

/* Sum of ports and header as they stand in the frame. */
static __always_inline __u64 sum_head(const struct ask_frame *frame,
				      const struct ask_check_key *key)
{
	return ask_check_head(key, (const __u32 *)frame->hdr,
			      ask_check_ports(frame->udp->source, frame->udp->dest));
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

/* Whether the keyed check fits ports, header and all that follows it. */
static __always_inline bool is_sealed(struct xdp_md *ctx, const struct ask_frame *frame,
				      const struct ask_check_key *key, struct ask_packet *packet,
				      __u32 bytes)
{
	const __u32 words = (bytes - packet->extensions * (__u32)sizeof(__be32)) /
			    (__u32)sizeof(__u64);
	const __u64 sum = sum_head(frame, key) + ask_sum_body(ctx, key, packet, words);

	return frame->hdr->check == close_check(key, sum);
}
