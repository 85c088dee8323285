// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/journal.h"

#include <endian.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace ask {

bool is_journal_stream(const char* variable, int fd) {
    struct stat about{};
    if (variable == nullptr || ::fstat(fd, &about) != 0) {
        return false;
    }
    return std::to_string(about.st_dev) + ":" + std::to_string(about.st_ino) == variable;
}

std::string journal_message(const std::vector<JournalField>& fields) {
    std::string message;
    for (const auto& [name, value] : fields) {
        message += name;
        if (value.find('\n') == std::string_view::npos) {
            message += '=';
        } else {
            const std::uint64_t size = htole64(value.size());
            message += '\n';
            message.append(reinterpret_cast<const char*>(&size), sizeof(size));
        }
        message += value;
        message += '\n';
    }
    return message;
}

Result<std::shared_ptr<JournalSocket>> JournalSocket::connect(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) {
        return Error(Errc::kUsage, path + ": too long for a socket's name");
    }
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd) {
        return Error::from_errno(errno, "socket");
    }
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        return Error::from_errno(errno, path);
    }
    return std::make_shared<JournalSocket>(std::move(fd));
}

bool JournalSocket::send(std::string_view message) const {
    // Waits for the journal where it is behind, as a write to standard error does.
    ssize_t sent = 0;
    do {
        sent = ::send(fd_.get(), message.data(), message.size(), MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return std::cmp_equal(sent, message.size());
}

}  // namespace ask
