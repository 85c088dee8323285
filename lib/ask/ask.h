/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask.h: collectives and key-value tasks through the network, in C.
 *
 * Groups. The members of a group, one process each on hosts that run ask-agentd, reduce vectors together:
 * every member passes a vector of the same length, and every member gets the element-wise sum (or minimum,
 * ...) of all, the same bits everywhere. Switches on the way add what passes them; without them, or when one
 * dies, the answer is the same. docs/values.md is the long form.
 *
 *     ask_group_options options = ASK_GROUP_OPTIONS_INIT;
 *     options.group = "train";
 *     options.rank = 0;
 *     options.size = 4;
 *     options.root = "h1";
 *     ask_group* group;
 *     if (ask_group_open(&options, &group) != ASK_OK)
 *         errx(1, "%s", ask_error());
 *     ask_allreduce(group, gradients, gradients, count, ASK_FLOAT32, ASK_SUM);
 *     ask_group_close(group);
 *
 * Members must begin the same operations in the same order, with the same count, type, operator and root: who
 * does not fails the group at all of them, by name.
 *
 * Tasks. Senders stream tuples, a key of bytes and an int64_t each, to a receiver, which gets every key once,
 * with the sum (or count, minimum, maximum, mean) of its values: what ask-send and ask-recv do, and beside
 * them, for a task's senders may be of either kind, as may its receiver. docs/tuples.md is the long form.
 *
 *     ask_receiver_options options = ASK_RECEIVER_OPTIONS_INIT;    ask_sender_options options = ...INIT;
 *     options.task = "words";                                      options.task = "words";
 *     options.senders = 3;                                         options.to = "h4";
 *     ask_result* result;
 *     if (ask_receive(&options, &result) != ASK_OK)                if (ask_send(&options, &columns, NULL))
 *         errx(1, "%s", ask_error());                                  errx(1, "%s", ask_error());
 *
 * A result is whole, with each tuple exactly once, or an error at everybody.
 *
 * Errors. Functions that can fail return an ask_code; ask_error() is the text of the calling thread's last
 * one. An operation that fails for what the caller passed (ASK_E_USAGE, ASK_E_LIMIT, ASK_E_UNSUPPORTED) has
 * not begun, and the group goes on. Whatever else an operation fails with, it fails the group: what it waits
 * for and every later operation fails with the same code, which ask_group_error() keeps. So it is with a
 * sender: tuples that are refused (ASK_E_USAGE, ASK_E_INPUT, ASK_E_LIMIT) have not been sent, not one of
 * their columns, and it goes on; whatever else a call fails with, so does every later one. No call prints
 * anything, ends the process or raises a signal.
 *
 * Buffers. `in` may equal `out`; they must not overlap otherwise. From the beginning of an operation until
 * its end `in` must not change and `out` must not be used. `out` is written once the whole operation has
 * succeeded, else not at all. What lies in memory of ask_alloc() is read and written in place, the latter as
 * results come: of an operation that fails a part may be there. All else is copied, out of `in` and into
 * `out`; so is what a reduction has for both, since the input is read until the end.
 *
 * Threads. A group and its requests, a sender and a receiver belong to one thread at a time, which may change
 * between calls. A second thread that calls meanwhile gets ASK_E_USAGE and nothing happens; it is not made to
 * wait. They do not know each other: any number of threads may have some of their own. ask_group_error(),
 * functions of an ask_result, which nobody changes, and functions without any of these may be called from any
 * thread at any time.
 *
 * Forks. A group, sender or receiver belongs to the process that opened it. In a child every call with it
 * fails with ASK_E_USAGE, but for ask_..._close(), which tells nobody anything. Memory of ask_alloc() is not
 * mapped in the child. The child holds nothing of them open: the parent's end is seen at once whatever its
 * children do. An ask_result is memory like other memory.
 *
 * Signals. A wait goes on when a signal handler returns. To end waits give a descriptor: see
 * ask_group_options.cancel_fd.
 */
#ifndef ASK_ASK_H
#define ASK_ASK_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ASK_API __attribute__((visibility("default")))
#else
#define ASK_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using): C has nothing else. */

/* Version of this header: major << 16 | minor << 8 | patch. Programs of one major version run with every
 * library of it that is as new or newer. */
#define ASK_API_VERSION ((0u << 16) | (1u << 8) | 0u)
/* Of the library. */
ASK_API uint32_t ask_version(void);

