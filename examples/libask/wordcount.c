/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wordcount send TASK HOST < TEXT     on hosts that have text; HOST receives
 * wordcount receive TASK SENDERS      there: prints every word of all texts with how often it came, by the
 *                                     words' bytes
 *
 * Words are what blanks separate. Shows a task whose tuples are columns, as Arrow has them: the words' bytes
 * one behind the other, and where each begins.
 */
#include <ask.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 1000000, MOST_BYTES = 16000000 };

static char words[MOST_BYTES];
static int64_t offsets[MOST_WORDS + 1];

static int is_blank(int byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* What it finds in standard input, up to as much as there is room for. */
static size_t read_words(void) {
    size_t bytes = 0, count = 0;
    int byte;

    while ((byte = getchar()) != EOF && bytes < MOST_BYTES && count < MOST_WORDS) {
        if (!is_blank(byte))
            words[bytes++] = (char)byte;
        else if ((int64_t)bytes > offsets[count])
            offsets[++count] = (int64_t)bytes;
    }
    if ((int64_t)bytes > offsets[count] && count < MOST_WORDS)
        offsets[++count] = (int64_t)bytes;
    return count;
}

static int send_words(const char* task, const char* host) {
    ask_sender_options options = ASK_SENDER_OPTIONS_INIT;
    ask_columns columns = ASK_COLUMNS_INIT;
    ask_task_stats stats = ASK_TASK_STATS_INIT;
    int code;

    options.task = task;
    options.to = host;
    columns.rows = read_words();
    columns.offset_type = ASK_INT64;
    columns.offsets = offsets;
    columns.keys = words;
    columns.key_bytes = (size_t)offsets[columns.rows];
    /* No values: the receiver counts. */
    code = ask_send(&options, &columns, &stats);
    if (code == ASK_OK)
        printf("%llu words\n", (unsigned long long)stats.tuples_in);
    return code;
}

static void print(const ask_columns* columns) {
    const int64_t* begins = columns->offsets;
    const char* keys = columns->keys;
    size_t i;

    for (i = 0; i < columns->rows; i++)
        printf("%.*s %lld\n", (int)(begins[i + 1] - begins[i]), keys + begins[i],
               (long long)columns->values[i]);
}

/* Step by step, so that the senders succeed once everything is printed, and not before. */
static int receive_words(const char* task, uint32_t senders) {
    ask_receiver_options options = ASK_RECEIVER_OPTIONS_INIT;
    ask_receiver* receiver = NULL;
    ask_result* result = NULL;
    int code;

    options.task = task;
    options.senders = senders;
    options.op = ASK_COUNT;
    options.flags = ASK_RECEIVE_SORTED;
    code = ask_receiver_open(&options, &receiver);
    if (code == ASK_OK)
        code = ask_receiver_wait(receiver, &result);
    if (code == ASK_OK) {
        print(ask_result_columns(result));
        if (fflush(stdout) == 0)
            code = ask_receiver_confirm(receiver);
    }
    ask_receiver_close(receiver);
    ask_result_free(result);
    return code;
}

int main(int argc, char** argv) {
    int code;

    if (argc == 4 && strcmp(argv[1], "send") == 0) {
        code = send_words(argv[2], argv[3]);
    } else if (argc == 4 && strcmp(argv[1], "receive") == 0) {
        code = receive_words(argv[2], (uint32_t)strtoul(argv[3], NULL, 10));
    } else {
        fprintf(stderr, "usage: wordcount send TASK HOST < TEXT, or wordcount receive TASK SENDERS\n");
        return ASK_E_USAGE;
    }
    if (code != ASK_OK)
        fprintf(stderr, "wordcount: %s (%s)\n", ask_error(), ask_code_name(code));
    return code;
}
