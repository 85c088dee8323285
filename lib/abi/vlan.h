/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Ports that are VLANs: interfaces of which the program sees the frames on the port below, with their tag.
 */
#pragma once

#include <linux/types.h>

#include "lib/abi/consts.h"

/* A VLAN on the port that carries it. Key of map `vlan_in`, whose value is the VLAN's own ifindex; value of map
 * `vlan_out`, by that ifindex. */
struct ask_vlan {
	__u32 ifindex; /* the carrying port's */
	__u16 id;      /* 1 to 4094, host order */
	__u16 pad;
};

ASK_STATIC_ASSERT(sizeof(struct ask_vlan) == 8, "ask_vlan has no holes");

/* Map `port_kinds`, one entry: what the program has to ask about ports, since some are so. */
#define ASK_PORTS_ON_BRIDGES 1u /* `bridges` has entries */
#define ASK_PORTS_ON_VLANS 2u	/* `vlan_in` and `vlan_out` have */
