// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/doctor/layout.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <system_error>

namespace ask::cli::doctor {
namespace {

// More than any machine has: a file that says otherwise is taken for one that says nothing.
constexpr unsigned kMostCpus = 1U << 16U;
constexpr int kMostNodes = 1 << 10;

std::string first_line(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

// True: all of the text is one.
template <typename Number>
bool read_number(std::string_view text, Number& number) {
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    return read.ec == std::errc() && read.ptr == end;
}

// "3" or "0-3".
bool add_range(std::string_view range, Cpus& cpus) {
    const auto dash = range.find('-');
    unsigned first = 0;
    unsigned last = 0;
    if (!read_number(range.substr(0, dash), first) ||
        !read_number(dash == std::string_view::npos ? range : range.substr(dash + 1), last) || last < first ||
        last >= kMostCpus) {
        return false;
    }
    for (unsigned cpu = first; cpu <= last; ++cpu) {
        cpus.insert(cpu);
    }
    return true;
}

// Of virtio the card is one further up.
std::filesystem::path interrupts_of(const std::filesystem::path& device) {
    std::error_code ignored;
    const auto own = device / "msi_irqs";
    return std::filesystem::is_directory(own, ignored)
               ? own
               : std::filesystem::canonical(device, ignored).parent_path() / "msi_irqs";
}

}  // namespace

Cpus parse_cpus(std::string_view list) {
    Cpus cpus;
    while (!list.empty()) {
        const auto comma = list.find(',');
        if (!add_range(list.substr(0, comma), cpus)) {
            return {};
        }
        list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
    }
    return cpus;
}

std::string cpus_text(const Cpus& cpus) {
    std::string text;
    for (auto at = cpus.begin(); at != cpus.end();) {
        const unsigned first = *at;
        unsigned last = first;
        for (++at; at != cpus.end() && *at == last + 1; ++at) {
            last = *at;
        }
        text += text.empty() ? "" : ",";
        text += std::to_string(first);
        text += last == first ? "" : "-" + std::to_string(last);
    }
    return text;
}

CardLayout look_at_card(const std::string& interface, const std::filesystem::path& root) {
    CardLayout card;
    const auto device = root / "sys/class/net" / interface / "device";
    int node = -1;
    if (read_number(first_line(device / "numa_node"), node) ||
        read_number(first_line(device / "../numa_node"), node)) {
        card.node = node;
    }
    const auto is_set = [&](const char* name) {
        unsigned value = 0;
        return read_number(first_line(root / "sys/class/net" / interface / name), value) && value > 0;
    };
    card.defers = is_set("napi_defer_hard_irqs") && is_set("gro_flush_timeout");
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(interrupts_of(device), none)) {
        const auto line = root / "proc/irq" / entry.path().filename();
        const std::string effective = first_line(line / "effective_affinity_list");
        const Cpus cpus = parse_cpus(effective.empty() ? first_line(line / "smp_affinity_list") : effective);
        if (!cpus.empty()) {
            card.interrupts.push_back(cpus);
        }
    }
    std::ranges::sort(card.interrupts);
    return card;
}

std::vector<Cpus> look_at_nodes(const std::filesystem::path& root) {
    std::vector<Cpus> nodes;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(root / "sys/devices/system/node", none)) {
        const std::string name = entry.path().filename();
        int number = 0;
        if (name.starts_with("node") && read_number(std::string_view(name).substr(4), number) &&
            number >= 0 && number < kMostNodes) {
            const auto at = static_cast<std::size_t>(number);
            nodes.resize(std::max(nodes.size(), at + 1));
            nodes[at] = parse_cpus(first_line(entry.path() / "cpulist"));
        }
    }
    return nodes;
}

Cpus cpus_of_process(const std::string& process, const std::filesystem::path& root) {
    static constexpr std::string_view kLine = "Cpus_allowed_list:\t";
    std::ifstream file(root / "proc" / process / "status");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with(kLine)) {
            return parse_cpus(std::string_view(line).substr(kLine.size()));
        }
    }
    return {};
}

}  // namespace ask::cli::doctor
