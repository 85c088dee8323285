// SPDX-License-Identifier: Apache-2.0
//
// Network namespaces for tests. They have no name and die with the processes in them, so that nothing is left
// behind however a test ends. They need root; without it the test is skipped (see need_root()).
#pragma once

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

namespace ask::test {

// ctest's code for a skipped test.
inline constexpr int kSkip = 77;

// Ends the test program as skipped if it may not make namespaces.
inline void need_root() {
    if (::geteuid() != 0) {
        std::puts("skipped: needs root");
        std::exit(kSkip);  // NOLINT(concurrency-mt-unsafe): before any thread
    }
}

// Runs a shell command, which must succeed.
inline void run(const std::string& command) {
    INFO(command);
    REQUIRE(std::system(command.c_str()) == 0);  // NOLINT(concurrency-mt-unsafe): one thread runs commands
}

// Moves the calling thread into a fresh namespace with nothing but its loopback, which is up.
inline void enter_fresh_netns() {
    REQUIRE(::unshare(CLONE_NEWNET) == 0);
    run("ip link set lo up");
}

// A second namespace, held open by a child process that does nothing else.
class PeerNetns {
 public:
    PeerNetns() {
        std::array<int, 2> ready{};
        REQUIRE(::pipe(ready.data()) == 0);
        pid_ = ::fork();
        REQUIRE(pid_ >= 0);
        if (pid_ == 0) {
            hold(ready[1]);
        }
        ::close(ready[1]);
        char byte = 0;
        REQUIRE(::read(ready[0], &byte, 1) == 1);
        ::close(ready[0]);
    }
    ~PeerNetns() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    PeerNetns(const PeerNetns&) = delete;
    PeerNetns& operator=(const PeerNetns&) = delete;

    // For `ip link ... netns PID`.
    [[nodiscard]] std::string pid() const { return std::to_string(pid_); }
    void run_inside(const std::string& command) const {
        run("nsenter --net=/proc/" + pid() + "/ns/net -- " + command);
    }

 private:
    [[noreturn]] static void hold(int ready) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        const char byte = ::unshare(CLONE_NEWNET) == 0 ? 1 : 0;
        if (byte == 1 && ::write(ready, &byte, 1) == 1) {
            for (;;) {
                ::pause();
            }
        }
        ::_exit(1);
    }

    pid_t pid_ = -1;
};

}  // namespace ask::test
