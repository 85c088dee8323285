/* SPDX-License-Identifier: Apache-2.0 */
/*
 * histogram GROUP RANK SIZE ROOT BINS < NUMBERS
 *
 * Of all members' numbers together: how many, the least, the largest and the sum, which each member prints;
 * then how many lie in each of BINS equal parts of that range, which the last rank alone gets and prints.
 * Everybody goes by rank 0's BINS. Numbers are below 2^50. Shows broadcast, reduce, a barrier, and several
 * operations under way at once.
 */
#include <ask.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 100000, MOST_BINS = 1000 };
#define LARGEST (1LL << 50)

static int64_t numbers[MOST];
static size_t count;

struct totals {
    int64_t count, least, largest, sum;
};

/* Four operations at once: the network has the next ones to carry while one comes back. */
static int find_totals(ask_group* group, struct totals* all) {
    ask_request* requests[4] = {NULL};
    struct totals own = {0, INT64_MAX, INT64_MIN, 0};
    size_t i;
    int code, first = ASK_OK;

    for (i = 0; i < count; i++) {
        own.count++;
        own.sum += numbers[i];
        if (numbers[i] < own.least)
            own.least = numbers[i];
        if (numbers[i] > own.largest)
            own.largest = numbers[i];
    }
    /* `own` must be left alone until all have ended. */
    first = ask_iallreduce(group, &own.count, &all->count, 1, ASK_INT64, ASK_SUM, &requests[0]);
    if (first == ASK_OK)
        first = ask_iallreduce(group, &own.least, &all->least, 1, ASK_INT64, ASK_MIN, &requests[1]);
    if (first == ASK_OK)
        first = ask_iallreduce(group, &own.largest, &all->largest, 1, ASK_INT64, ASK_MAX, &requests[2]);
    if (first == ASK_OK)
        first = ask_iallreduce(group, &own.sum, &all->sum, 1, ASK_INT64, ASK_SUM, &requests[3]);
    /* In any order; of none there is nothing to wait for. */
    for (i = 4; i-- > 0;) {
        code = ask_wait(requests[i]);
        if (first == ASK_OK)
            first = code;
    }
    return first;
}

/* How many of this member's numbers are in each bin. */
static void fill(const struct totals* all, uint32_t bins, uint64_t* filled) {
    const uint64_t range = (uint64_t)all->largest - (uint64_t)all->least + 1;
    size_t i;

    for (i = 0; i < count; i++)
        filled[((uint64_t)numbers[i] - (uint64_t)all->least) * bins / range]++;
}

static int run(ask_group* group, uint32_t bins) {
    const uint32_t last = ask_group_size(group) - 1;
    uint64_t filled[MOST_BINS] = {0};
    struct totals all;
    uint32_t i;
    int code;

    code = ask_bcast(group, &bins, 1, ASK_UINT32, 0);
    if (code == ASK_OK)
        code = find_totals(group, &all);
    if (code != ASK_OK)
        return code;
    printf("%lld numbers, %lld to %lld, sum %lld\n", (long long)all.count, (long long)all.least,
           (long long)all.largest, (long long)all.sum);
    fill(&all, bins, filled);
    /* In place; what others than the last have stays as it is. */
    code = ask_reduce(group, filled, filled, bins, ASK_UINT64, ASK_SUM, last);
    for (i = 0; code == ASK_OK && ask_group_rank(group) == last && i < bins; i++)
        printf("%llu\n", (unsigned long long)filled[i]);
    /* Once this is over, so is everybody's printing. */
    fflush(stdout);
    return code == ASK_OK ? ask_barrier(group) : code;
}

int main(int argc, char** argv) {
    ask_group_options options = ASK_GROUP_OPTIONS_INIT;
    ask_group* group = NULL;
    long long value;
    unsigned long bins;
    int code;

    bins = argc == 6 ? strtoul(argv[5], NULL, 10) : 0;
    if (bins < 1 || bins > MOST_BINS) {
        fprintf(stderr, "usage: histogram GROUP RANK SIZE ROOT BINS < NUMBERS; BINS from 1 to %d\n",
                MOST_BINS);
        return ASK_E_USAGE;
    }
    while (count < MOST && scanf("%lld", &value) == 1 && value < LARGEST && value > -LARGEST)
        numbers[count++] = value;
    options.group = argv[1];
    options.rank = (uint32_t)strtoul(argv[2], NULL, 10);
    options.size = (uint32_t)strtoul(argv[3], NULL, 10);
    options.root = argv[4];
    code = ask_group_open(&options, &group);
    if (code == ASK_OK)
        code = run(group, (uint32_t)bins);
    if (code != ASK_OK)
        fprintf(stderr, "histogram: %s (%s)\n", ask_error(), ask_code_name(code));
    ask_group_close(group);
    return code;
}
