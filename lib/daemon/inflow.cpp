// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/inflow.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include <google/protobuf/message_lite.h>
#include <grpcpp/server_context.h>

namespace ask {
namespace {

// Of a request beside its message: frames, records of TLS, names that HTTP/2 has heard before. More than it
// is: who asks much in an hour, which is as long as a connection lasts, must not seem to hold something.
constexpr std::size_t kAround = 256;

template <typename T>
bool get_option(int fd, int level, int name, T& value) {
    socklen_t size = sizeof(value);
    return ::getsockopt(fd, level, name, &value, &size) == 0;
}

// 0: no socket is open there.
std::uint64_t cookie_of(int fd) {
    std::uint64_t cookie = 0;
    return get_option(fd, SOL_SOCKET, SO_COOKIE, cookie) ? cookie : 0;
}

std::uint64_t received_by(int fd) {
    tcp_info info{};
    return get_option(fd, IPPROTO_TCP, TCP_INFO, info) ? info.tcpi_bytes_received : 0;
}

// As gRPC names the other end.
std::string connection_of(int fd) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    ::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size);
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (address.ss_family == AF_INET) {
        const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
        ::inet_ntop(AF_INET, &ipv4.sin_addr, text.data(), text.size());
        return "ipv4:" + std::string(text.data()) + ":" + std::to_string(ntohs(ipv4.sin_port));
    }
    const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address);
    const std::string port = std::to_string(ntohs(ipv6.sin6_port));
    if (IN6_IS_ADDR_V4MAPPED(&ipv6.sin6_addr) != 0) {
        constexpr std::size_t kBefore = 12;
        ::inet_ntop(AF_INET, &ipv6.sin6_addr.s6_addr[kBefore], text.data(), text.size());
        return "ipv4:" + std::string(text.data()) + ":" + port;
    }
    ::inet_ntop(AF_INET6, &ipv6.sin6_addr, text.data(), text.size());
    return "ipv6:%5B" + std::string(text.data()) + "%5D:" + port;
}

class RequestCount final : public grpc::experimental::Interceptor {
 public:
    RequestCount(Inflow& inflow, grpc::experimental::ServerRpcInfo& call) : inflow_(inflow), call_(call) {}

    void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
        if (methods->QueryInterceptionHookPoint(
                grpc::experimental::InterceptionHookPoints::POST_RECV_MESSAGE)) {
            // Every message of our services is one of protobuf's.
            const auto* const message =
                static_cast<const google::protobuf::MessageLite*>(methods->GetRecvMessage());
            inflow_.handled(call_.server_context()->peer(), message == nullptr ? 0 : message->ByteSizeLong());
        }
        methods->Proceed();
    }

 private:
    Inflow& inflow_;
    grpc::experimental::ServerRpcInfo& call_;
};

class RequestCounts final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
    explicit RequestCounts(Inflow& inflow) : inflow_(inflow) {}
    grpc::experimental::Interceptor* CreateServerInterceptor(
        grpc::experimental::ServerRpcInfo* info) override {
        return new RequestCount(inflow_, *info);
    }

 private:
    Inflow& inflow_;
};

}  // namespace

Inflow::Inflow(std::size_t bound) : bound_(bound), events_(::epoll_create1(EPOLL_CLOEXEC)) {}

// What comes makes an event, though somebody else has read it by the time of the look: an event is passed on
// as long as anything of what was asked for is so, and that a connection can be written to nearly always is.
// Where it cannot, gRPC opens no window either, and the next sweep is in time.
bool Inflow::watch(int fd, const std::string& peer) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t cookie = cookie_of(fd);
    const std::string connection = connection_of(fd);
    epoll_event wanted{};
    wanted.events = static_cast<std::uint32_t>(EPOLLIN | EPOLLOUT) | EPOLLET;
    wanted.data.u64 = cookie;
    if (::epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &wanted) != 0) {
        return false;
    }
    if (const auto former = cookies_.find(connection); former != cookies_.end()) {
        entries_.erase(former->second);
    }
    entries_.insert_or_assign(cookie, Entry{.fd = fd, .connection = connection, .peer = peer});
    cookies_.insert_or_assign(connection, cookie);
    return true;
}

void Inflow::handled(const std::string& connection, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (const auto cookie = cookies_.find(connection); cookie != cookies_.end()) {
        entries_.at(cookie->second).handled += bytes + kAround;
    }
}

bool Inflow::watches() const {
    const std::lock_guard lock(mutex_);
    return !entries_.empty();
}

Inflow::Entries::iterator Inflow::forget(Entries::iterator entry) {
    cookies_.erase(entry->second.connection);
    return entries_.erase(entry);
}

// Forgets it if it has been closed.
Inflow::Entries::iterator Inflow::measure(Entries::iterator entry) {
    if (cookie_of(entry->second.fd) != entry->first) {
        return forget(entry);
    }
    entry->second.received = received_by(entry->second.fd);
    // What is allowed for around requests is not saved up.
    entry->second.handled = std::min(entry->second.handled, entry->second.received);
    return std::next(entry);
}

void Inflow::measure_heard() {
    std::array<epoll_event, 64> events{};
    for (int count = static_cast<int>(events.size()); count == static_cast<int>(events.size());) {
        count = ::epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()), 0);
        for (int i = 0; i < count; ++i) {
            if (const auto entry = entries_.find(events[static_cast<unsigned>(i)].data.u64);
                entry != entries_.end()) {
                measure(entry);
            }
        }
    }
}

void Inflow::measure_all() {
    for (auto entry = entries_.begin(); entry != entries_.end();) {
        entry = measure(entry);
    }
}

std::uint64_t Inflow::held() const {
    std::uint64_t sum = 0;
    for (const auto& [cookie, entry] : entries_) {
        sum += entry.held();
    }
    return sum;
}

std::string Inflow::end_greediest() {
    std::map<std::string, std::uint64_t> by_peer;
    for (const auto& [cookie, entry] : entries_) {
        by_peer[entry.peer] += entry.held();
    }
    const auto rank = [&by_peer](const auto& entry) {
        return std::pair(by_peer[entry.second.peer], entry.second.held());
    };
    const auto most = std::ranges::max_element(
        entries_, [&rank](const auto& left, const auto& right) { return rank(left) < rank(right); });
    const Entry& entry = most->second;
    std::string line = "a connection of " + entry.peer + " is ended: " + std::to_string(entry.held() >> 10U) +
                       " KiB of requests on it are not finished, and all together may have " +
                       std::to_string(bound_ >> 20U) + " MiB";
    // Should the descriptor become another's in this moment, that one is connected anew.
    if (cookie_of(entry.fd) == most->first) {
        // What it still sends is answered by a reset, once gRPC has closed the descriptor.
        const linger none{.l_onoff = 1, .l_linger = 0};
        ::setsockopt(entry.fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
        ::shutdown(entry.fd, SHUT_RDWR);
    }
    forget(most);
    return line;
}

std::vector<std::string> Inflow::look() {
    const std::lock_guard lock(mutex_);
    measure_heard();
    if (const auto now = std::chrono::steady_clock::now();
        now - swept_ >= std::chrono::milliseconds(kSweepMs)) {
        swept_ = now;
        measure_all();
    }
    std::vector<std::string> lines;
    while (held() > bound_ && !entries_.empty()) {
        lines.push_back(end_greediest());
    }
    return lines;
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> count_requests(Inflow& inflow) {
    return std::make_unique<RequestCounts>(inflow);
}

}  // namespace ask
