// SPDX-License-Identifier: Apache-2.0
//
// ask-bench-goodput: one sender as fast as its agent takes tuples, through the client API, without text to
// parse. Its keys fit short slots, every slot gets as many tuples, and no two keys share an aggregator, so
// that every packet is full and the switch answers it. A line of JSON on standard output.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "lib/abi/hash.h"
#include "lib/base/bytes.h"
#include "lib/client/send_session.h"
#include "lib/tuples/key_hash.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kKeysPerSlot = 256;

struct Flags {
    std::string task;
    std::string to;
    unsigned slots = 32;
    std::uint32_t aggregators = 32768;
    std::uint64_t tuples = 0;
};

// Four letters; number 0 to 26^4 - 1.
std::string spell(unsigned number) {
    std::string key(4, 'a');
    for (char& letter : key) {
        letter = static_cast<char>('a' + number % 26);
        number /= 26;
    }
    return key;
}

// [slot]: keys that take it by their hash, each with an aggregator of its own. Empty if there are not enough.
std::vector<std::vector<std::string>> choose_keys(unsigned slots, std::uint32_t aggregators) {
    std::vector<std::vector<std::string>> keys(slots);
    std::vector<std::set<std::uint32_t>> taken(slots);
    std::size_t missing = std::size_t{slots} * kKeysPerSlot;
    for (unsigned number = 0; number < 26 * 26 * 26 * 26 && missing > 0; ++number) {
        const std::string key = spell(number);
        const std::uint32_t slot = ask::place_of(ask::key_hash(key), slots);
        const auto kpart = ask::load_raw<std::uint32_t>(key.data());
        const std::uint32_t index = ask_hash_index(ask_hash_add(ASK_HASH_SEED, kpart), aggregators);
        if (keys[slot].size() < kKeysPerSlot && taken[slot].insert(index).second) {
            keys[slot].push_back(key);
            --missing;
        }
    }
    return missing == 0 ? keys : std::vector<std::vector<std::string>>();
}

int fail(const std::string& text) {
    std::fprintf(stderr, "ask-bench-goodput: %s\n", text.c_str());
    return 1;
}

int run(const Flags& flags) {
    const auto keys = choose_keys(flags.slots, flags.aggregators);
    if (keys.empty()) {
        return fail("too few keys for " + std::to_string(flags.slots) + " slots: ask for more aggregators");
    }
    auto session = ask::client::SendSession::open(
        {.task = flags.task, .to = flags.to, .merge_window = 0, .as_count = true});
    if (!session) {
        return fail(session.error().text());
    }
    std::minstd_rand random(1);
    const auto start = Clock::now();
    for (std::uint64_t sent = 0; sent < flags.tuples; ++sent) {
        const auto& choice = keys[sent % flags.slots];
        if (auto done = session->send(choice[random() % kKeysPerSlot], 1); !done) {
            return fail(done.error().text());
        }
    }
    const auto stats = session->finish();
    if (!stats) {
        return fail(stats.error().text());
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    std::printf(
        "{\"tuples\": %llu, \"seconds\": %.6f, \"packets\": %llu, \"acked_by_switch\": %llu, "
        "\"tuples_switch\": %llu, \"slots_filled\": %llu, \"retransmissions\": %llu}\n",
        static_cast<unsigned long long>(stats->tuples_in), seconds,
        static_cast<unsigned long long>(stats->packets_sent),
        static_cast<unsigned long long>(stats->packets_acked_by_switch),
        static_cast<unsigned long long>(stats->tuples_switch),
        static_cast<unsigned long long>(stats->slots_filled),
        static_cast<unsigned long long>(stats->retransmissions));
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    Flags flags;
    CLI::App app("Sends tuples that fill every packet.", "ask-bench-goodput");
    app.add_option("--task", flags.task)->required();
    app.add_option("--to", flags.to)->required();
    app.add_option("--slots", flags.slots, "short slots of a row")->check(CLI::Range(1U, ASK_MAX_SLOTS));
    app.add_option("--aggregators", flags.aggregators, "as the task has")->check(CLI::PositiveNumber);
    app.add_option("--tuples", flags.tuples)->required();
    CLI11_PARSE(app, argc, argv);
    return run(flags);
}
