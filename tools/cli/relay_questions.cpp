// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/relay_questions.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

#include "lib/base/runtime.h"

namespace ask::cli {
namespace {

// More than there are relays in most networks; each mostly waits.
constexpr std::size_t kAtOnce = 256;

}  // namespace

std::vector<RelayToAsk> relays_of(const v1::ControllerStatus& status) {
    std::vector<RelayToAsk> relays;
    for (const v1::ControllerSwitch& each : status.switches()) {
        if (!each.relay().empty()) {
            relays.push_back({each.name(), each.relay()});
        }
    }
    return relays;
}

std::vector<RelayToAsk> relays_of(const v1::AgentTask& task) {
    std::vector<RelayToAsk> relays;
    relays.reserve(static_cast<std::size_t>(task.relays_size()));
    for (const v1::RelayOfTask& each : task.relays()) {
        relays.push_back({each.name(), each.address()});
    }
    return relays;
}

std::vector<RelayAnswer> ask_relays(std::vector<RelayToAsk> relays, const AskRelay& ask) {
    std::vector<RelayAnswer> answers;
    answers.reserve(relays.size());
    for (RelayToAsk& relay : relays) {
        answers.push_back(
            {std::move(relay.name), std::move(relay.address), Error(Errc::kInternal, "not asked")});
    }
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
        for (std::size_t at = next++; at < answers.size(); at = next++) {
            answers[at].status = ask(answers[at].address);
        }
    };
    std::vector<Thread> threads;
    threads.reserve(std::min(answers.size(), kAtOnce));
    while (threads.size() < std::min(answers.size(), kAtOnce)) {
        threads.emplace_back(work);
    }
    for (Thread& thread : threads) {
        thread.join();
    }
    return answers;
}

}  // namespace ask::cli
