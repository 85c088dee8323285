// SPDX-License-Identifier: Apache-2.0
#include "bench/common/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>

namespace ask::bench {
namespace {

std::string cpu_model() {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);) {
        if (line.starts_with("model name")) {
            const std::size_t colon = line.find(": ");
            return colon == std::string::npos ? line : line.substr(colon + 2);
        }
    }
    return "unknown";
}

std::string now_utc() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    std::array<char, 32> text{};
    ::gmtime_r(&now, &parts);
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text.data();
}

}  // namespace

nlohmann::ordered_json describe_machine() {
    utsname system{};
    ::uname(&system);
    const char* commit = std::getenv("ASK_COMMIT");  // NOLINT(concurrency-mt-unsafe): nobody sets it
    const auto memory = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) >>
                        20U;
    return {{"cpu", cpu_model()},
            {"cpus", ::sysconf(_SC_NPROCESSORS_ONLN)},
            {"memory_mib", memory},
            {"kernel", std::string(system.release)},
            {"commit", commit == nullptr ? "unknown" : commit},
            {"date", now_utc()}};
}

}  // namespace ask::bench
