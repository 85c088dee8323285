// SPDX-License-Identifier: Apache-2.0
#include "tests/netns/switchd/environment.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <doctest/doctest.h>

#include "tests/support/patience.h"

namespace ask::test {
namespace {

constexpr int kSkip = 77;

[[noreturn]] void give_up(const char* what, int code) {
    std::perror(what);
    std::exit(code);  // NOLINT(concurrency-mt-unsafe): nothing to lose
}

}  // namespace

void enter_environment() {
    if (::geteuid() != 0) {
        std::puts("skipped: needs root");
        std::exit(kSkip);  // NOLINT(concurrency-mt-unsafe): before any thread
    }
    if (::unshare(CLONE_NEWNS | CLONE_NEWNET) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("ask-test", kScratch, "tmpfs", 0, nullptr) != 0 || ::mkdir(kBpffs, 0755) != 0 ||
        ::mount("ask-test", kBpffs, "bpf", 0, nullptr) != 0) {
        give_up("test environment", 1);
    }
    const CommandResult made = run_command(
        "set -e; ip link set lo up\n"
        "for i in 1 2; do\n"
        "ip link add p$i numrxqueues 1 numtxqueues 1 type veth peer name h$i numrxqueues 1 numtxqueues 1\n"
        "ip link set h$i address 02:00:00:00:00:0$i up\n"
        "ip addr add 198.18.$i.1/24 dev p$i; ip link set p$i up\n"
        "ip neigh replace 198.18.$i.2 lladdr 02:00:00:00:00:0$i nud permanent dev p$i\n"
        "done\n"
        // What the daemon answers to hosts ends here, where their calls come from (Daemon::stub_at).
        "ip rule add ipproto tcp sport 4792 lookup 100; ip route add local 198.18.0.0/15 dev lo table 100\n"
        "echo 1 > /proc/sys/net/ipv4/ip_forward");
    if (made.code != 0) {
        std::fprintf(stderr, "test environment: %s\n", made.output.c_str());
        std::exit(1);  // NOLINT(concurrency-mt-unsafe): before any thread
    }
}

std::string built(const std::string& path) {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / path;
}

CommandResult run_command(const std::string& command) {
    const std::string path = std::string(kScratch) + "/command.sh";
    FILE* script = std::fopen(path.c_str(), "w");
    if (script == nullptr) {
        give_up(path.c_str(), 1);
    }
    std::fputs(command.c_str(), script);
    std::fclose(script);
    const std::string seconds = std::to_string(patience(std::chrono::seconds(60)).count());
    // NOLINTNEXTLINE: a test's own command
    FILE* pipe = ::popen(("timeout " + seconds + " bash " + path + " 2>&1").c_str(), "r");
    if (pipe == nullptr) {
        give_up("popen", 1);
    }
    CommandResult result;
    std::array<char, 4096> buffer{};
    for (std::size_t size = 0; (size = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
        result.output.append(buffer.data(), size);
    }
    const int status = ::pclose(pipe);
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
}

std::string must_run(const std::string& command) {
    const CommandResult result = run_command(command);
    REQUIRE_MESSAGE(result.code == 0, command << "\n" << result.output);
    return result.output;
}

std::string pinned_paths() {
    // Where no other bpffs is mounted, iproute2 makes its directories in this one.
    return must_run("cd " + std::string(kBpffs) +
                    " && find . -mindepth 1 -path ./ip -prune -o -path ./tc -prune -o -path ./xdp -prune -o "
                    "! -name '*.debug' -print | sort");
}

}  // namespace ask::test