/* Numbers are the exit codes of the commands (docs/commands.md). */
typedef enum ask_code {
    ASK_OK = 0,
    ASK_E_INTERNAL = 1,    /* a bug, or a system call that should not fail */
    ASK_E_USAGE = 2,       /* an argument, or a call that is not allowed now */
    ASK_E_INPUT = 3,       /* what came from elsewhere is malformed */
    ASK_E_UNKNOWN = 4,     /* no such host or group */
    ASK_E_EXISTS = 5,      /* the rank is taken */
    ASK_E_UNAVAILABLE = 6, /* the agent cannot be reached, or went away */
    ASK_E_DENIED = 7,      /* permission missing */
    ASK_E_UNSUPPORTED = 8, /* this type, operator or host cannot */
    ASK_E_LIMIT = 9,       /* a budget is used up, a size too large */
    ASK_E_DEADLINE = 10,   /* something did not happen in time; the text says who did not come */
    ASK_E_ABORTED = 11,    /* cancelled, or a member has died; the text names it */
    ASK_E_OVERFLOW = 12,   /* a result cannot be represented */
    /* Of tasks alone. */
    ASK_E_SWITCH_LOST = 13, /* a switch lost what it had added up, and not everybody can send again */
    ASK_E_NOT_TAKEN = 14,   /* the result was there, and the receiver did not confirm it */
    ASK_E_RUN_AGAIN = 15    /* a switch did, and the task begins again: open it again, send all again */
} ask_code;

/* Text of the calling thread's last call that failed, "" before any has. Valid until its next call that
 * fails. */
ASK_API const char* ask_error(void);
/* "usage", "deadline", ...; "unknown code" for what is none. */
ASK_API const char* ask_code_name(int code);

/* Elements of vectors, in this host's byte order. */
typedef enum ask_dtype {
    ASK_INT32 = 1,   /* sums are exact modulo 2^32 */
    ASK_INT64 = 2,   /* modulo 2^64 */
    ASK_FLOAT32 = 3, /* sums: docs/values.md has the error's bound; the same bits at all members */
    ASK_FLOAT64 = 4,
    ASK_BFLOAT16 = 5, /* the upper half of a float32 */
    ASK_FLOAT16 = 6,  /* IEEE's binary16 */
    ASK_INT8 = 7,     /* sums are exact modulo 2^8 */
    ASK_UINT8 = 8,
    ASK_INT16 = 9, /* modulo 2^16 */
    ASK_UINT16 = 10,
    ASK_UINT32 = 11,
    ASK_UINT64 = 12
} ask_dtype;
/* Bytes of an element; 0 for what is none. */
ASK_API size_t ask_dtype_size(int dtype);

typedef enum ask_op {
    ASK_SUM = 1,
    ASK_PROD = 2,
    ASK_MIN = 3,
    ASK_MAX = 4,
    ASK_BAND = 5, /* bits: integers only */
    ASK_BOR = 6,
    ASK_BXOR = 7,
    /* Sums of float32, bfloat16 and float16 in so many bits a value on the way, of which ASK_SUM takes 64 for
     * float32: half the bytes or a quarter, and an error that hangs on the largest value near by
     * (docs/values.md). ASK_SUM_16 is for up to 16 members. */
    ASK_SUM_32 = 8,
    ASK_SUM_16 = 9,
    /* Of tuples, which else have SUM, MIN and MAX: each is 1, whatever its value. */
    ASK_COUNT = 10,
    /* Of tuples: the sum of each key's values and their number, which is ask_result_counts(), so that the
     * mean is their quotient. Senders hand in what they ever do. */
    ASK_MEAN = 11
} ask_op;

typedef struct ask_group ask_group;
typedef struct ask_request ask_request;

/* Most members of a group. */
#define ASK_GROUP_MAX_SIZE 64u
#define ASK_DEFAULT_DEADLINE_MS 30000u

/* Initialise with ASK_GROUP_OPTIONS_INIT: later versions append fields, and tell by struct_size which there
 * are. */
typedef struct ask_group_options {
    size_t struct_size;
    const char* group;    /* name, the same at all members: 1 to 63 of A-Z a-z 0-9 _ - */
    const char* root;     /* host whose agent collects, as this host's agent knows it (name, or address): it
                             coordinates */
    uint32_t rank;        /* of this member: 0 to size - 1, each once */
    uint32_t size;        /* members: 1 to ASK_GROUP_MAX_SIZE */
    uint32_t deadline_ms; /* for all to join, and for an operation to move on; 0: ASK_DEFAULT_DEADLINE_MS */
    int cancel_fd; /* readable: every wait of the group fails with ASK_E_ABORTED; -1: none. Only looked at,
                      never read or closed */
    const char* agent;    /* its socket; NULL: the environment's ASK_AGENT, else /run/ask/agent.sock */
    const char* token;    /* that all members show each other, where root's agent wants one; NULL: none */
    uint64_t arena_bytes; /* shared with the agent: ask_alloc() and copies come out of it; 0: 64 MiB */
} ask_group_options;

