/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Hosts with IPv6. Inside, a host is 32 bits: its IPv4 address, or the number that follows from its IPv6 address
 * (lib/net/host_book.h). Numbers are in 240.0.0.0/4, where no host has an address.
 */
#pragma once

#include <linux/types.h>

#include "lib/abi/consts.h"

#define ASK_HOST_NUMBERS 0xf0000000u /* the bits that all numbers have, host order */

/* Key of map `hosts`, whose value is the host's number, network order. */
struct ask_ipv6 {
	__be32 word[4];
};

ASK_STATIC_ASSERT(sizeof(struct ask_ipv6) == 16, "ask_ipv6 is an address");

/* An IPv6 header, without extensions. */
struct ask_six_header {
	__be32 front; /* version, class, flow label */
	__be16 payload;
	__u8 protocol;
	__u8 hops;
	struct ask_ipv6 source;
	struct ask_ipv6 dest;
};

ASK_STATIC_ASSERT(sizeof(struct ask_six_header) == 40, "ask_six_header has no holes");

/* Map `six_at_hand`: what a program run keeps of a packet that came with IPv6, while that is in the one form. */
struct ask_six {
	struct ask_six_header header; /* as it came */
	__be32 number;		      /* its source's */
	__u32 forward;		      /* it is to be sent on, counted as this; 0: not so */
	__u32 at_hand;		      /* whether there is such a packet */
};

ASK_STATIC_ASSERT(sizeof(struct ask_six) == 52, "ask_six has no holes");
