// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <absl/container/flat_hash_map.h>
#include <absl/strings/string_view.h>

#include "bench/job/combine.h"
#include "bench/job/job.h"
#include "lib/base/unique_fd.h"

namespace ask::bench {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 18U;

using Table = absl::flat_hash_map<std::string, std::int64_t>;

// What a stream is made of: counts what is whole in the bytes, and says how many that were.
using Count = Result<std::size_t> (*)(std::string_view bytes, Table& table);

void add(std::string_view key, std::uint64_t count, Table& table) {
    table.try_emplace(absl::string_view(key.data(), key.size()), 0).first->second +=
        static_cast<std::int64_t>(count);
}

Result<std::size_t> count_lines(std::string_view bytes, Table& table) {
    std::string_view rest = bytes;
    for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
        add(rest.substr(0, end), 1, table);
        rest.remove_prefix(end + 1);
    }
    return bytes.size() - rest.size();
}

Result<std::size_t> count_records(std::string_view bytes, Table& table) {
    std::string_view rest = bytes;
    while (true) {
        const auto record = first_record(rest);
        ASK_PASS(record);
        if (!*record) {
            return bytes.size() - rest.size();
        }
        add((*record)->key, (*record)->count, table);
        rest.remove_prefix((*record)->bytes);
    }
}

// One sender's stream: what is whole into the table, the rest kept until more comes.
class Stream {
 public:
    Stream(UniqueFd fd, Count count) : fd_(std::move(fd)), count_(count), buffer_(kBuffer) {}
    [[nodiscard]] int fd() const { return fd_.get(); }

    // False: the stream has ended.
    Result<bool> read(Table& table) {
        if (used_ == buffer_.size()) {
            return Error(Errc::kInput,
                         "a line or a record is longer than " + std::to_string(kBuffer) + " bytes");
        }
        const ssize_t got = ::read(fd(), &buffer_[used_], buffer_.size() - used_);
        if (got < 0) {
            return Error::from_errno(errno, "read from a sender");
        }
        if (got == 0) {
            return used_ == 0 ? Result<bool>(false)
                              : Error(Errc::kInput, "a stream ends in mid-line or mid-record");
        }
        used_ += static_cast<std::size_t>(got);
        const auto counted = count_(std::string_view(buffer_.data(), used_), table);
        ASK_PASS(counted);
        used_ -= *counted;
        std::memmove(buffer_.data(), buffer_.data() + *counted, used_);
        return true;
    }

 private:
    UniqueFd fd_;
    Count count_;
    std::vector<char> buffer_;
    std::size_t used_ = 0;
};

Result<UniqueFd> listen_on(std::uint16_t port, unsigned senders) {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(fd.get(), static_cast<int>(senders)) != 0) {
        return Error::from_errno(errno, "listen on port " + std::to_string(port));
    }
    return fd;
}

Result<> wait_for(std::vector<pollfd>& waiting, unsigned seconds) {
    const int ready = ::poll(waiting.data(), waiting.size(), static_cast<int>(seconds) * 1000);
    if (ready < 0) {
        return Error::from_errno(errno, "poll");
    }
    return ready > 0 ? Result<>()
                     : Error(Errc::kUnavailable, "nothing came in " + std::to_string(seconds) + " s");
}

Result<Table> count_streams(const TcpReceive& what, int listener) {
    Table table;
    std::vector<Stream> streams;
    unsigned ended = 0;
    unsigned accepted = 0;
    while (ended < what.senders) {
        std::vector<pollfd> waiting;
        waiting.reserve(streams.size() + 1);
        for (const Stream& stream : streams) {
            waiting.push_back({stream.fd(), POLLIN, 0});
        }
        if (accepted < what.senders) {
            waiting.push_back({listener, POLLIN, 0});
        }
        ASK_PASS(wait_for(waiting, what.deadline_seconds));
        for (std::size_t i = streams.size(); i-- > 0;) {
            if (waiting[i].revents == 0) {
                continue;
            }
            const auto more = streams[i].read(table);
            ASK_PASS(more);
            if (!*more) {
                streams.erase(streams.begin() + static_cast<std::ptrdiff_t>(i));
                ++ended;
            }
        }
        if (accepted < what.senders && waiting.back().revents != 0) {
            UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
            if (!fd) {
                return Error::from_errno(errno, "accept");
            }
            streams.emplace_back(std::move(fd), what.combined ? count_records : count_lines);
            ++accepted;
        }
    }
    return table;
}

// The receiver may not listen yet.
Result<UniqueFd> connect_to(const TcpSend& what) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(what.port);
    if (::inet_pton(AF_INET, what.host.c_str(), &address.sin_addr) != 1) {
        return Error(Errc::kInput, "'" + what.host + "' is not an IPv4 address");
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (true) {
        UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (fd && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
            return fd;
        }
        if (errno != ECONNREFUSED || std::chrono::steady_clock::now() > deadline) {
            return Error::from_errno(errno, "connect to " + what.host);
        }
        ::usleep(1000);  // nothing says when another host begins to listen
    }
}

Result<> send_lines(const std::string& path, int socket) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) {
        return Error::from_errno(errno, "open " + path);
    }
    ssize_t sent = 0;
    do {
        sent = ::sendfile(socket, file.get(), nullptr, kBuffer);
    } while (sent > 0);
    return sent == 0 ? Result<>() : Error::from_errno(errno, "send " + path);
}

}  // namespace

Result<> tcp_send(const TcpSend& what) {
    // Before the file is counted: a receiver that is not there is told of at once.
    const auto socket = connect_to(what);
    ASK_PASS(socket);
    return what.combine ? send_combined(what.file, socket->get()) : send_lines(what.file, socket->get());
}

Result<> tcp_receive(const TcpReceive& what) {
    const auto listener = listen_on(what.port, what.senders);
    ASK_PASS(listener);
    const auto table = count_streams(what, listener->get());
    ASK_PASS(table);
    for (const auto& [key, count] : *table) {
        if (std::printf("%s\t%lld\n", key.c_str(), static_cast<long long>(count)) < 0) {
            return Error::from_errno(errno, "write the result");
        }
    }
    return {};
}

}  // namespace ask::bench
