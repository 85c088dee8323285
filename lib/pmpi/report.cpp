// SPDX-License-Identifier: Apache-2.0
#include "lib/pmpi/report.h"

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <mutex>

namespace ask::pmpi {
namespace {

// Counts by kind and way, then communicators with a group and without.
constexpr std::size_t kOpened = kKinds * kWays;
constexpr std::size_t kNotOpened = kOpened + 1;
constexpr std::size_t kCounts = kNotOpened + 1;
std::array<std::atomic<std::uint64_t>, kCounts> counts;

std::mutex reason_mutex;
std::string& reason() {
    static std::string first;
    return first;
}

using Totals = std::array<std::uint64_t, kCounts>;

std::uint64_t of(const Totals& totals, std::size_t kind, std::size_t way) {
    return totals.at(kind * kWays + way);
}

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
        }
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return out;
}

std::string as_json(const Totals& totals, int ranks) {
    std::string text = "{\n";
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
        text += std::string("  \"") + kKindNames.at(kind) + "\": {";
        for (std::size_t way = 0; way < kWays; ++way) {
            text += std::string(way == 0 ? "" : ", ") + "\"" + kWayNames.at(way) +
                    "\": " + std::to_string(of(totals, kind, way));
        }
        text += "},\n";
    }
    return text + "  \"communicators\": {\"groups\": " + std::to_string(totals.at(kOpened)) +
           ", \"without\": " + std::to_string(totals.at(kNotOpened)) + "},\n  \"why_not\": \"" +
           escaped(reason()) + "\",\n  \"ranks\": " + std::to_string(ranks) + "\n}\n";
}

// "allreduce: 12 through the network, 3 by MPI (3 below_threshold)"
std::string line_of(const Totals& totals, std::size_t kind) {
    std::uint64_t others = 0;
    std::string why;
    for (std::size_t way = 1; way < kWays; ++way) {
        const std::uint64_t number = of(totals, kind, way);
        others += number;
        if (number != 0) {
            why += (why.empty() ? "" : ", ") + std::to_string(number) + " " + kWayNames.at(way);
        }
    }
    return std::string(kKindNames.at(kind)) + ": " + std::to_string(of(totals, kind, 0)) +
           " through the network, " + std::to_string(others) + " by MPI" +
           (why.empty() ? "" : " (" + why + ")");
}

}  // namespace

void count(Kind kind, Way way) {
    counts.at(static_cast<std::size_t>(kind) * kWays + static_cast<std::size_t>(way))
        .fetch_add(1, std::memory_order_relaxed);
}

void count_communicator(const std::string& why_not) {
    counts.at(why_not.empty() ? kOpened : kNotOpened).fetch_add(1, std::memory_order_relaxed);
    const std::lock_guard lock(reason_mutex);
    if (reason().empty()) {
        reason() = why_not;
    }
}

void say(const std::string& text) {
    static_cast<void>(std::fputs(("libask_pmpi: " + text + "\n").c_str(), stderr));
}

void report(const Settings& settings) {
    if (settings.verbose == 0 && settings.report == 0) {
        return;
    }
    Totals mine{};
    for (std::size_t at = 0; at < kCounts; ++at) {
        mine.at(at) = counts.at(at).load(std::memory_order_relaxed);
    }
    Totals totals{};
    int rank = 0;
    int ranks = 0;
    // Not PMPI_Reduce: some MPICH hang in MPI_Finalize if ranks come to it at different times (docs/mpi.md).
    if (PMPI_Allreduce(mine.data(), totals.data(), kCounts, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD) !=
            MPI_SUCCESS ||
        PMPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS || rank != 0 ||
        PMPI_Comm_size(MPI_COMM_WORLD, &ranks) != MPI_SUCCESS) {
        return;
    }
    if (settings.verbose != 0) {
        say("calls of " + std::to_string(ranks) + " ranks");
        for (std::size_t kind = 0; kind < kKinds; ++kind) {
            say("  " + line_of(totals, kind));
        }
        if (!reason().empty()) {
            say("  not enabled: " + reason());
        }
    }
    if (const std::string path = variable("ASK_PMPI_REPORT"); !path.empty()) {
        std::ofstream file(path);
        file << as_json(totals, ranks);
        file.close();
        if (!file) {
            say("ASK_PMPI_REPORT: cannot write " + path);
        }
    }
}

}  // namespace ask::pmpi
