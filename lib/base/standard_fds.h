// SPDX-License-Identifier: Apache-2.0
//
// Descriptors 0, 1 and 2 are the standard streams' and nobody else's.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace ask {

// Call it before anything is opened: whoever started us may have closed them (`>&-`), and the next socket,
// map or file would then take the number, and get what is meant for people. A closed input gives no bytes and
// a closed output takes none: either fails with EBADF. A closed standard error swallows what is said.
inline void open_standard_fds() {
    constexpr int kModes[] = {O_WRONLY, O_RDONLY, O_RDWR};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
        if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            // The lowest free number is this one, as those below are open.
            ::open("/dev/null", kModes[fd]);  // NOLINT(cppcoreguidelines-pro-type-vararg)
        }
    }
}

// Whether bytes can be written to `fd` at all.
inline bool is_writable(int fd) {
    const int flags = ::fcntl(fd, F_GETFL);  // NOLINT(cppcoreguidelines-pro-type-vararg)
    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

}  // namespace ask
