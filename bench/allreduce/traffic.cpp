// SPDX-License-Identifier: Apache-2.0
#include "bench/allreduce/traffic.h"

#include <fstream>
#include <sstream>
#include <string>

namespace ask::bench {

Traffic traffic() {
    std::ifstream file("/proc/self/net/dev");
    for (std::string line; std::getline(file, line);) {
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos || line.find("eth0") > colon) {
            continue;
        }
        Traffic seen;
        std::istringstream numbers(line.substr(colon + 1));
        numbers >> seen.received.bytes >> seen.received.packets;
        for (std::uint64_t skipped = 0, i = 0; i < 6; ++i) {
            numbers >> skipped;
        }
        numbers >> seen.sent.bytes >> seen.sent.packets;
        return seen;
    }
    return {};
}

nlohmann::ordered_json to_json(const Traffic& traffic) {
    const auto counts = [](const Traffic::Counts& of) {
        return nlohmann::ordered_json{{"bytes", of.bytes}, {"packets", of.packets}};
    };
    return {{"received", counts(traffic.received)}, {"sent", counts(traffic.sent)}};
}

}  // namespace ask::bench