#define ASK_GROUP_OPTIONS_INIT {sizeof(ask_group_options), NULL, NULL, 0, 0, 0, -1, NULL, NULL, 0}

/* Joins, and returns once all members have. *group is set only by ASK_OK. */
ASK_API int ask_group_open(const ask_group_options* options, ask_group** group);
/* Leaves, and frees the group, its requests and its memory. Others' operations that this member has finished
 * still finish there; one that it has not fails them, by name. NULL does nothing. */
ASK_API void ask_group_close(ask_group* group);

/*
 * Goes on without members that have died. Once `group` has failed every survivor calls it, and gets a new
 * group of those that do, with ranks from 0 in the order of the former ones, and the same root, which must be
 * among them. It returns when all have come, or after the deadline without those that have not: who comes
 * later gets ASK_E_ABORTED.
 *
 * An operation under way at the death fails at every survivor, unless it had ended whole at one: then it ends
 * whole at all of them, before the group fails. So all have the same operations and may begin the failed ones
 * again, in the new group. Nothing of one group is ever added to another's. The failed group is closed as any
 * other, at any time.
 *
 * ASK_E_USAGE: the group has not failed. ASK_E_ABORTED: it cannot shrink, for its root has died, or its
 * members did not agree on what they run: open another group.
 */
ASK_API int ask_group_shrink(ask_group* group, ask_group** smaller);
/*
 * Takes more members in: every member calls it with the same size, after it has waited for all requests, and
 * keeps its rank; each new one calls ask_group_open() with that size and a rank from the former size on.
 * Returns once all have joined. However it ends, `group` is over and can only be closed.
 */
ASK_API int ask_group_grow(ask_group* group, uint32_t size, ask_group** larger);

/* Of NULL both are 0. */
ASK_API uint32_t ask_group_rank(const ask_group* group);
ASK_API uint32_t ask_group_size(const ask_group* group);
/* Why the group has failed: its code, ASK_OK while it has not. `text` is set, unless NULL, to a text that is
 * valid until the group is closed, "" while it has not failed. Of NULL it is ASK_E_USAGE. */
ASK_API int ask_group_error(const ask_group* group, const char** text);

/* Memory of the arena, aligned to 64 bytes. NULL if there is not enough in one piece; ask_error() says how
 * much was left. */
ASK_API void* ask_alloc(ask_group* group, size_t bytes);
/* NULL does nothing. Anything else that ask_alloc() did not give, or that an operation under way still uses,
 * is an ASK_E_USAGE. */
ASK_API int ask_free(ask_group* group, void* memory);

/* Each returns once the operation is whole at this member; the i... return at once, with a request to wait
 * for. A count of 0 is allowed. */
ASK_API int ask_allreduce(ask_group* group, const void* in, void* out, size_t count, int dtype, int op);
/* The result at `root` only; `out` is ignored elsewhere, and may be NULL. */
ASK_API int ask_reduce(ask_group* group, const void* in, void* out, size_t count, int dtype, int op,
                       uint32_t root);
/* What `root` has in `buffer`, into everybody's. */
ASK_API int ask_bcast(ask_group* group, void* buffer, size_t count, int dtype, uint32_t root);
/* Returns once every member has begun it. */
ASK_API int ask_barrier(ask_group* group);

ASK_API int ask_iallreduce(ask_group* group, const void* in, void* out, size_t count, int dtype, int op,
                           ask_request** request);
ASK_API int ask_ireduce(ask_group* group, const void* in, void* out, size_t count, int dtype, int op,
                        uint32_t root, ask_request** request);
ASK_API int ask_ibcast(ask_group* group, void* buffer, size_t count, int dtype, uint32_t root,
                       ask_request** request);
ASK_API int ask_ibarrier(ask_group* group, ask_request** request);

/* Waits for the operation and frees the request, however it ends. NULL is ASK_OK. Requests may be waited for
 * in any order. ASK_E_USAGE while the group has not failed is of a call that is not allowed now (another
 * thread's, a child's): the request is as it was. */
ASK_API int ask_wait(ask_request* request);
/* Without waiting: *done = 1 once the operation has ended. The request is freed then, and what it ended with
 * returned; else *done = 0 and ASK_OK. */
