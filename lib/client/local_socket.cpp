// SPDX-License-Identifier: Apache-2.0
#include "lib/client/local_socket.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>

#include <google/protobuf/message_lite.h>

namespace ask {
namespace {

using Clock = std::chrono::steady_clock;

// Room for the descriptors of one message; the kernel installs no more than fit.
struct ControlBuffer {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxLocalFds * sizeof(int))> bytes{};
};

Result<sockaddr_un> address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof(address.sun_path)) {
        return Error(Errc::kUsage, "socket path '" + path + "' must have 1 to " +
                                       std::to_string(sizeof(address.sun_path) - 1) + " bytes");
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    return address;
}

const sockaddr* generic(const sockaddr_un& address) {
    return reinterpret_cast<const sockaddr*>(&address);
}

Result<UniqueFd> make_socket(int flags) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
    if (!fd) {
        return Error::from_errno(errno, "make a Unix socket");
    }
    return fd;
}

Result<> set_non_blocking(int fd) {
    const int flags = ::fcntl(fd, F_GETFL);
    if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        return Error::from_errno(errno, "make a socket non-blocking");
    }
    return {};
}

// A peer that went away shows up in several ways, depending on when it went.
bool means_closed(int err) {
    return err == EPIPE || err == ECONNRESET || err == ENOTCONN;
}
bool means_would_block(int err) {
    return err == EAGAIN || err == EINTR;
}

std::string group_name(gid_t gid) {
    constexpr std::size_t kRoom = 16384;
    std::vector<char> room(kRoom);
    group entry{};
    group* found = nullptr;
    ::getgrgid_r(gid, &entry, room.data(), room.size(), &found);
    return found != nullptr ? std::string(found->gr_name) : std::to_string(gid);
}

std::vector<UniqueFd> take_fds(msghdr& header) {
    std::vector<UniqueFd> fds;
    for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
            fds.emplace_back(fd);
        }
    }
    return fds;
}

void put_fds(msghdr& header, std::span<const int> fds, ControlBuffer& control) {
    header.msg_control = control.bytes.data();
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size_bytes());
}

Milliseconds left_until(Clock::time_point deadline) {
    const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now());
    return std::max(left, Milliseconds(0));
}

// Calls `attempt` (a Result<LocalIo>) until it is done, waiting for `events` in between.
template <typename Attempt>
Result<> repeat(int fd, short events, Milliseconds timeout, int cancel_fd, Attempt&& attempt) {
    const auto deadline = Clock::now() + timeout;
    for (;;) {
        auto io = attempt();
        if (!io) {
            return std::move(io).error();
        }
        if (*io == LocalIo::kDone) {
            return {};
        }
        if (*io == LocalIo::kClosed) {
            return Error(Errc::kUnavailable, "the other side has closed the connection");
        }
        auto ready = wait_fd(fd, events, left_until(deadline), cancel_fd);
        if (!ready) {
            return std::move(ready).error();
        }
        if (!*ready) {
            return Error(Errc::kDeadline, "nothing happened for " + std::to_string(timeout.count()) + " ms");
        }
    }
}

// Whether somebody accepts connections on the socket file at `address`.
bool answers(const sockaddr_un& address) {
    auto probe = make_socket(SOCK_NONBLOCK);
    if (!probe) {
        return true;
    }
    return ::connect(probe->get(), generic(address), sizeof(address)) == 0 || errno == EAGAIN;
}

// Removes the socket file that a dead listener left behind.
Result<> clear_stale(const sockaddr_un& address, const std::string& path) {
    struct stat info{};
    if (::lstat(path.c_str(), &info) != 0) {
        return errno == ENOENT ? Result<>() : Error::from_errno(errno, path);
    }
    if (!S_ISSOCK(info.st_mode)) {
        return Error(Errc::kExists, path + " exists and is no socket: choose another path");
    }
    if (answers(address)) {
        return Error(Errc::kExists,
                     "another process listens at " + path + ": stop it or choose another path");
    }
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
        return Error::from_errno(errno, "remove the stale socket " + path);
    }
    return {};
}

}  // namespace

Result<bool> wait_fd(int fd, short events, Milliseconds timeout, int cancel_fd) {
    const auto deadline = Clock::now() + timeout;
    for (;;) {
        // poll() takes an int; a longer wait is several.
        const auto left = std::min(left_until(deadline), Milliseconds(INT_MAX));
        std::array<pollfd, 2> polls{pollfd{fd, events, 0}, pollfd{cancel_fd, POLLIN, 0}};
        const int ready = ::poll(polls.data(), polls.size(), static_cast<int>(left.count()));
        if (ready < 0 && errno != EINTR) {
            return Error::from_errno(errno, "wait for a file descriptor");
        }
        if (ready > 0 && polls[1].revents != 0) {
            return Error(Errc::kAborted, "interrupted");
        }
        if (ready > 0) {
            return true;
        }
        if (Clock::now() >= deadline) {
            return false;
        }
    }
}

