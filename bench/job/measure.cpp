// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>

#include <nlohmann/json.hpp>

#include "bench/job/job.h"

namespace ask::bench {
namespace {

double seconds_of(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

Result<int> measure(const std::string& out, const std::vector<std::string>& command) {
    std::vector<char*> arguments;
    arguments.reserve(command.size() + 1);
    for (const std::string& word : command) {
        arguments.push_back(const_cast<char*>(word.c_str()));  // as execvp has it
    }
    arguments.push_back(nullptr);
    const auto started = std::chrono::steady_clock::now();
    const pid_t child = ::fork();
    if (child < 0) {
        return Error::from_errno(errno, "fork");
    }
    if (child == 0) {
        ::execvp(arguments[0], arguments.data());
        ::_exit(127);
    }
    int status = 0;
    rusage usage{};
    while (::wait4(child, &status, 0, &usage) < 0) {
        if (errno != EINTR) {
            return Error::from_errno(errno, "wait for " + command.front());
        }
    }
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - started;
    std::ofstream file(out);
    file << nlohmann::ordered_json{{"wall", wall.count()},
                                   {"user", seconds_of(usage.ru_utime)},
                                   {"system", seconds_of(usage.ru_stime)}}
                .dump()
         << '\n';
    file.close();
    if (!file) {
        return Error(Errc::kInternal, "cannot write " + out);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace ask::bench
