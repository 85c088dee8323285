/* SPDX-License-Identifier: Apache-2.0 */
/* What feed.bpf.c and feeder.cpp share. */
#pragma once

#define FEED_SLOTS 128u
#define FEED_FRAME_BYTES 2040u

/* A frame on its way in; afterwards what came out of the switch, 0 bytes if that was an ACK. */
struct FeedSlot {
    unsigned int bytes;
    unsigned int pad;
    unsigned char frame[FEED_FRAME_BYTES];
};
