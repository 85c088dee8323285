// SPDX-License-Identifier: Apache-2.0
//
// The machine that a test of ask-switchd sees: a network and a mount namespace of its own, with a bpffs and
// two ports, p1 and p2, whose other ends are h1 and h2. It all dies with the test's process.
#pragma once

#include <cstdint>
#include <string>

namespace ask::test {

inline constexpr const char* kBpffs = "/mnt/bpf";
inline constexpr const char* kPins = "/mnt/bpf/ask";
inline constexpr const char* kScratch = "/mnt";
inline constexpr std::uint32_t kHost1 = 0xc6120102;  // 198.18.1.2, behind p1
inline constexpr std::uint32_t kHost2 = 0xc6120202;  // 198.18.2.2, behind p2

// Enters fresh namespaces and sets them up; ends the process, as skipped without root. Before any thread.
void enter_environment();

// A file of the build that this program is of, by its path there. None is compiled in, so that what one clone
// of the tree has compiled serves the others.
std::string built(const std::string& path);

struct CommandResult {
    int code = 0;        // exit status
    std::string output;  // both streams
};
// Runs a shell command to its end, which comes within a minute (patience.h).
CommandResult run_command(const std::string& command);
// Runs one that must succeed.
std::string must_run(const std::string& command);

// Lines of `find` below the bpffs, without what every bpffs has.
std::string pinned_paths();

}  // namespace ask::test
