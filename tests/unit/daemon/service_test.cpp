// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/service.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include <bpf/libbpf.h>
#include <doctest/doctest.h>

#include "lib/daemon/grpc_status.h"
#include "lib/daemon/log.h"

TEST_CASE("signals arrive as events, and waiting ends at its timeout") {
    auto events = ask::SignalEvents::create({SIGUSR1, SIGUSR2});
    REQUIRE(events.ok());
    auto none = events->wait(std::chrono::milliseconds(0));
    REQUIRE(none.ok());
    CHECK_FALSE(none->has_value());
    // To this thread: gRPC's, which other cases have left, do not block it.
    REQUIRE(::raise(SIGUSR2) == 0);
    auto got = events->wait(std::chrono::seconds(5));
    REQUIRE(got.ok());
    REQUIRE(got->has_value());
    CHECK(**got == SIGUSR2);
}

TEST_CASE("notifications reach the supervisor's socket") {
    const ask::UniqueFd listener(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = "@ask-notify-test-" + std::to_string(::getpid());
    std::memcpy(&address.sun_path[1], path.data() + 1, path.size() - 1);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0);
    REQUIRE(::setenv("NOTIFY_SOCKET", path.c_str(), 1) == 0);

    const auto received = [&listener] {
        char buffer[256] = {};
        const ssize_t size = ::recv(listener.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
        return size < 0 ? std::string() : std::string(buffer, static_cast<std::size_t>(size));
    };
    ask::notify_ready("2 ports");
    CHECK(received() == "READY=1\nSTATUS=2 ports");
    ask::notify_watchdog();
    CHECK(received() == "WATCHDOG=1");
    ask::notify_stopping();
    CHECK(received() == "STOPPING=1");
    ::unsetenv("NOTIFY_SOCKET");
}

TEST_CASE("the watchdog interval is half of what the supervisor asks for") {
    ::unsetenv("WATCHDOG_USEC");
    CHECK_FALSE(ask::watchdog_interval().has_value());
    ::setenv("WATCHDOG_USEC", "3000000", 1);
    ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
    REQUIRE(ask::watchdog_interval().has_value());
    CHECK(ask::watchdog_interval()->count() == 1500);
    ::unsetenv("WATCHDOG_USEC");
    ::unsetenv("WATCHDOG_PID");
}

// In a child, since there is no way back.
TEST_CASE("a daemon's memory, with its keys, is for nobody when it dies, nor before") {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const bool before = ::prctl(PR_GET_DUMPABLE) == 1;
        ask::keep_memory_private();
        rlimit core{};
        ::getrlimit(RLIMIT_CORE, &core);
        ::_exit(before && ::prctl(PR_GET_DUMPABLE) == 0 && core.rlim_cur == 0 && core.rlim_max == 0 ? 0 : 1);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

TEST_CASE("an error survives gRPC with its class and text") {
    for (int code = 1; code <= static_cast<int>(ask::Errc::kOverflow); code++) {
        const ask::Error error(static_cast<ask::Errc>(code), "task x: it broke");
        const ask::Error back = ask::from_status(ask::to_status(error), "switch s");
        CHECK(back.text() == "switch s: task x: it broke");
        if (error.code() == ask::Errc::kUsage) {
            CHECK(back.code() == ask::Errc::kInput);
        } else {
            CHECK(back.code() == error.code());
        }
    }
}

TEST_CASE("what a peer says in a status is fit for a terminal") {
    const std::string said = "no\r\x1b]0;owned\x07 \xe2\x80\xaetxt.exe\nreceiver h4: committed";
    const ask::Error error = ask::from_status({grpc::StatusCode::ABORTED, said}, "switch s");
    CHECK(error.text() ==
          "switch s: no\\x0d\\x1b]0;owned\\x07 \\xe2\\x80\\xaetxt.exe\\x0areceiver h4: committed");
    const ask::Error longer =
        ask::from_status({grpc::StatusCode::ABORTED, std::string(1U << 20U, '\x1b')}, "switch s");
    CHECK(longer.text().size() <= 1024 + 10);
}

TEST_CASE("the log takes its levels and keeps what libbpf says while asked to") {
    for (const std::string& level : ask::log_levels()) {
        CHECK(ask::set_up_log("ask-test", level).ok());
    }
    CHECK_FALSE(ask::set_up_log("ask-test", "loud").ok());
    const char garbage[] = "not an object";
    const auto open = [&garbage] { return bpf_object__open_mem(garbage, sizeof(garbage), nullptr); };
    CHECK(open() == nullptr);
    const ask::LibbpfCapture capture;
    CHECK(capture.text().empty());
    CHECK(open() == nullptr);
    CHECK(capture.text().find("libbpf") != std::string::npos);
}
