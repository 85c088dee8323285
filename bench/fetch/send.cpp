// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "bench/fetch/fetch.h"
#include "bench/fetch/fill.h"
#include "bench/fetch/keys.h"
#include "lib/client/send_session.h"
#include "lib/tuples/fit/key_sample.h"

namespace ask::bench {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// Of the job's keys, no two of which are alike.
KeySample sample_of(std::uint32_t keys) {
    KeySampler sampler(public_seed(1));
    for (std::uint32_t number = 0; number < keys && !sampler.full(); ++number) {
        const auto key = key_of(number);
        sampler.add({key.data(), key.size()}, value_of(number));
    }
    return sampler.finish(keys);
}

// Of a process, its threads that have ended among them.
Result<double> cpu_seconds(pid_t process) {
    clockid_t clock = 0;
    timespec time{};
    if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &time) != 0) {
        return Error(Errc::kInput, "no process " + std::to_string(process));
    }
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

Result<std::vector<double>> cpu_seconds(const std::vector<int>& processes) {
    std::vector<double> all;
    for (const int process : processes) {
        const auto one = cpu_seconds(process);
        ASK_PASS(one);
        all.push_back(*one);
    }
    return all;
}

}  // namespace

Result<> send_filled(const FetchJob& job) {
    auto session = client::SendSession::open(
        {.task = job.task, .to = job.to, .merge_window = 0, .sample = sample_of(job.keys)});
    ASK_PASS(session);
    const auto begun = Clock::now();
    const auto without_place = fill_back(job.pins, job.keys);
    ASK_PASS(without_place);
    const double filled = since(begun);
    for (const std::uint32_t number : *without_place) {
        const auto key = key_of(number);
        ASK_PASS(session->send({key.data(), key.size()}, value_of(number)));
    }
    ASK_PASS(session->flush());
    const auto before = cpu_seconds(job.processes);
    ASK_PASS(before);
    const auto sent = Clock::now();
    ASK_PASS(session->finish());
    const double ended = since(sent);
    const auto after = cpu_seconds(job.processes);
    ASK_PASS(after);
    std::printf("{\"fill_seconds\": %.6f, \"without_place\": %zu, \"end_seconds\": %.6f, \"cpu_seconds\": [",
                filled, without_place->size(), ended);
    for (std::size_t i = 0; i < after->size(); ++i) {
        std::printf("%s%.6f", i == 0 ? "" : ", ", (*after)[i] - (*before)[i]);
    }
    std::puts("]}");
    return {};
}

}  // namespace ask::bench