ASK_API int ask_test(ask_request* request, int* done);
/* As ask_test(), once the operation has ended or so many microseconds have passed. */
ASK_API int ask_wait_for(ask_request* request, uint64_t microseconds, int* done);

/* Most bytes of a key; none is a key, too. */
#define ASK_MAX_KEY_BYTES 65535u
/* Most senders of a task. */
#define ASK_MAX_TASK_SENDERS 4096u

typedef struct ask_sender ask_sender;
typedef struct ask_receiver ask_receiver;
typedef struct ask_result ask_result;

/* Tuples by columns, as Arrow has them: row i's key is keys[offsets[i]] up to keys[offsets[i + 1]]. Offsets
 * are of type ASK_INT32 (Arrow's utf8, binary) or ASK_INT64 (large_utf8, large_binary), need not begin at 0,
 * and never decrease. Without rows all pointers may be NULL. */
typedef struct ask_columns {
    size_t rows;
    int offset_type;
    const void* offsets; /* rows + 1 of them */
    const void* keys;
    size_t key_bytes;      /* from `keys` on: no offset is past it */
    const int64_t* values; /* NULL: only of a task whose operator is ASK_COUNT, which looks at none */
} ask_columns;

#define ASK_COLUMNS_INIT {0, ASK_INT64, NULL, NULL, 0, NULL}

/* What became of a task's tuples; docs/commands.md has what each number counts. After success tuples_in is
 * tuples_merged + tuples_sent, and tuples_sent is tuples_switch + tuples_receiver. Set struct_size, as
 * ASK_TASK_STATS_INIT does, before it is filled. */
typedef struct ask_task_stats {
    size_t struct_size;
    uint64_t tuples_in, tuples_merged, tuples_sent, tuples_whole;
    uint64_t tuples_switch, tuples_evicted, tuples_back;
    uint64_t tuples_receiver; /* of all the switch left, for these reasons: */
    uint64_t left_collision, left_overflow, left_contention, left_back_full, left_back_contention;
    uint64_t left_no_region, left_long;
    uint64_t packets_sent, packets_acked_by_switch, slots_filled, slots_offered, retransmissions;
    double seconds;
    uint32_t runs;    /* more than 1: a switch lost what it had, and all was sent again */
    uint32_t senders; /* whose tuples these are */
} ask_task_stats;

