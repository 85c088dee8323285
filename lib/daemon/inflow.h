// SPDX-License-Identifier: Apache-2.0
//
// What has come in by each connection and was not part of a request that was handled: what gRPC may hold of
// requests on their way in. gRPC itself looks at a message's size only once all of it is there, and gives
// back memory past its quota slower than peers can fill it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <grpcpp/support/server_interceptor.h>

namespace ask {

// Thread-safe.
class Inflow {
 public:
    // Connections may hold so many bytes together.
    explicit Inflow(std::size_t bound) : bound_(bound) {}

    // A TCP connection that is about to be handed over; `peer` holds it.
    void watch(int fd, const std::string& peer);
    // A whole request of so many bytes has come by the connection that gRPC calls so
    // ("ipv4:198.18.1.2:40000").
    void handled(const std::string& connection, std::size_t bytes);
    // Ends connections until the others hold no more than the bound: first those of the peer that holds the
    // most. One line for each, for the log. To be called every kLookMs while anything is watched.
    std::vector<std::string> look();
    [[nodiscard]] bool watches() const;

    static constexpr int kLookMs = 20;

 private:
    struct Entry {
        int fd = -1;
        std::uint64_t cookie = 0;  // of the socket that the descriptor was
        std::string peer;
        std::uint64_t handled = 0;
        std::uint64_t held = 0;
    };
    // Bytes held together. Forgets connections that have been closed.
    std::uint64_t measure();
    std::string end_greediest();

    const std::size_t bound_;
    mutable std::mutex mutex_;
    std::map<std::string, Entry> entries_;  // by gRPC's name
};

// Tells `inflow`, which outlives the server, of each request.
[[nodiscard]] std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> count_requests(
    Inflow& inflow);

}  // namespace ask
