// SPDX-License-Identifier: Apache-2.0
//
// ask-e2e-tuples send|push|cut FILE TASK HOST [OPTION...]
// ask-e2e-tuples recv TASK SENDERS [OPTION...]
//
// A sender or a receiver that is no ask-send or ask-recv, through libask.so. Lines are key<TAB>value, keys
// escaped as docs/commands.md has it. `send` sends all of FILE at once, `push` in pieces of every size and
// row by row; both end with statistics as JSON on standard output. `cut` sends the half, says so, and waits
// until nobody has standard input, a pipe, open for writing. `recv` prints its result. They end with the code
// of what failed, whose text they print.
//
//     --op N --flags N    as in ask.h
//     --offsets 32        of the columns; otherwise 64
//     --merge N           merge_window
//     --deadline-ms N
//     --cancel-fd N
//     --pause             recv: as `cut` does, between result and confirmation
//     --repeat N          send: the rows, so many times over, and the CPU time of ask_send() in the JSON
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/ask/ask.h"

namespace {

struct Rows {
    std::vector<std::int64_t> offsets{0};
    std::vector<std::int32_t> narrow;
    std::string keys;
    std::vector<std::int64_t> values;

    [[nodiscard]] ask_columns columns(std::size_t first, std::size_t rows) const {
        const bool is_narrow = !narrow.empty();
        ask_columns all = ASK_COLUMNS_INIT;
        all.rows = rows;
        all.offset_type = is_narrow ? ASK_INT32 : ASK_INT64;
        all.offsets = is_narrow ? static_cast<const void*>(narrow.data() + first) : offsets.data() + first;
        all.keys = keys.data();
        all.key_bytes = keys.size();
        all.values = values.data() + first;
        return all;
    }
};

char unescaped(std::string_view text, std::size_t& at) {
    const char what = text[at++];
    switch (what) {
        case 't':
            return '\t';
        case 'n':
            return '\n';
        case 'r':
            return '\r';
        case '0':
            return '\0';
        case 'x':
            at += 2;
            return static_cast<char>(std::stoi(std::string(text.substr(at - 2, 2)), nullptr, 16));
        default:
            return what;
    }
}

Rows read_rows(const char* file) {
    Rows rows;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
        const std::size_t tab = line.find('\t');
        const std::string_view key = std::string_view(line).substr(0, tab);
        for (std::size_t at = 0; at < key.size();) {
            const char each = key[at++];
            rows.keys += each == '\\' ? unescaped(key, at) : each;
        }
        rows.offsets.push_back(static_cast<std::int64_t>(rows.keys.size()));
        rows.values.push_back(std::strtoll(line.c_str() + tab + 1, nullptr, 10));
    }
    return rows;
}

void repeat(Rows& rows, long times) {
    const Rows once = rows;
    for (long i = 1; i < times; ++i) {
        const auto base = static_cast<std::int64_t>(rows.keys.size());
        for (std::size_t row = 1; row < once.offsets.size(); ++row) {
            rows.offsets.push_back(base + once.offsets[row]);
        }
        rows.keys += once.keys;
        rows.values.insert(rows.values.end(), once.values.begin(), once.values.end());
    }
}

void print_byte(char each) {
    static constexpr std::string_view kNamed = {"\0\t\n\r\\", 5};
    static constexpr std::string_view kNames = "0tnr\\";
    const std::size_t named = kNamed.find(each);
    const auto byte = static_cast<unsigned char>(each);
    if (named != std::string_view::npos) {
        std::printf("\\%c", kNames[named]);
    } else if (byte < 0x20 || byte == 0x7f) {
        std::printf("\\x%02x", byte);
    } else {
        std::putchar(each);
    }
}

void print_key(std::string_view key) {
    for (std::size_t at = 0; at < key.size(); ++at) {
        // A control character in UTF-8.
        const auto next = static_cast<unsigned char>(at + 1 < key.size() ? key[at + 1] : 0);
        if (key[at] == '\xc2' && next >= 0x80 && next < 0xa0) {
            std::printf("\\xc2\\x%02x", next);
            ++at;
        } else {
            print_byte(key[at]);
        }
    }
}

void print_result(const ask_result* result) {
    const ask_columns& columns = *ask_result_columns(result);
    const auto* const offsets = static_cast<const std::int64_t*>(columns.offsets);
    const auto* const keys = static_cast<const char*>(columns.keys);
    const std::int64_t* const counts = ask_result_counts(result);
    for (std::size_t row = 0; row < columns.rows; ++row) {
        print_key({keys + offsets[row], static_cast<std::size_t>(offsets[row + 1] - offsets[row])});
        std::printf("\t%lld", static_cast<long long>(columns.values[row]));
        if (counts != nullptr) {
            std::printf("\t%lld", static_cast<long long>(counts[row]));
        }
        std::printf("\n");
    }
    for (std::size_t i = 0; ask_result_missing(result, i) != nullptr; ++i) {
        std::fprintf(stderr, "missing: %s\n", ask_result_missing(result, i));
    }
}