Result<LocalSocket> LocalSocket::adopt(UniqueFd fd) {
    ASK_TRY(set_non_blocking(fd.get()), "local socket");
    return LocalSocket(std::move(fd));
}

Result<LocalSocket> LocalSocket::connect(const std::string& path, Milliseconds timeout) {
    auto address = address_of(path);
    if (!address) {
        return std::move(address).error();
    }
    auto fd = make_socket(0);
    if (!fd) {
        return std::move(fd).error();
    }
    // A Unix connect() waits only while the listener's queue is full, and as long as a send may.
    const auto micros = std::chrono::microseconds(std::max(timeout, Milliseconds(1)));
    timeval limit{};
    limit.tv_sec = static_cast<time_t>(micros.count() / 1'000'000);
    limit.tv_usec = static_cast<suseconds_t>(micros.count() % 1'000'000);
    if (::setsockopt(fd->get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0) {
        return Error::from_errno(errno, "set a connect timeout");
    }
    int rc = 0;
    do {
        rc = ::connect(fd->get(), generic(*address), sizeof(*address));
    } while (rc != 0 && errno == EINTR);
    if (rc == 0) {
        return adopt(*std::move(fd));
    }
    const int err = errno;
    if (err == ENOENT || err == ENOTDIR || err == ECONNREFUSED) {
        return Error(Errc::kUnavailable, "nobody listens at " + path);
    }
    if (err == EAGAIN) {
        return Error(Errc::kDeadline, path + " took no connection for " + std::to_string(timeout.count()) +
                                          " ms: its listener is busy or hangs");
    }
    if (err == EPROTOTYPE) {
        return Error(Errc::kUsage, path + " is a socket of another kind");
    }
    if (err == EACCES || err == EPERM) {
        return explain_denied(path);
    }
    return Error::from_errno(err, "connect to " + path);
}

Result<std::pair<LocalSocket, LocalSocket>> LocalSocket::make_pair() {
    std::array<int, 2> fds{-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()) != 0) {
        return Error::from_errno(errno, "make a socket pair");
    }
    return std::pair(LocalSocket(UniqueFd(fds[0])), LocalSocket(UniqueFd(fds[1])));
}

Result<LocalPeer> LocalSocket::peer() const {
    ucred cred{};
    socklen_t length = sizeof(cred);
    if (::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &cred, &length) != 0) {
        return Error::from_errno(errno, "ask who is at the other end");
    }
    return LocalPeer{cred.pid, cred.uid, cred.gid};
}

