// SPDX-License-Identifier: Apache-2.0
#include "lib/client/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

namespace ask {

std::size_t page_bytes() {
    return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

Result<UniqueFd> make_shared_memory(const char* name, std::size_t bytes) {
    UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd) {
        return Error::from_errno(errno, "make shared memory");
    }
    if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
        return Error::from_errno(errno, "size shared memory of " + std::to_string(bytes) + " bytes");
    }
    // Without the seals an application could cut the memory off under the agent (SIGBUS).
    if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        return Error::from_errno(errno, "seal shared memory");
    }
    return fd;
}

Result<std::size_t> shared_memory_bytes(const UniqueFd& memory) {
    const int seals = ::fcntl(memory.get(), F_GET_SEALS);
    struct stat info{};
    if (seals < 0 || ::fstat(memory.get(), &info) != 0) {
        return Error::from_errno(errno, "look at shared memory");
    }
    if ((seals & F_SEAL_SHRINK) == 0) {
        return Error(Errc::kInput, "shared memory that may still shrink");
    }
    return static_cast<std::size_t>(info.st_size);
}

Result<WakePipe> make_wake_pipe() {
    std::array<int, 2> fds{-1, -1};
    if (::pipe2(fds.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
        return Error::from_errno(errno, "make a pipe");
    }
    return WakePipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Result<UniqueFd> reopen_for_application(int pipe_fd) {
    const std::string path = "/proc/self/fd/" + std::to_string(pipe_fd);
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (!fd) {
        return Error::from_errno(errno, "open a pipe's other end through " + path);
    }
    return fd;
}

void wake_pipe(int fd) {
    constexpr char kWake = 1;
    const ssize_t written = ::write(fd, &kWake, 1);
    static_cast<void>(written);
}

void drain_pipe(int fd) {
    std::array<char, 64> bytes{};
    // Bounded: who keeps the pipe full gets woken too often, which is its own loss.
    for (int i = 0; i < 16; ++i) {
        if (::read(fd, bytes.data(), bytes.size()) < static_cast<ssize_t>(bytes.size())) {
            return;
        }
    }
}

}  // namespace ask