// Of this process so far, in seconds.
double cpu_time() {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

void print_stats(const ask_task_stats& stats, double cpu) {
    std::printf(
        "{\"tuples_in\": %llu, \"tuples_merged\": %llu, \"tuples_sent\": %llu, \"tuples_switch\": %llu, "
        "\"tuples_receiver\": %llu, \"runs\": %u, \"cpu\": %.4f}\n",
        static_cast<unsigned long long>(stats.tuples_in),
        static_cast<unsigned long long>(stats.tuples_merged),
        static_cast<unsigned long long>(stats.tuples_sent),
        static_cast<unsigned long long>(stats.tuples_switch),
        static_cast<unsigned long long>(stats.tuples_receiver), stats.runs, cpu);
}

// Without reading what is in it: that is for others.
int pause_here() {
    constexpr int kPatience = 30'000;
    std::fflush(stdout);
    pollfd input{STDIN_FILENO, 0, 0};
    return ::poll(&input, 1, kPatience) == 1 ? ASK_OK : ASK_E_DEADLINE;
}

int push_pieces(ask_sender* sender, const Rows& rows) {
    int code = ASK_OK;
    std::size_t row = 0;
    for (std::size_t piece = 1; code == ASK_OK && row < rows.values.size(); piece = piece * 3 + 1) {
        const std::size_t some = std::min(piece % 5003, rows.values.size() - row);
        if (some % 2 == 1) {
            const ask_columns columns = rows.columns(row, some);
            code = ask_sender_push_columns(sender, &columns);
            row += some;
            continue;
        }
        for (std::size_t i = 0; i < some && code == ASK_OK; ++i, ++row) {
            code = ask_sender_push(sender, rows.keys.data() + rows.offsets[row],
                                   static_cast<std::size_t>(rows.offsets[row + 1] - rows.offsets[row]),
                                   rows.values[row]);
        }
    }
    return code;
}

int push(const ask_sender_options& options, const Rows& rows, bool cut) {
    ask_sender* sender = nullptr;
    int code = ask_sender_open(&options, &sender);
    if (code == ASK_OK && cut) {
        const ask_columns half = rows.columns(0, rows.values.size() / 2);
        code = ask_sender_push_columns(sender, &half);
        std::puts("half");
        code = code == ASK_OK ? ask_sender_flush(sender) : code;
        code = code == ASK_OK ? pause_here() : code;
    }
    ask_task_stats stats = ASK_TASK_STATS_INIT;
    code = code == ASK_OK ? push_pieces(sender, rows) : code;
    code = code == ASK_OK ? ask_sender_finish(sender, &stats) : code;
    if (code == ASK_OK) {
        print_stats(stats, cpu_time());
    }
    ask_sender_close(sender);
    return code;
}

int send(const ask_sender_options& options, const ask_columns& columns) {
    ask_task_stats stats = ASK_TASK_STATS_INIT;
    const double before = cpu_time();
    const int code = ask_send(&options, &columns, &stats);
    if (code == ASK_OK) {
        print_stats(stats, cpu_time() - before);
    }
    return code;
}

int receive(const ask_receiver_options& options, bool pause) {
    ask_receiver* receiver = nullptr;
    ask_result* result = nullptr;
    int code = ask_receiver_open(&options, &receiver);
    code = code == ASK_OK ? ask_receiver_wait(receiver, &result) : code;
    if (result != nullptr) {
        print_result(result);
    }
    code = code == ASK_OK && pause ? pause_here() : code;
    code = code == ASK_OK ? ask_receiver_confirm(receiver) : code;
    ask_receiver_close(receiver);
    ask_result_free(result);
    return code;
}

using Flags = std::map<std::string, std::string>;

int run(const std::string& verb, char** argv, Flags& flags) {
    const auto number = [&](const char* flag, long otherwise) {
        return flags.contains(flag) ? std::strtol(flags[flag].c_str(), nullptr, 10) : otherwise;
    };
    if (verb == "recv") {
        ask_receiver_options options = ASK_RECEIVER_OPTIONS_INIT;
        options.task = argv[2];
        options.senders = static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10));
        options.op = static_cast<int>(number("--op", ASK_SUM));
        options.flags = static_cast<std::uint32_t>(number("--flags", 0));
        options.deadline_ms = static_cast<std::uint32_t>(number("--deadline-ms", 20'000));
        options.cancel_fd = static_cast<int>(number("--cancel-fd", -1));
        return receive(options, flags.contains("--pause"));
    }
    Rows rows = read_rows(argv[2]);
    repeat(rows, number("--repeat", 1));
    if (number("--offsets", 64) == 32) {
        rows.narrow.assign(rows.offsets.begin(), rows.offsets.end());
    }
    ask_sender_options options = ASK_SENDER_OPTIONS_INIT;
    options.task = argv[3];
    options.to = argv[4];
    options.merge_window = number("--merge", -1);
    options.deadline_ms = static_cast<std::uint32_t>(number("--deadline-ms", 20'000));
    options.cancel_fd = static_cast<int>(number("--cancel-fd", -1));
    const ask_columns all = rows.columns(0, rows.values.size());
    if (verb == "send") {
        return send(options, all);
    }
    options.sample = &all;
    options.expected = all.rows;
    return push(options, rows, verb == "cut");
}

}  // namespace

int main(int argc, char** argv) {
    const std::string verb = argc > 3 ? argv[1] : "";
    Flags flags;
    for (int at = verb == "recv" ? 4 : 5; at < argc; ++at) {
        const std::string flag = argv[at];
        flags[flag] = flag == "--pause" || at + 1 == argc ? "" : argv[++at];
    }
    const int code = verb.empty() ? ASK_E_USAGE : run(verb, argv, flags);
    if (code != ASK_OK) {
        std::fprintf(stderr, "%s: %s\n", ask_code_name(code), ask_error());
    }
    return code;
}
