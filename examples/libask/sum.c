/* SPDX-License-Identifier: Apache-2.0 */
/* sum GROUP RANK SIZE ROOT: the sum of all members' ranks, by each of them. */
#include <ask.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
    ask_group_options options = ASK_GROUP_OPTIONS_INIT;
    ask_group* group = NULL;
    int64_t value;
    int code;

    if (argc != 5) {
        fprintf(stderr, "usage: sum GROUP RANK SIZE ROOT\n");
        return ASK_E_USAGE;
    }
    options.group = argv[1];
    options.rank = (uint32_t)strtoul(argv[2], NULL, 10);
    options.size = (uint32_t)strtoul(argv[3], NULL, 10);
    options.root = argv[4];
    value = options.rank;
    code = ask_group_open(&options, &group);
    if (code == ASK_OK)
        code = ask_allreduce(group, &value, &value, 1, ASK_INT64, ASK_SUM);
    if (code != ASK_OK)
        fprintf(stderr, "sum: %s (%s)\n", ask_error(), ask_code_name(code));
    else
        printf("%lld\n", (long long)value);
    ask_group_close(group);
    return code;
}
