// SPDX-License-Identifier: Apache-2.0
#include "lib/pmpi/settings.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace ask::pmpi {
namespace {

constexpr std::uint64_t kDefaultThreshold = 65536;  // where the network pays on slow links (docs/mpi.md)
constexpr std::uint32_t kDefaultJoinSeconds = 30;
constexpr std::uint64_t kLongestJoinSeconds = 3600;
constexpr std::size_t kLongestPrefix = 40;  // a group's name has 63, of which a number takes 17
constexpr std::uint32_t kAllKinds = (1U << kKinds) - 1;
// Not barriers: MPI's own are faster (docs/mpi.md).
constexpr std::uint32_t kDefaultKinds = kAllKinds & ~(1U << static_cast<unsigned>(Kind::kBarrier));

void complain(Settings& settings, const std::string& text) {
    if (settings.trouble[0] == '\0') {
        put_text(settings.trouble, text.c_str());
    }
}

std::uint64_t number(Settings& settings, const char* name, std::uint64_t if_not_set, std::uint64_t most) {
    const std::string_view text = variable(name);
    if (text.empty()) {
        return if_not_set;
    }
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value > most) {
        complain(settings, std::string(name) + " must be a number up to " + std::to_string(most) + ", not '" +
                               std::string(text) + "'");
        return if_not_set;
    }
    return value;
}

bool is_name(std::string_view text) {
    return !text.empty() && text.find_first_not_of(
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "abcdefghijklmnopqrstuvwxyz0123456789_-") == text.npos;
}

// A list of kinds, by comma.
std::uint32_t operations(Settings& settings) {
    std::string_view rest = variable("ASK_PMPI_OPS");
    if (rest.empty()) {
        return kDefaultKinds;
    }
    std::uint32_t chosen = 0;
    for (bool more = true; more;) {
        const auto comma = rest.find(',');
        const auto word = rest.substr(0, comma);
        std::size_t kind = 0;
        while (kind < kKinds && word != kKindNames.at(kind)) {
            ++kind;
        }
        if (kind == kKinds) {
            complain(settings, "ASK_PMPI_OPS is a list of allreduce, reduce, bcast and barrier, not '" +
                                   std::string(word) + "'");
            return 0;
        }
        chosen |= 1U << kind;
        more = comma != std::string_view::npos;
        rest.remove_prefix(more ? comma + 1 : rest.size());
    }
    return chosen;
}

}  // namespace

const char* variable(const char* name) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): MPI_Init or a collective runs, and nobody may change it then.
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

Settings settings_of_environment() {
    Settings settings{};
    put_text(settings.root, variable("ASK_PMPI_ROOT"));
    const std::string_view prefix = variable("ASK_PMPI_GROUP");
    put_text(settings.prefix, prefix.empty() ? "mpi" : prefix.data());
    if (!prefix.empty() && (!is_name(prefix) || prefix.size() > kLongestPrefix)) {
        complain(settings, "ASK_PMPI_GROUP must be 1 to " + std::to_string(kLongestPrefix) +
                               " of A-Z a-z 0-9 _ -, not '" + std::string(prefix) + "'");
    }
    if (std::strlen(variable("ASK_PMPI_ROOT")) >= kHostLength) {
        complain(settings, "ASK_PMPI_ROOT is no name of a host: it is too long");
    }
    settings.threshold = number(settings, "ASK_PMPI_THRESHOLD", kDefaultThreshold, UINT64_MAX);
    settings.operations = operations(settings);
    settings.verbose = static_cast<std::uint32_t>(number(settings, "ASK_PMPI_VERBOSE", 0, 2));
    settings.join_seconds = static_cast<std::uint32_t>(
        number(settings, "ASK_PMPI_JOIN", kDefaultJoinSeconds, kLongestJoinSeconds));
    if (settings.trouble[0] != '\0') {
        // Every call then comes to a communicator, which says that it is not enabled, and why.
        settings.threshold = 0;
        settings.operations = kAllKinds;
    }
    settings.report = *variable("ASK_PMPI_REPORT") == '\0' ? 0 : 1;
    return settings;
}

}  // namespace ask::pmpi
