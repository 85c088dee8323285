// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/inflow.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
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

void Inflow::watch(int fd, const std::string& peer) {
    const std::lock_guard lock(mutex_);
    entries_.insert_or_assign(connection_of(fd), Entry{.fd = fd, .cookie = cookie_of(fd), .peer = peer});
}

void Inflow::handled(const std::string& connection, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (const auto entry = entries_.find(connection); entry != entries_.end()) {
        entry->second.handled += bytes + kAround;
    }
}

bool Inflow::watches() const {
    const std::lock_guard lock(mutex_);
    return !entries_.empty();
}

std::uint64_t Inflow::measure() {
    std::erase_if(entries_,
                  [](const auto& entry) { return cookie_of(entry.second.fd) != entry.second.cookie; });
    std::uint64_t sum = 0;
    for (auto& [connection, entry] : entries_) {
        const std::uint64_t received = received_by(entry.fd);
        // What is allowed for around requests is not saved up.
        entry.handled = std::min(entry.handled, received);
        entry.held = received - entry.handled;
        sum += entry.held;
    }
    return sum;
}

std::string Inflow::end_greediest() {
    std::map<std::string, std::uint64_t> by_peer;
    for (const auto& [connection, entry] : entries_) {
        by_peer[entry.peer] += entry.held;
    }
    const auto rank = [&by_peer](const auto& entry) {
        return std::pair(by_peer[entry.second.peer], entry.second.held);
    };
    const auto most = std::ranges::max_element(
        entries_, [&rank](const auto& left, const auto& right) { return rank(left) < rank(right); });
    const Entry& entry = most->second;
    std::string line = "a connection of " + entry.peer + " is ended: " + std::to_string(entry.held >> 10U) +
                       " KiB of requests on it are not finished, and all together may have " +
                       std::to_string(bound_ >> 20U) + " MiB";
    // Should the descriptor become another's in this moment, that one is connected anew.
    if (cookie_of(entry.fd) == entry.cookie) {
        // What it still sends is answered by a reset, once gRPC has closed the descriptor.
        const linger none{.l_onoff = 1, .l_linger = 0};
        ::setsockopt(entry.fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
        ::shutdown(entry.fd, SHUT_RDWR);
    }
    entries_.erase(most);
    return line;
}

std::vector<std::string> Inflow::look() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> lines;
    std::uint64_t sum = measure();
    while (sum > bound_ && !entries_.empty()) {
        lines.push_back(end_greediest());
        sum = 0;
        for (const auto& [connection, entry] : entries_) {
            sum += entry.held;
        }
    }
    return lines;
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> count_requests(Inflow& inflow) {
    return std::make_unique<RequestCounts>(inflow);
}

}  // namespace ask
