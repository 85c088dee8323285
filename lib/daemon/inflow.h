// SPDX-License-Identifier: Apache-2.0
//
// What has come in by each connection and was not part of a request that was handled: what gRPC may hold of
// requests on their way in. gRPC itself looks at a message's size only once all of it is there, and gives
// back memory past its quota slower than peers can fill it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <grpcpp/support/server_interceptor.h>

#include "lib/base/unique_fd.h"

namespace ask {

// Thread-safe.
class Inflow {
 public:
    // Connections may hold so many bytes together.
    explicit Inflow(std::size_t bound);
    // Else there was no descriptor for it.
    [[nodiscard]] bool ok() const { return static_cast<bool>(events_); }

    // A TCP connection that is about to be handed over; `peer` holds it. False: the kernel tells of no more.
    [[nodiscard]] bool watch(int fd, const std::string& peer);
    // A whole request of so many bytes has come by the connection that gRPC calls so
    // ("ipv4:198.18.1.2:40000").
    void handled(const std::string& connection, std::size_t bytes);
    // To be polled: readable once something has come by a connection since look(). It then wants to be called
    // within kLookMs, and every kSweepMs anyway while anything is watched.
    [[nodiscard]] int fd() const { return events_.get(); }
    // Ends connections until the others hold no more than the bound: first those of the peer that holds the
    // most. One line for each, for the log.
    std::vector<std::string> look();
    [[nodiscard]] bool watches() const;

    static constexpr int kLookMs = 20;
    static constexpr int kSweepMs = 500;

 private:
    struct Entry {
        int fd = -1;
        std::string connection;  // gRPC's name
        std::string peer;
        std::uint64_t received = 0;
        std::uint64_t handled = 0;
        [[nodiscard]] std::uint64_t held() const { return received - std::min(handled, received); }
    };
    // By the cookie of the socket that the descriptor was.
    using Entries = std::map<std::uint64_t, Entry>;
    Entries::iterator measure(Entries::iterator entry);
    Entries::iterator forget(Entries::iterator entry);
    void measure_heard();
    void measure_all();
    [[nodiscard]] std::uint64_t held() const;
    std::string end_greediest();

    const std::size_t bound_;
    const UniqueFd events_;
    mutable std::mutex mutex_;
    Entries entries_;
    std::map<std::string, std::uint64_t> cookies_;  // by gRPC's name
    std::chrono::steady_clock::time_point swept_ = std::chrono::steady_clock::now();
};

// Tells `inflow`, which outlives the server, of each request.
[[nodiscard]] std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> count_requests(
    Inflow& inflow);

}  // namespace ask