Result<LocalIo> LocalSocket::try_send(const google::protobuf::MessageLite& message,
                                      std::span<const int> fds) {
    const std::size_t size = message.ByteSizeLong();
    if (size > kMaxLocalMessage || fds.size() > kMaxLocalFds) {
        return Error(Errc::kLimit, "message of " + std::to_string(size) + " bytes with " +
                                       std::to_string(fds.size()) + " descriptors; the limits are " +
                                       std::to_string(kMaxLocalMessage) + " and " +
                                       std::to_string(kMaxLocalFds));
    }
    if (size == 0) {
        return Error(Errc::kInternal, "an empty message looks like the end of the connection");
    }
    std::string bytes;
    if (!message.SerializeToString(&bytes)) {
        return Error(Errc::kInternal, "protobuf cannot serialise " + message.GetTypeName());
    }
    iovec part{bytes.data(), bytes.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    ControlBuffer control;
    if (!fds.empty()) {
        put_fds(header, fds, control);
    }
    if (::sendmsg(fd_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
        return LocalIo::kDone;
    }
    const int err = errno;
    if (means_would_block(err)) {
        return LocalIo::kWouldBlock;
    }
    if (means_closed(err)) {
        return LocalIo::kClosed;
    }
    return Error::from_errno(err, "send " + message.GetTypeName());
}

Result<LocalIo> LocalSocket::try_receive(google::protobuf::MessageLite& message, std::vector<UniqueFd>* fds) {
    if (fds != nullptr) {
        fds->clear();
    }
    const auto buffer = std::make_unique_for_overwrite<char[]>(kMaxLocalMessage);
    iovec part{buffer.get(), kMaxLocalMessage};
    ControlBuffer control;
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.bytes.data();
    header.msg_controllen = control.bytes.size();
    ssize_t size = ::recvmsg(fd_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size < 0 && errno == ECONNRESET) {
        // It closed without reading all that was sent to it: the kernel says so once, before what it had to
        // say.
        size = ::recvmsg(fd_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    }
    if (size < 0) {
        const int err = errno;
        if (means_would_block(err)) {
            return LocalIo::kWouldBlock;
        }
        if (means_closed(err)) {
            return LocalIo::kClosed;
        }
        return Error::from_errno(err, "receive " + message.GetTypeName());
    }
    // From here on every descriptor has an owner, whatever comes next.
    std::vector<UniqueFd> received = take_fds(header);
    if (size == 0) {
        return LocalIo::kClosed;
    }
    if ((header.msg_flags & MSG_TRUNC) != 0) {
        return Error(Errc::kInput, "a message is longer than " + std::to_string(kMaxLocalMessage) + " bytes");
    }
    if ((header.msg_flags & MSG_CTRUNC) != 0) {
        return Error(Errc::kInput, "a message carries more than " + std::to_string(kMaxLocalFds) +
                                       " descriptors, or this process has too many open (ulimit -n)");
    }
    if (fds == nullptr && !received.empty()) {
        return Error(Errc::kInput, "a message carries descriptors where none belong");
    }
    if (!message.ParseFromArray(buffer.get(), static_cast<int>(size))) {
        return Error(Errc::kInput, "a packet is no " + message.GetTypeName());
    }
    if (fds != nullptr) {
        *fds = std::move(received);
    }
    return LocalIo::kDone;
}

void LocalSocket::end_sending() {
    ::shutdown(fd_.get(), SHUT_WR);
}

Result<> LocalSocket::send(const google::protobuf::MessageLite& message, std::span<const int> fds,
                           Milliseconds timeout, int cancel_fd) {
    return repeat(fd(), POLLOUT, timeout, cancel_fd, [&] { return try_send(message, fds); });
}

Result<> LocalSocket::receive(google::protobuf::MessageLite& message, std::vector<UniqueFd>* fds,
                              Milliseconds timeout, int cancel_fd) {
    return repeat(fd(), POLLIN, timeout, cancel_fd, [&] { return try_receive(message, fds); });
}

Result<> open_to_group(const std::string& path, gid_t group) {
    constexpr mode_t kMode = S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP;
    // The group first: the former one gets nothing.
    if (::chown(path.c_str(), static_cast<uid_t>(-1), group) != 0) {
        return Error::from_errno(errno, "give " + path + " to group " + group_name(group));
    }
    if (::chmod(path.c_str(), kMode) != 0) {
        return Error::from_errno(errno, "set the permissions of " + path);
    }
    return {};
}

Error explain_denied(const std::string& path) {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) {
        return {Errc::kDenied,
                "no permission for " + path +
                    ": its directory is closed to you: run as root, or as a member of the agent's "
                    "socket_group with access to the directory"};
    }
    const std::string group = group_name(info.st_gid);
    if ((info.st_mode & (S_IRGRP | S_IWGRP)) != (S_IRGRP | S_IWGRP) || info.st_gid == 0) {
        return {Errc::kDenied,
                "no permission for " + path + ": it is for root (group " + group +
                    "): run as root, or set socket_group in the agent's configuration to a group "
                    "of yours"};
    }
    return {Errc::kDenied, "no permission for " + path + ": it is for root and members of the group " +
                               group + ": become one (usermod -aG " + group +
                               " USER, then log in anew), or run as root"};
}

Result<LocalListener> LocalListener::listen(const std::string& path, gid_t group, int backlog) {
    auto address = address_of(path);
    if (!address) {
        return std::move(address).error();
    }
    ASK_TRY(clear_stale(*address, path), "listen");
    auto fd = make_socket(SOCK_NONBLOCK);
    if (!fd) {
        return std::move(fd).error();
    }
    if (::bind(fd->get(), generic(*address), sizeof(*address)) != 0) {
        const int err = errno;
        if (err == EADDRINUSE) {
            return Error(Errc::kExists, "listen at " + path + ": another process has just taken it");
        }
        return Error::from_errno(err, "listen at " + path + " (its directory must exist and be writable)");
    }
    LocalListener listener(*std::move(fd), path);
    // Nobody can connect before listen(), so nobody slips in under the umask's permissions.
    ASK_PASS(open_to_group(path, group));
    if (::listen(listener.fd(), backlog) != 0) {
        return Error::from_errno(errno, "listen at " + path);
    }
    return listener;
}

LocalListener& LocalListener::operator=(LocalListener&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(path_, other.path_);
    return *this;
}

LocalListener::~LocalListener() {
    if (fd_ && !path_.empty()) {
        ::unlink(path_.c_str());
    }
}

Result<LocalSocket> LocalListener::accept() {
    UniqueFd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
        return LocalSocket::adopt(std::move(fd));
    }
    const int err = errno;
    if (means_would_block(err) || err == ECONNABORTED) {
        return LocalSocket();
    }
    return Error::from_errno(err, "accept a connection at " + path_);
}

}  // namespace ask
