// SPDX-License-Identifier: Apache-2.0
//
// Which CPUs serve a card, and which memory it is next to, as the kernel's files have it.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ask::cli::doctor {

using Cpus = std::set<unsigned>;

// As the kernel lists them: "0-3,8". What is no list is none.
[[nodiscard]] Cpus parse_cpus(std::string_view list);
// The same backwards.
[[nodiscard]] std::string cpus_text(const Cpus& cpus);

struct CardLayout {
    int node = -1;                 // of memory, that the card is next to; -1: it is next to none, or not said
    std::vector<Cpus> interrupts;  // of each, the CPUs that it may be served by
    bool defers = false;           // its interrupts wait while somebody polls it
};

// `root`: in whose /sys and /proc to look.
[[nodiscard]] CardLayout look_at_card(const std::string& interface, const std::filesystem::path& root = "/");
// The CPUs of each node of memory, by its number; one at most: there is nothing to lay out.
[[nodiscard]] std::vector<Cpus> look_at_nodes(const std::filesystem::path& root = "/");
// That a process may run on.
[[nodiscard]] Cpus cpus_of_process(const std::string& process, const std::filesystem::path& root = "/");

}  // namespace ask::cli::doctor
