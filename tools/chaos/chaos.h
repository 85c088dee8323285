/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fault injector's program, its daemon and ask-chaos share: rules in, counters out, frames held.
 *
 * A port is one direction of one link: 2 * (link - 1) + direction.
 */
#pragma once

/* Directions. */
#define CHAOS_UP 0u   /* from the host to the switch */
#define CHAOS_DOWN 1u /* from the switch to the host */

/* Faults are drawn by comparing 32 random bits with a limit: this one is always above them. */
#define CHAOS_ALWAYS (1ull << 32)

/* Longest frame that can be held back: MTU 3506 and an Ethernet header, the most that native XDP takes. */
#define CHAOS_FRAME_BYTES 3520u
/* Room for a frame in the ring, powers of two: most are of an ordinary MTU, some longer. */
#define CHAOS_SMALL_BYTES 2048u
#define CHAOS_LARGE_BYTES 4096u

/* A time between two bounds, both included: nanoseconds. */
struct ChaosSpan {
    unsigned long long from;
    unsigned long long width;
};

/* What is done to one port's packets. Limits are of 32 bits: CHAOS_ALWAYS hits every packet. */
struct ChaosRule {
    unsigned long long seed;
    unsigned long long packets; /* numbered since the rule was set: counted by the program */
    unsigned long long loss;
    unsigned long long duplicate;
    unsigned long long corrupt;
    unsigned long long reorder;
    struct ChaosSpan late;   /* how long after its original a duplicate comes */
    struct ChaosSpan behind; /* for how long a reordered packet is held */
    struct ChaosSpan delay;  /* for how long every packet is held */
    unsigned int all_traffic;
    unsigned int reserved;
};

/* What was done, per CPU. */
struct ChaosDone {
    unsigned long long spared;     /* not ASK's data, left alone */
    unsigned long long packets;    /* that faults were drawn for */
    unsigned long long lost;       /* dropped on purpose */
    unsigned long long duplicated; /* copies made */
    unsigned long long corrupted;  /* one bit flipped */
    unsigned long long reordered;  /* held back while others pass */
    unsigned long long delayed;    /* held as every packet is */
    unsigned long long hold_full;  /* no room to hold it: lost, or not copied */
    unsigned long long queue_full; /* no room in the queue in front of a link of a rate: lost */
    unsigned long long marked;     /* that queue was long: marked as the network's congestion */
};

/* A link's rate is a time: of so many bytes, in nanoseconds. */
#define CHAOS_RATE_BYTES 1024u

/* What entered a port's link: by ASK's type (enum ask_type and enum ask_values_type), [0] all else. */
#define CHAOS_TYPES 21u

struct ChaosAmount {
    unsigned long long packets;
    unsigned long long bytes; /* of frames, Ethernet header included */
};

/* Per CPU. Retransmissions count again, but in `first_fins`: FINs that this port had not seen before. */
struct ChaosCarried {
    struct ChaosAmount types[CHAOS_TYPES];
    unsigned long long first_fins;
};

/* A FIN, wherever it goes and however often: its channel's, of one task. */
struct ChaosFin {
    unsigned long long task;
    unsigned long long seq;
    unsigned int host;
    unsigned int incarnation;
    unsigned int udp_port;
    unsigned int port; /* of the injector */
};

/* What became of held frames: the daemon writes it. */
struct ChaosHeld {
    unsigned long long waiting;  /* now */
    unsigned long long released; /* sent on when their time had come */
    unsigned long long refused;  /* too many at once: dropped */
    unsigned long long failed;   /* the interface did not take it: dropped */
};

/* A record of the ring: a frame that is to go on later, its bytes behind this. */
struct ChaosFrame {
    unsigned long long due; /* CLOCK_MONOTONIC, nanoseconds */
    unsigned int port;
    unsigned int bytes;
};
