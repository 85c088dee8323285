/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sum GROUP RANK SIZE ROOT < NUMBERS
 *
 * Members' numbers, added up line by line: line i of the output is the sum of everybody's line i. All have
 * equally many.
 */
#include <ask.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 100000 };

int main(int argc, char** argv) {
    ask_group_options options = ASK_GROUP_OPTIONS_INIT;
    ask_group* group = NULL;
    int64_t* values;
    long long value;
    size_t count = 0, i;
    int code;

    if (argc != 5) {
        fprintf(stderr, "usage: sum GROUP RANK SIZE ROOT < NUMBERS\n");
        return ASK_E_USAGE;
    }
    options.group = argv[1];
    options.rank = (uint32_t)strtoul(argv[2], NULL, 10);
    options.size = (uint32_t)strtoul(argv[3], NULL, 10);
    options.root = argv[4];
    code = ask_group_open(&options, &group);
    if (code != ASK_OK) {
        fprintf(stderr, "sum: %s (%s)\n", ask_error(), ask_code_name(code));
        return code;
    }

    /* Memory that the agent reads and writes where it is. Any other would do, and be copied. */
    values = ask_alloc(group, MOST * sizeof *values);
    while (values != NULL && count < MOST && scanf("%lld", &value) == 1)
        values[count++] = value;
    code = values == NULL ? ASK_E_LIMIT : ask_allreduce(group, values, values, count, ASK_INT64, ASK_SUM);
    if (code != ASK_OK)
        fprintf(stderr, "sum: %s (%s)\n", ask_error(), ask_code_name(code));
    else
        for (i = 0; i < count; i++)
            printf("%lld\n", (long long)values[i]);
    ask_group_close(group);
    return code;
}
