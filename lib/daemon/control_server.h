// SPDX-License-Identifier: Apache-2.0
//
// A daemon's gRPC server, behind a door of its own: gRPC stops listening for good when descriptors run out,
// lets any peer have any number of connections, and does not say who connected to a Unix socket.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include <grpcpp/impl/service_type.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "lib/base/event_fd.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/daemon/connection_book.h"
#include "lib/daemon/inflow.h"
#include "lib/rpc/credentials.h"

namespace ask {

struct ControlServerOptions {
    std::string name = {};         // of the daemon
    std::string listen = {};       // HOST:PORT
    std::string socket = {};       // for people on this machine; empty: none
    gid_t group = 0;               // whose members may use it
    int threads = 0;               // calls that may be handled at a time
    int streams = 0;               // calls of a connection that may be under way
    int request_bytes = 64 << 10;  // the longest request: a sample of keys, or a list of an agent's tasks
    int idle_threads = 8;          // that stay when no call needs them: more come and go with the calls
    // How long a connection lasts on which nobody shakes hands, on which no call is under way, and any: it
    // then proves again whose it is.
    std::chrono::milliseconds handshake{5000};
    std::chrono::milliseconds idle{600'000};
    std::chrono::milliseconds age{3'600'000};
    // From the accepting thread: somebody was turned away, or cut off.
    std::function<void()> refused = {};
};

class ControlServer {
 public:
    // `credentials` and `service` outlive it. kExists: the port, or the socket, is in use. The error names
    // the key of the configuration.
    static Result<std::unique_ptr<ControlServer>> start(ControlServerOptions options,
                                                        RpcCredentials& credentials, grpc::Service& service);
    ~ControlServer();
    ControlServer(const ControlServer&) = delete;
    ControlServer& operator=(const ControlServer&) = delete;

    // Lets nobody in any more, ends what is under way after `wait`, and returns when all has ended.
    void stop(std::chrono::milliseconds wait);
    // Opens a new connection to itself, as others do: whether somebody would be let in now, and answered.
    Result<> probe();

 private:
    using Acceptor = grpc::experimental::ExternalConnectionAcceptor;
    enum class Door : std::uint8_t { kNetwork, kLocal };

    ControlServer(ControlServerOptions options, RpcCredentials& credentials);
    Result<> build(grpc::Service& service);
    void accept_loop();
    void accept_from(bool network, bool local);
    // False: nobody waits there any more, or nobody can be let in for now.
    bool accept_one(Door door);
    void let_in(Door door, UniqueFd connection);
    bool accept_and_close(int listener);
    void turn_away(const std::string& peer, const char* why);
    void cut_off_greedy();
    void pause();

    const ControlServerOptions options_;
    RpcCredentials& credentials_;
    std::shared_ptr<grpc::ServerCredentials> server_credentials_;
    UniqueFd network_;
    UniqueFd local_;
    UniqueFd reserve_;  // given up for a moment when descriptors run out
    ConnectionBook book_;
    Inflow inflow_;
    std::unique_ptr<Acceptor> acceptor_;
    std::unique_ptr<grpc::Server> server_;
    EventFd stop_event_;
    std::atomic<std::uint16_t> own_port_{0};  // a connection from there is our own
    std::uint64_t turned_away_ = 0;           // since the log said so
    std::chrono::steady_clock::time_point said_at_{};
    std::thread thread_;
};

// For a watchdog: whether the server answers; if not, the log says why.
bool answers(ControlServer& server);

}  // namespace ask
