/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The keyed check of a packet, per channel and task instance: a universal hash
 * of ports, header, extension words and body, closed by SipHash-2-4. A service says
 * how many extension words there are, of 32 bits, and into lines of how many 8-byte
 * words the body falls; the last may be shorter. A row of DATA is a line, its bitmap
 * an extension word.
 *
 *   N(r)   = words of line r + NH(nh, line r)                       mod 2^64
 *   body   = sum over lines r of line[2r] * low half of N(r)
 *                              + line[2r+1] * high half of N(r)     mod 2^64
 *   head   = sum over 32-bit words i of head[i] * word i            mod 2^64
 *   check  = SipHash-2-4(sip, head + body)
 *
 * NH is (a + k) * (b + k') summed over the line's 8-byte words (a, b), the
 * additions mod 2^32 (Black et al., UMAC, section 4); head and body are multilinear
 * hashes of 32-bit words, with a key of 64 bits for each. Because the body is a plain sum of lines,
 * a switch that changes extension words or cuts trailing lines re-seals without reading the
 * other lines again. Two different packets of one flow pass as each other with probability
 * at most 2^-32 + 2^-33 per attempt; docs/protocol.md derives it. The sum is never seen outside
 * SipHash.
 *
 * Words are read little-endian. All functions are shared by BPF and user space;
 * loops over packet bytes are not here, since BPF bounds them its own way.
 */
#pragma once
#ifdef __cplusplus
#pragma GCC system_header /* C, which C++ warnings do not understand */
#endif

#include <linux/types.h>

#include "lib/abi/consts.h"

#define ASK_CHECK_HEAD_WORDS 10u /* 40 bytes of ask_hdr before the check */
#define ASK_CHECK_PORTS_WORD 10u
#define ASK_CHECK_EXTENSION_WORD 11u

#if defined(__bpf__) || defined(ASK_NATIVE_BPF)
#define ASK_ABI_INLINE static __attribute__((always_inline)) inline
#else
#define ASK_ABI_INLINE static inline
#endif

/* Expanded from a 128-bit secret by ask_check_expand(). */
struct ask_check_key {
	__u64 sip[2];
	__u64 head[20];			     /* 10 header words, ports, 8 extension words */
	__u64 line[2 * ASK_MAX_CHECK_LINES]; /* pairs, one per line */
	__u32 nh[2 * ASK_MAX_LINE_WORDS];    /* pairs, one per 8-byte word of a line */
};

#define ASK_ROTL64(x, b) (((x) << (b)) | ((x) >> (64 - (b))))

#define ASK_SIPROUND(v0, v1, v2, v3)     \
	do {                             \
		v0 += v1;                \
		v1 = ASK_ROTL64(v1, 13); \
		v1 ^= v0;                \
		v0 = ASK_ROTL64(v0, 32); \
		v2 += v3;                \
		v3 = ASK_ROTL64(v3, 16); \
		v3 ^= v2;                \
		v0 += v3;                \
		v3 = ASK_ROTL64(v3, 21); \
		v3 ^= v0;                \
		v2 += v1;                \
		v1 = ASK_ROTL64(v1, 17); \
		v1 ^= v2;                \
		v2 = ASK_ROTL64(v2, 32); \
	} while (0)

/* SipHash-2-4 of one 64-bit word. */
ASK_ABI_INLINE __u64 ask_siphash_u64(__u64 k0, __u64 k1, __u64 word)
{
	__u64 v0 = k0 ^ 0x736f6d6570736575ull;
	__u64 v1 = k1 ^ 0x646f72616e646f6dull;
	__u64 v2 = k0 ^ 0x6c7967656e657261ull;
	__u64 v3 = k1 ^ 0x7465646279746573ull;
	const __u64 last = 8ull << 56;

	v3 ^= word;
	ASK_SIPROUND(v0, v1, v2, v3);
	ASK_SIPROUND(v0, v1, v2, v3);
	v0 ^= word;
	v3 ^= last;
	ASK_SIPROUND(v0, v1, v2, v3);
	ASK_SIPROUND(v0, v1, v2, v3);
	v0 ^= last;
	v2 ^= 0xff;
	ASK_SIPROUND(v0, v1, v2, v3);
	ASK_SIPROUND(v0, v1, v2, v3);
	ASK_SIPROUND(v0, v1, v2, v3);
	ASK_SIPROUND(v0, v1, v2, v3);
	return v0 ^ v1 ^ v2 ^ v3;
}

/* One 8-byte word of a line: `a` its first 4 bytes, `b` its last 4. */
ASK_ABI_INLINE __u64 ask_check_nh(__u32 k0, __u32 k1, __u32 a, __u32 b)
{
	return (__u64)(__u32)(a + k0) * (__u64)(__u32)(b + k1);
}

/* A line's part of the sum: `n` is the number of its words plus NH of each. The halves of `n` have keys of
 * their own: of one key times `n`, a difference in high bits alone would leave nothing but high bits. */
ASK_ABI_INLINE __u64 ask_check_line(const __u64 *key, __u64 n)
{
	return key[0] * (__u32)n + key[1] * (n >> 32);
}

/* The word that holds both UDP ports as they stand in the packet. */
ASK_ABI_INLINE __u32 ask_check_ports(__u16 source_be, __u16 dest_be)
{
	return (__u32)source_be | ((__u32)dest_be << 16);
}

/*
 * Sum over ports and the first 40 bytes of the header (`words`). Extension words are
 * added by the caller: key->head[ASK_CHECK_EXTENSION_WORD + i] * word[i], with
 * word[i] as it stands in the packet (network order).
 */
ASK_ABI_INLINE __u64 ask_check_head(const struct ask_check_key *key, const __u32 *words,
				    __u32 ports)
{
	__u64 sum = key->head[ASK_CHECK_PORTS_WORD] * ports;

	sum += key->head[0] * words[0];
	sum += key->head[1] * words[1];
	sum += key->head[2] * words[2];
	sum += key->head[3] * words[3];
	sum += key->head[4] * words[4];
	sum += key->head[5] * words[5];
	sum += key->head[6] * words[6];
	sum += key->head[7] * words[7];
	sum += key->head[8] * words[8];
	sum += key->head[9] * words[9];
	return sum;
}

ASK_ABI_INLINE __u64 ask_check_close(const struct ask_check_key *key, __u64 sum)
{
	return ask_siphash_u64(key->sip[0], key->sip[1], sum);
}

#if !defined(__bpf__)
/* Expands a 128-bit secret into all keys of the check (user space only). */
static inline void ask_check_expand(const __u64 secret[2], struct ask_check_key *key)
{
	__u64 counter = 0;

	key->sip[0] = ask_siphash_u64(secret[0], secret[1], counter++);
	key->sip[1] = ask_siphash_u64(secret[0], secret[1], counter++);
	for (__u32 i = 0; i < 20; i++)
		key->head[i] = ask_siphash_u64(secret[0], secret[1], counter++);
	for (__u32 i = 0; i < 2 * ASK_MAX_CHECK_LINES; i++)
		key->line[i] = ask_siphash_u64(secret[0], secret[1], counter++);
	for (__u32 i = 0; i < ASK_MAX_LINE_WORDS; i++) {
		const __u64 pair = ask_siphash_u64(secret[0], secret[1], counter++);

		key->nh[2 * i] = (__u32)pair;
		key->nh[2 * i + 1] = (__u32)(pair >> 32);
	}
}
#endif
