// SPDX-License-Identifier: Apache-2.0
//
// ask-chaosd: the fault injector of a lab (docs/lab.md), in the namespace between its hosts and its switch.
#include <csignal>
#include <cstdio>
#include <string>

#include <spdlog/spdlog.h>

#include "lib/base/standard_fds.h"
#include "lib/daemon/config.h"
#include "lib/daemon/log.h"
#include "lib/daemon/service.h"
#include "tools/chaos/injector.h"

namespace ask::chaos {
namespace {

// As many as tools/lib/lab_topology.jq says.
constexpr unsigned kMostLinks = 512;
constexpr std::int64_t kMostRate = 100'000'000'000;
constexpr std::int64_t kMostQueue = 1 << 30;

Result<> run(const InjectorOptions& options, SignalEvents& signals) {
    const auto injector = Injector::create(options);
    ASK_PASS(injector);
    spdlog::info("ready: {} links", options.links);
    notify_ready(std::to_string(options.links) + " links");
    return (*injector)->run(signals);
}

int main(int argc, char** argv) {
    InjectorOptions options;
    std::string pins;
    ConfigTable table("ask-chaosd", "loses, repeats, damages and delays the packets of a lab's links", "");
    table.integer("links", &options.links, 1, kMostLinks, "links: interfaces h1, s1, h2, s2 ... are there");
    table.text("pins", &pins, "directory of its own on a bpffs, for rules and counters");
    table.integer("rate", &options.rate, 0, kMostRate, "bits a second of every link, each way; 0: no limit");
    table.integer("queue", &options.queue, 0, kMostQueue,
                  "bytes that wait in front of a link of a rate, at most");
    const auto action = table.parse(argc, argv);
    if (!action.ok()) {
        std::fprintf(stderr, "ask-chaosd: %s\n", action.error().text().c_str());
        return exit_code(action.error());
    }
    if (*action == ConfigAction::kExit) {
        return 0;
    }
    options.pin_dir = pins;
    if (const auto log = set_up_log("ask-chaosd", "info"); !log.ok()) {
        std::fprintf(stderr, "ask-chaosd: %s\n", log.error().text().c_str());
        return exit_code(log.error());
    }
    auto signals = SignalEvents::create({SIGTERM, SIGINT});
    const auto ended = signals.ok() ? run(options, *signals) : Result<>(signals.error());
    if (!ended.ok()) {
        spdlog::error("{}", ended.error().text());
        return exit_code(ended.error());
    }
    return 0;
}

}  // namespace
}  // namespace ask::chaos

int main(int argc, char** argv) {
    ask::open_standard_fds();
    return ask::chaos::main(argc, argv);
}
