// SPDX-License-Identifier: Apache-2.0
//
// ask-e2e-kill-in-phase TASKS PID PHASE SECONDS: watches the swap words of all tasks in the pinned map TASKS,
// stops the process when one of them is in the phase, looks again, and kills it if it still is; else lets it
// go on. Exit code 0: killed in that phase. 1: the time has passed.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "lib/abi/map_types.h"
#include "lib/bpf/map.h"
#include "lib/bpf/object.h"

namespace {

using namespace ask;
using Clock = std::chrono::steady_clock;
using Tasks = bpf::ArrayView<ask_task>;

constexpr std::array<std::string_view, 4> kPhases = {"blank", "flipped", "passed", "confirmed"};

// A swap that has begun: every task is in phase blank before.
bool in_phase(const Tasks& tasks, unsigned phase) {
    for (ask_task& task : tasks.span()) {
        const std::uint64_t word = std::atomic_ref(task.swap).load(std::memory_order_acquire);
        if (ASK_SWAP_EPOCH(word) > 0 && ASK_SWAP_PHASE(word) == phase) {
            return true;
        }
    }
    return false;
}

// Until the process is in one of the states, or gone.
bool wait_state(pid_t pid, std::string_view states, Clock::time_point deadline) {
    while (Clock::now() < deadline) {
        std::ifstream status("/proc/" + std::to_string(pid) + "/status");
        if (!status) {
            return true;
        }
        for (std::string line; std::getline(status, line);) {
            if (line.starts_with("State:\t") && states.find(line[7]) != std::string_view::npos) {
                return true;
            }
        }
    }
    return false;
}

int run(const char* path, pid_t pid, unsigned phase, std::chrono::seconds patience) {
    auto fd = bpf::open_pinned(path);
    const auto info = fd.ok() ? bpf::map_info(fd->get()) : Result<bpf_map_info>(fd.error());
    const auto tasks = info.ok() ? Tasks::map(fd->get(), info->max_entries) : Result<Tasks>(info.error());
    if (!tasks.ok()) {
        std::fprintf(stderr, "ask-e2e-kill-in-phase: %s\n", tasks.error().text().c_str());
        return 2;
    }
    const auto deadline = Clock::now() + patience;
    while (Clock::now() < deadline) {
        if (!in_phase(*tasks, phase)) {
            continue;
        }
        ::kill(pid, SIGSTOP);
        if (wait_state(pid, "T", deadline) && in_phase(*tasks, phase)) {
            ::kill(pid, SIGKILL);
            return wait_state(pid, "ZX", Clock::now() + patience) && in_phase(*tasks, phase) ? 0 : 3;
        }
        ::kill(pid, SIGCONT);
    }
    std::fprintf(stderr, "ask-e2e-kill-in-phase: not caught in phase %s\n", kPhases.at(phase).data());
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    const auto phase = argc == 5 ? std::ranges::find(kPhases, argv[3]) : kPhases.end();
    if (phase == kPhases.end()) {
        std::fprintf(stderr,
                     "usage: ask-e2e-kill-in-phase TASKS PID blank|flipped|passed|confirmed SECONDS\n");
        return 2;
    }
    return run(argv[1], static_cast<pid_t>(std::atoi(argv[2])),
               static_cast<unsigned>(phase - kPhases.begin()), std::chrono::seconds(std::atoi(argv[4])));
}
