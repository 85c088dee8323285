// SPDX-License-Identifier: Apache-2.0
//
// The Unix socket between applications and their host's agent (proto/local.proto): SOCK_SEQPACKET, one
// protobuf message per packet, file descriptors beside it. Whatever arrives is bounded before it is read,
// and no descriptor outlives an error.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace google::protobuf {
class MessageLite;
}

namespace ask {

using Milliseconds = std::chrono::milliseconds;

// Longest message, bytes: fits the kernel's default send buffer of a Unix socket.
inline constexpr std::size_t kMaxLocalMessage = 128 * 1024;
// Most descriptors beside one message.
inline constexpr std::size_t kMaxLocalFds = 4;

// What a call that does not wait came to, if it did not fail.
enum class LocalIo {
    kDone,
    kWouldBlock,  // nothing happened: poll fd() and try again
    kClosed,      // the other side has closed; nothing more will come
};

// Who is at the other end, as the kernel knows it since the connection was made.
struct LocalPeer {
    pid_t pid = 0;
    uid_t uid = 0;
    gid_t gid = 0;
};

// One connection. Non-blocking and close-on-exec. Not thread-safe.
class LocalSocket {
 public:
    LocalSocket() = default;
    // Takes over a connected SOCK_SEQPACKET socket and makes it non-blocking.
    static Result<LocalSocket> adopt(UniqueFd fd);
    // Connects to a listener. kUnavailable: nobody listens there. kDenied: no permission. kDeadline: the
    // listener's queue stayed full. Errors name `path`.
    static Result<LocalSocket> connect(const std::string& path, Milliseconds timeout);
    // Two ends of one connection within a process (tests, benchmarks).
    static Result<std::pair<LocalSocket, LocalSocket>> make_pair();

    // For poll(): readable when a message or the end has come.
    [[nodiscard]] int fd() const { return fd_.get(); }
    explicit operator bool() const { return static_cast<bool>(fd_); }
    void close() { fd_.reset(); }
    // The other side finds the end behind what was sent; what it says can still be received.
    void end_sending();
    [[nodiscard]] Result<LocalPeer> peer() const;

    // Sends a message and duplicates of `fds`. kLimit: message or fds over the limits above. kInternal: the
    // message is empty (zero bytes look like the end to the other side).
    Result<LocalIo> try_send(const google::protobuf::MessageLite& message, std::span<const int> fds = {});
    // Receives one message and the descriptors that came with it; `fds` is emptied first. A caller without
    // `fds` refuses any. kInput: too long, too many descriptors, or not a message of this type; the packet is
    // gone then and its descriptors are closed.
    Result<LocalIo> try_receive(google::protobuf::MessageLite& message, std::vector<UniqueFd>* fds = nullptr);

    // The same, waiting up to `timeout`. kDeadline: nothing happened. kUnavailable: the other side has
    // closed. kAborted: `cancel_fd` (not negative) became readable first.
    Result<> send(const google::protobuf::MessageLite& message, std::span<const int> fds,
                  Milliseconds timeout, int cancel_fd = -1);
    Result<> receive(google::protobuf::MessageLite& message, std::vector<UniqueFd>* fds, Milliseconds timeout,
                     int cancel_fd = -1);

 private:
    explicit LocalSocket(UniqueFd fd) : fd_(std::move(fd)) {}
    UniqueFd fd_;
};

// A listening socket in the file system; destroying it removes its file.
class LocalListener {
 public:
    // Binds and listens. The directory must exist. The socket's owner and the members of `group` may connect.
    // A file left by a dead listener is replaced; kExists if a live one answers there.
    static Result<LocalListener> listen(const std::string& path, gid_t group, int backlog = 64);
    LocalListener(LocalListener&& other) noexcept
        : fd_(std::move(other.fd_)), path_(std::exchange(other.path_, {})) {}
    LocalListener& operator=(LocalListener&& other) noexcept;
    ~LocalListener();

    // Readable when a connection waits.
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] const std::string& path() const { return path_; }
    // The next connection; one without a descriptor (operator bool) when none waits.
    Result<LocalSocket> accept();

 private:
    LocalListener(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
    UniqueFd fd_;
    std::string path_;
};

// The socket file `path`, which is its owner's alone so far, is for the members of `group`, too.
Result<> open_to_group(const std::string& path, gid_t group);

// Why this process may not connect to the socket file `path`: who may, and what to do. kDenied.
Error explain_denied(const std::string& path);

// Waits until `fd` is ready for `events` (POLLIN, POLLOUT), or has failed or been closed: true. false: the
// timeout ran out. kAborted: `cancel_fd` (not negative) became readable first.
Result<bool> wait_fd(int fd, short events, Milliseconds timeout, int cancel_fd = -1);

}  // namespace ask
