// SPDX-License-Identifier: Apache-2.0
//
// ask-e2e-member --group G --rank R --size N --root H [--deadline-ms D] [--cancel-fd FD] [STEP...]: a member
// that does as it is told, through libask.so, and ends with the code of what has failed, whose text it
// prints.
//
//     allreduce:COUNT  reduce:COUNT:ROOT  bcast:COUNT:ROOT  barrier    of int64
//     joined           prints that it has come so far
//     pause            until nobody has standard input, a pipe, open for writing
#include <poll.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "lib/ask/ask.h"

namespace {

// The parts of "a:b:c".
std::vector<std::string> parts_of(const std::string& step) {
    std::vector<std::string> parts{""};
    for (const char each : step) {
        if (each == ':') {
            parts.emplace_back();
        } else {
            parts.back() += each;
        }
    }
    parts.resize(3);
    return parts;
}

// Without reading what is in it: that is for others.
int pause_here() {
    constexpr int kPatience = 30'000;
    pollfd input{STDIN_FILENO, 0, 0};
    return ::poll(&input, 1, kPatience) == 1 ? ASK_OK : ASK_E_DEADLINE;
}

int do_step(ask_group* group, const std::string& step) {
    const auto parts = parts_of(step);
    std::vector<std::int64_t> values(std::strtoull(parts[1].c_str(), nullptr, 10), 1);
    const auto root = static_cast<std::uint32_t>(std::strtoul(parts[2].c_str(), nullptr, 10));
    if (parts[0] == "allreduce") {
        return ask_allreduce(group, values.data(), values.data(), values.size(), ASK_INT64, ASK_SUM);
    }
    if (parts[0] == "reduce") {
        return ask_reduce(group, values.data(), values.data(), values.size(), ASK_INT64, ASK_SUM, root);
    }
    if (parts[0] == "bcast") {
        return ask_bcast(group, values.data(), values.size(), ASK_INT64, root);
    }
    if (parts[0] == "barrier") {
        return ask_barrier(group);
    }
    if (parts[0] == "joined") {
        std::puts("joined");
        std::fflush(stdout);
        return ASK_OK;
    }
    return parts[0] == "pause" ? pause_here() : ASK_E_USAGE;
}

int fail(int code) {
    std::fprintf(stderr, "%s: %s\n", ask_code_name(code), ask_error());
    return code;
}

}  // namespace

int main(int argc, char** argv) {
    std::map<std::string, std::string> flags = {{"--deadline-ms", "10000"}, {"--cancel-fd", "-1"}};
    int at = 1;
    for (; at + 1 < argc && std::string(argv[at]).starts_with("--"); at += 2) {
        flags[argv[at]] = argv[at + 1];
    }
    const auto number = [&](const char* flag) { return std::strtol(flags[flag].c_str(), nullptr, 10); };
    ask_group_options options = ASK_GROUP_OPTIONS_INIT;
    options.group = flags["--group"].c_str();
    options.root = flags["--root"].c_str();
    options.rank = static_cast<std::uint32_t>(number("--rank"));
    options.size = static_cast<std::uint32_t>(number("--size"));
    options.deadline_ms = static_cast<std::uint32_t>(number("--deadline-ms"));
    options.cancel_fd = static_cast<int>(number("--cancel-fd"));
    ask_group* group = nullptr;
    if (const int code = ask_group_open(&options, &group); code != ASK_OK) {
        return fail(code);
    }
    int code = ASK_OK;
    for (; at < argc && code == ASK_OK; ++at) {
        code = do_step(group, argv[at]);
    }
    if (code != ASK_OK) {
        fail(code);
    }
    ask_group_close(group);
    return code;
}
