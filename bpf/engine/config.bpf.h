/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What the loader chooses before load. The verifier takes these as constants, so
 * the way not chosen costs nothing.
 */
#pragma once

#include <linux/types.h>

#include "lib/abi/consts.h"

/* enum ask_dedupe: how new, seen and stale are told apart. */
const volatile __u32 ask_dedupe = ASK_DEDUPE_TAGGED;
/* The mark that this switch writes into what it forwards. */
const volatile __u32 ask_switch_id = 1;
const volatile __u32 ask_mark_incarnation = 1;
