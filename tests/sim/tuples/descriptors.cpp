// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/descriptors.h"

#include <map>
#include <utility>

#include "tests/sim/tuples/spins.h"

namespace ask::sim {

namespace {

constexpr int kFirst = 1'000'000;

std::map<int, const Descriptor*>& descriptors() {
    static std::map<int, const Descriptor*> all;
    return all;
}

struct OfProcess {
    std::shared_ptr<Signal> ready = std::make_shared<Signal>();
    std::int64_t clock_ms = 0;
    Nanos looked = 0;         // without a wait
    std::uint64_t looks = 0;  // at that instant
};

std::map<const Threads*, OfProcess>& processes() {
    static std::map<const Threads*, OfProcess> all;
    return all;
}

int next_number() {
    const auto& all = descriptors();
    return all.empty() ? kFirst : all.rbegin()->first + 1;
}

std::function<void()> breach;

void count_looks() {
    constexpr std::uint64_t kMost = 10'000;
    OfProcess& process = processes()[current_process()];
    process.looks = sim_now() == process.looked ? process.looks + 1 : 0;
    process.looked = sim_now();
    if (process.looks == kMost && breach) {
        breach();
    }
    if (process.looks >= kMost) {
        park(nullptr, sim_now() + kMillisecond);
    }
}

}  // namespace

void watch_for_spins(std::function<void()> then) {
    breach = std::move(then);
}

std::shared_ptr<Signal> ready_of(const Threads& process) {
    return processes()[&process].ready;
}

void set_clock(const Threads& process, std::int64_t ms) {
    processes()[&process].clock_ms = ms;
}

std::int64_t clock_ms() {
    const auto at = processes().find(current_process());
    return at == processes().end() ? 0 : at->second.clock_ms;
}

void forget_processes() {
    processes().clear();
}

Descriptor::Descriptor(std::function<bool()> readable)
    : number_(next_number()), readable_(std::move(readable)), ready_(ready_of(*current_process())) {
    descriptors()[number_] = this;
}

Descriptor::~Descriptor() {
    descriptors().erase(number_);
}

unsigned wait_for_descriptors(std::initializer_list<int> numbers, Nanos until) {
    if (sim_now() >= until) {
        count_looks();
    }
    for (;;) {
        unsigned readable = 0;
        unsigned bit = 1;
        for (const int number : numbers) {
            const auto at = descriptors().find(number);
            readable |= at != descriptors().end() && at->second->readable() ? bit : 0U;
            bit <<= 1U;
        }
        if (readable != 0 || sim_now() >= until || thrown()) {
            return readable;
        }
        park(ready_of(*current_process()).get(), until);
    }
}

}  // namespace ask::sim