/* clang-format off */
#define ASK_TASK_STATS_INIT \
    {sizeof(ask_task_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0, 0}
/* clang-format on */

/* As ask_group_options; fields of the same name mean the same. */
typedef struct ask_sender_options {
    size_t struct_size;
    const char* task;     /* as the receiver opened it: 1 to 63 of A-Z a-z 0-9 _ - */
    const char* to;       /* the receiver's host, as this host's agent knows it (name, or address) */
    uint32_t deadline_ms; /* for finding the task, and without progress afterwards */
    int cancel_fd;
    const char* agent;
    const char* token;
    /* Some of the tuples to come, which are looked at and not sent: a receiver that has none of its senders'
     * cannot fit its task to their keys. ask_send() looks at its own. */
    const ask_columns* sample;
    uint64_t expected;    /* tuples in all; 0: not known */
    int64_t merge_window; /* tuples held back to merge equal keys; 0: none; -1: the agent's */
    /* Not 0: should a switch lose what it has added up, calls fail with ASK_E_RUN_AGAIN, and the caller opens
     * another sender and sends all again. ask_send() does so itself. */
    int can_repeat;
} ask_sender_options;

#define ASK_SENDER_OPTIONS_INIT {sizeof(ask_sender_options), NULL, NULL, 0, -1, NULL, NULL, NULL, 0, -1, 0}

/* Joins the task as one of its senders, and returns once it is found. */
ASK_API int ask_sender_open(const ask_sender_options* options, ask_sender** sender);
/* Hands a tuple in; waits while the agent has no room. The key is copied. */
ASK_API int ask_sender_push(ask_sender* sender, const void* key, size_t key_bytes, int64_t value);
/* The same for all rows, at less cost. */
ASK_API int ask_sender_push_columns(ask_sender* sender, const ask_columns* columns);
/* Lets the agent have what it has not been told of yet, but for what is held back to be merged, and fails if
 * the task has failed. For senders that have nothing to push for a while. */
ASK_API int ask_sender_flush(ask_sender* sender);
/* No more tuples: returns once the receiver has confirmed the result, which has each of them exactly once.
 * `stats` are of this sender's; NULL: not wanted. */
ASK_API int ask_sender_finish(ask_sender* sender, ask_task_stats* stats);
/* The task cannot succeed: everybody is told why. Only closing is left. */
ASK_API int ask_sender_abandon(ask_sender* sender, const char* reason);
/* Frees it. Before ask_sender_finish() has succeeded this ends the task for everybody. NULL does nothing. */
ASK_API void ask_sender_close(ask_sender* sender);
/* All of it, from opening to closing, for columns that are the whole of what there is to send. Should a
 * switch lose what it has added up, it sends all again, as often as the receiver begins again. */
ASK_API int ask_send(const ask_sender_options* options, const ask_columns* columns, ask_task_stats* stats);

/* Flags of ask_receiver_options. */
#define ASK_RECEIVE_SORTED 1u    /* rows in the order of the keys' bytes, which takes time; else in none */
#define ASK_RECEIVE_NO_SWITCH 2u /* add up on this host alone */
#define ASK_RECEIVE_NO_BACK 4u   /* no back level on the switch */
#define ASK_RECEIVE_REQUIRE_REGION 8u    /* fail if the switch has no memory for the task */
#define ASK_RECEIVE_ALLOW_INCOMPLETE 16u /* go on without senders that die: ask_result_missing() */
/* Take a result of this task that the agent keeps because it was not confirmed. Of the other options only the
 * deadline counts, and ASK_RECEIVE_SORTED. */
#define ASK_RECEIVE_AGAIN 32u

typedef struct ask_receiver_options {
    size_t struct_size;
    const char* task; /* not in use on this host: 1 to 63 of A-Z a-z 0-9 _ - */
    uint32_t senders; /* how many make the task whole: 1 to ASK_MAX_TASK_SENDERS */
    int op; /* ASK_SUM, ASK_MIN, ASK_MAX, ASK_COUNT or ASK_MEAN, which is whole or an error: not with
               ASK_RECEIVE_ALLOW_INCOMPLETE */
    uint32_t deadline_ms; /* for senders to join, and without progress afterwards */
    int cancel_fd;
    const char* agent;
    const char* token;    /* that senders must show; NULL: none */
    const char* from;     /* hosts that may send, separated by commas; NULL: all */
    uint32_t aggregators; /* per array of the switch; 0: by the samples, or the switch's choice */
    uint32_t flags;
} ask_receiver_options;

#define ASK_RECEIVER_OPTIONS_INIT \
    {sizeof(ask_receiver_options), NULL, 0, ASK_SUM, 0, -1, NULL, NULL, NULL, 0, 0}

/* Opens the task, and returns once senders may join. */
ASK_API int ask_receiver_open(const ask_receiver_options* options, ask_receiver** receiver);
/* Waits until every sender has finished. *result is set only by ASK_OK; the senders wait for
 * ask_receiver_confirm() still. ASK_E_DEADLINE names who is missing, ASK_E_ABORTED who gave up or died,
 * ASK_E_OVERFLOW the key whose value leaves int64_t. */
ASK_API int ask_receiver_wait(ask_receiver* receiver, ask_result** result);
/* The result is where it should be: only now the senders succeed. An error does not change the result, but
 * they may report that they failed. Due within the task's deadline; until then, and if it does not come, the
 * agent keeps the result for a while. */
ASK_API int ask_receiver_confirm(ask_receiver* receiver);
/* Frees it. Before ask_receiver_wait() has succeeded this ends the task for everybody. NULL does nothing. */
ASK_API void ask_receiver_close(ask_receiver* receiver);
/* All of it, from opening to closing. *result is set by ASK_OK, else to NULL; but if all has come and only
 * ask_receiver_confirm() failed, the error is its, and *result is set, too. */
ASK_API int ask_receive(const ask_receiver_options* options, ask_result** result);

/* Every key once; offsets are ASK_INT64 and begin at 0. Valid until the result is freed. NULL of NULL. */
ASK_API const ask_columns* ask_result_columns(const ask_result* result);
/* Of a task of means, row by row: of how many values ask_columns.values has the sum, 1 and more. Valid until
 * the result is freed. NULL: it is none of means, or NULL. */
ASK_API const int64_t* ask_result_counts(const ask_result* result);
/* Of all senders together. */
ASK_API int ask_result_stats(const ask_result* result, ask_task_stats* stats);
/* With ASK_RECEIVE_ALLOW_INCOMPLETE: the i-th of those that lack in the result, or whose tuples do in an
 * unknown part, and why; NULL: there are no more. */
ASK_API const char* ask_result_missing(const ask_result* result, size_t i);
/* NULL does nothing. */
ASK_API void ask_result_free(ask_result* result);

/* NOLINTEND(modernize-use-using) */

#ifdef __cplusplus
}
#endif

#endif
