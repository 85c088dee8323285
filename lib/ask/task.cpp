// SPDX-License-Identifier: Apache-2.0
#include "lib/ask/task.h"

#include "lib/ask/handle.h"

namespace ask {

Result<> check_struct_size(std::size_t is, std::size_t wanted, const char* init) {
    return is == wanted ? Result<>()
                        : usage("struct_size is " + std::to_string(is) + ", not " + std::to_string(wanted) +
                                ": initialise with " + init);
}

std::chrono::milliseconds deadline_or_default(std::uint32_t deadline_ms) {
    return std::chrono::milliseconds(deadline_ms == 0 ? ASK_DEFAULT_DEADLINE_MS : deadline_ms);
}

Result<> check_stats(const ask_task_stats* stats) {
    return stats == nullptr
               ? Result<>()
               : check_struct_size(stats->struct_size, sizeof(ask_task_stats), "ASK_TASK_STATS_INIT");
}

// Of a number that lib/abi/stats.def has and ask.h has not, this does not compile.
void put_stats(ask_task_stats* to, const client::TaskStats& from, std::uint32_t runs, std::uint32_t senders) {
    if (to == nullptr) {
        return;
    }
#define ASK_SENDER_STAT(name, text) to->name = from.name;
#define ASK_TAKEN_STAT(name, field, text) to->field = from.field;
#define ASK_LEFT_STAT(cause, text) to->left_##cause = from.tuples_receiver.cause;
#define ASK_BESIDE_STAT(name, text) to->name = from.name;
#define ASK_PART_STAT(name, text) to->name = from.name;
#include "lib/abi/stats.def"
    to->left_long = from.tuples_receiver.long_key;
    to->tuples_receiver = from.tuples_receiver.total();
    to->seconds = from.seconds;
    to->runs = runs;
    to->senders = senders;
}

}  // namespace ask
