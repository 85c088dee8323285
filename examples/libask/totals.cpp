// SPDX-License-Identifier: Apache-2.0
//
// totals send TASK HOST < LINES     on hosts that have lines "NUMBER KEY"; HOST receives
// totals receive TASK SENDERS       there: prints the sum of every key's numbers, by the keys' bytes
//
// Lines are sent as they come, however many there are: shows a sender that is open for a while, and one whose
// input turns out to be wrong, which everybody is told.
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>

#include <ask.hpp>

namespace {

void send(const char* task, const char* host) {
    ask::Sender sender({.task = task, .to = host});
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream fields(line);
        std::int64_t number = 0;
        std::string key;
        if (!(fields >> number >> key)) {
            sender.abandon("a line is not NUMBER KEY: " + line);
            throw ask::Error(ask::Code::kInput, "not NUMBER KEY: " + line);
        }
        sender.push(key, number);
    }
    const ask_task_stats stats = sender.finish();
    std::cout << stats.tuples_in << " lines\n";
}

void receive(const char* task, const char* senders) {
    const ask::Result result =
        ask::receive({.task = task,
                      .senders = static_cast<std::uint32_t>(std::strtoul(senders, nullptr, 10)),
                      .flags = ASK_RECEIVE_SORTED});
    for (const auto& [key, sum] : result.rows()) {
        std::cout << key << ' ' << sum << '\n';
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view verb = argc == 4 ? argv[1] : "";
    if (verb != "send" && verb != "receive") {
        std::cerr << "usage: totals send TASK HOST < LINES, or totals receive TASK SENDERS\n";
        return ASK_E_USAGE;
    }
    try {
        verb == "send" ? send(argv[2], argv[3]) : receive(argv[2], argv[3]);
    } catch (const ask::Error& error) {
        std::cerr << "totals: " << error.what() << " (" << ask_code_name(static_cast<int>(error.code()))
                  << ")\n";
        return static_cast<int>(error.code());
    }
    return 0;
}
