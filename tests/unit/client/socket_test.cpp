// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "lib/client/local_socket.h"
#include "proto/local.pb.h"

namespace ask {
namespace {

using namespace std::chrono_literals;

// A directory of its own, gone at the end.
struct TempDir {
    TempDir() {
        std::string name = std::filesystem::temp_directory_path() / "ask-socket-XXXXXX";
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;
    ~TempDir() { std::filesystem::remove_all(path); }
    std::string path;
};

std::size_t open_fds() {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        ++count;
    }
    return count;
}

v1::LocalReply failed(int code, std::string text) {
    v1::LocalReply reply;
    reply.mutable_failed()->set_code(code);
    reply.mutable_failed()->set_error(std::move(text));
    return reply;
}

UniqueFd event() {
    return UniqueFd(::eventfd(0, EFD_CLOEXEC));
}

TEST_CASE("the last words of a peer that closed without listening are heard") {
    auto pair = LocalSocket::make_pair();
    REQUIRE(pair.ok());
    auto& [left, right] = *pair;
    REQUIRE(left.try_send(failed(1, "a request that nobody reads")).ok());
    REQUIRE(right.try_send(failed(9, "all places are taken")).ok());
    {
        const LocalSocket closed = std::move(right);
    }
    v1::LocalReply reply;
    const auto received = left.try_receive(reply);
    REQUIRE(received.ok());
    REQUIRE(*received == LocalIo::kDone);
    CHECK(reply.failed().code() == 9);
    const auto after = left.try_receive(reply);
    REQUIRE(after.ok());
    CHECK(*after == LocalIo::kClosed);
}

TEST_CASE("a message and its descriptors arrive, close-on-exec") {
    auto pair = LocalSocket::make_pair();
    REQUIRE(pair.ok());
    auto& [left, right] = *pair;
    const UniqueFd first = event();
    const UniqueFd second = event();
    const std::array<int, 2> fds{first.get(), second.get()};
    auto sent = left.try_send(failed(4, "no such task"), fds);
    REQUIRE(sent.ok());
    CHECK(*sent == LocalIo::kDone);

    v1::LocalReply reply;
    std::vector<UniqueFd> received;
    REQUIRE(right.receive(reply, &received, 5s).ok());
    CHECK(reply.failed().code() == 4);
    CHECK(reply.failed().error() == "no such task");
    REQUIRE(received.size() == 2);
    CHECK((::fcntl(received[0].get(), F_GETFD) & FD_CLOEXEC) != 0);
    REQUIRE(::eventfd_write(received[1].get(), 41) == 0);
    eventfd_t value = 0;
    REQUIRE(::eventfd_read(second.get(), &value) == 0);
    CHECK(value == 41);
}

TEST_CASE("nothing to read, closed, cancelled and late are told apart") {
    auto pair = LocalSocket::make_pair();
    REQUIRE(pair.ok());
    auto& [left, right] = *pair;
    v1::LocalReply reply;
    CHECK(*right.try_receive(reply) == LocalIo::kWouldBlock);
    CHECK(right.receive(reply, nullptr, 1ms).error().code() == Errc::kDeadline);
    const UniqueFd cancel = event();
    REQUIRE(::eventfd_write(cancel.get(), 1) == 0);
    CHECK(right.receive(reply, nullptr, 10s, cancel.get()).error().code() == Errc::kAborted);
    left.close();
    CHECK(*right.try_receive(reply) == LocalIo::kClosed);
    CHECK(right.receive(reply, nullptr, 10s).error().code() == Errc::kUnavailable);
    CHECK(*right.try_send(failed(1, "x")) == LocalIo::kClosed);
}

TEST_CASE("a peer that does not read fills the socket, and a send waits no longer than told") {
    auto pair = LocalSocket::make_pair();
    REQUIRE(pair.ok());
    const auto message = failed(1, std::string(60'000, 'x'));
    LocalIo io = LocalIo::kDone;
    for (int i = 0; i < 1000 && io == LocalIo::kDone; ++i) {
        auto sent = pair->first.try_send(message);
        REQUIRE(sent.ok());
        io = *sent;
    }
    CHECK(io == LocalIo::kWouldBlock);
    CHECK(pair->first.send(message, {}, 1ms).error().code() == Errc::kDeadline);
}

TEST_CASE("what is over a limit is refused before it is sent") {
    auto pair = LocalSocket::make_pair();
    REQUIRE(pair.ok());
    CHECK(pair->first.try_send(failed(1, std::string(kMaxLocalMessage, 'x'))).error().code() == Errc::kLimit);
    const UniqueFd fd = event();
    const std::array<int, kMaxLocalFds + 1> fds{fd.get(), fd.get(), fd.get(), fd.get(), fd.get()};
    CHECK(pair->first.try_send(failed(1, "x"), fds).error().code() == Errc::kLimit);
    CHECK(pair->first.try_send(v1::LocalReply()).error().code() == Errc::kInternal);
    v1::LocalReply reply;
    CHECK(*pair->second.try_receive(reply) == LocalIo::kWouldBlock);
}

// Sends bytes and descriptors as a hostile peer would.
void send_raw(int fd, std::string bytes, std::size_t count) {
    const UniqueFd passed = event();
    std::vector<char> control(CMSG_SPACE(count * sizeof(int)));
    iovec part{bytes.data(), bytes.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (count > 0) {
        header.msg_control = control.data();
        header.msg_controllen = control.size();
        cmsghdr* message = CMSG_FIRSTHDR(&header);
        message->cmsg_level = SOL_SOCKET;
        message->cmsg_type = SCM_RIGHTS;
        message->cmsg_len = CMSG_LEN(count * sizeof(int));
        for (std::size_t i = 0; i < count; ++i) {
            const int value = passed.get();
            std::memcpy(CMSG_DATA(message) + i * sizeof(int), &value, sizeof(value));
        }
    }
    REQUIRE(::sendmsg(fd, &header, MSG_NOSIGNAL) >= 0);
}

TEST_CASE("a hostile peer's packet is refused whole and leaks no descriptor") {
    auto pair = LocalSocket::make_pair();
    REQUIRE(pair.ok());
    const int room = 4 * static_cast<int>(kMaxLocalMessage);
    REQUIRE(::setsockopt(pair->first.fd(), SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) == 0);
    const std::size_t before = open_fds();
    v1::LocalReply reply;
    std::vector<UniqueFd> fds;
    const std::string good = failed(1, "x").SerializeAsString();
    SUBCASE("too many descriptors") {
        send_raw(pair->first.fd(), good, kMaxLocalFds + 20);
        CHECK(pair->second.try_receive(reply, &fds).error().code() == Errc::kInput);
    }
    SUBCASE("descriptors where none belong") {
        send_raw(pair->first.fd(), good, 2);
        CHECK(pair->second.try_receive(reply).error().code() == Errc::kInput);
    }
    SUBCASE("not a message") {
        send_raw(pair->first.fd(), "\xff\xff\xff\xff\xff", 2);
        CHECK(pair->second.try_receive(reply, &fds).error().code() == Errc::kInput);
    }
    SUBCASE("too long") {
        send_raw(pair->first.fd(), std::string(kMaxLocalMessage + 1, 'x'), 2);
        CHECK(pair->second.try_receive(reply, &fds).error().code() == Errc::kInput);
    }
    SUBCASE("empty, with descriptors") {
        send_raw(pair->first.fd(), "", 2);
        CHECK(*pair->second.try_receive(reply, &fds) == LocalIo::kClosed);
    }
    CHECK(fds.empty());
    CHECK(open_fds() == before);
    CHECK(*pair->second.try_receive(reply, &fds) == LocalIo::kWouldBlock);
}

TEST_CASE("a listener takes connections and leaves nothing behind") {
    const TempDir dir;
    const std::string path = dir.path + "/agent.sock";
    {
        auto listener = LocalListener::listen(path, ::getgid());
        REQUIRE(listener.ok());
        struct stat info{};
        REQUIRE(::stat(path.c_str(), &info) == 0);
        CHECK((info.st_mode & 0777) == 0660);
        auto none = listener->accept();
        REQUIRE(none.ok());
        CHECK_FALSE(static_cast<bool>(*none));
        auto client = LocalSocket::connect(path, 5s);
        REQUIRE(client.ok());
        auto server = listener->accept();
        REQUIRE(server.ok());
        REQUIRE(static_cast<bool>(*server));
        auto peer = server->peer();
        REQUIRE(peer.ok());
        CHECK(peer->pid == ::getpid());
        CHECK(peer->uid == ::getuid());
        CHECK(LocalListener::listen(path, ::getgid()).error().code() == Errc::kExists);
        LocalListener moved = *std::move(listener);
        CHECK(LocalSocket::connect(path, 5s).ok());
    }
    CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("a dead listener's file is replaced, anything else is left alone") {
    const TempDir dir;
    const std::string path = dir.path + "/agent.sock";
    SUBCASE("stale socket") {
        {
            auto listener = LocalListener::listen(path, ::getgid());
            REQUIRE(listener.ok());
            REQUIRE(::rename(path.c_str(), (path + ".kept").c_str()) == 0);
        }
        REQUIRE(::rename((path + ".kept").c_str(), path.c_str()) == 0);
        CHECK(LocalSocket::connect(path, 1s).error().code() == Errc::kUnavailable);
        CHECK(LocalListener::listen(path, ::getgid()).ok());
    }
    SUBCASE("a file") {
        const UniqueFd file(::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        REQUIRE(file);
        CHECK(LocalListener::listen(path, ::getgid()).error().code() == Errc::kExists);
        CHECK(std::filesystem::exists(path));
    }
}

TEST_CASE("connecting fails by name") {
    const TempDir dir;
    auto missing = LocalSocket::connect(dir.path + "/none.sock", 1s);
    REQUIRE_FALSE(missing.ok());
    CHECK(missing.error().code() == Errc::kUnavailable);
    CHECK(missing.error().text().find("none.sock") != std::string::npos);
    CHECK(LocalSocket::connect(std::string(300, 'x'), 1s).error().code() == Errc::kUsage);
    CHECK(LocalSocket::connect("", 1s).error().code() == Errc::kUsage);
}

TEST_CASE("a listener that does not accept costs a connect no more than its timeout") {
    const TempDir dir;
    auto listener = LocalListener::listen(dir.path + "/busy.sock", ::getgid(), 0);
    REQUIRE(listener.ok());
    std::vector<LocalSocket> held;
    auto next = LocalSocket::connect(listener->path(), 10ms);
    while (next.ok() && held.size() < 16) {
        held.push_back(*std::move(next));
        next = LocalSocket::connect(listener->path(), 10ms);
    }
    REQUIRE_FALSE(next.ok());
    CHECK(next.error().code() == Errc::kDeadline);
}

}  // namespace
}  // namespace ask
