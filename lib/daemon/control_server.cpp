// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/control_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <grpc/grpc.h>
#include <grpc/support/time.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>
#include <spdlog/spdlog.h>

#include "lib/daemon/listen.h"
#include "lib/net/address.h"
#include "lib/tls/probe.h"

namespace ask {
namespace {

// What gRPC's own memory may be, and of it what has come of requests that are on their way in.
constexpr std::size_t kMemoryBytes = std::size_t{64} << 20U;
constexpr std::size_t kInflowBytes = std::size_t{16} << 20U;
// What a call may have in flight that nobody has read: a request, and no more than its frames' heads besides.
constexpr int kCallWindowSpare = 1024;
// Whatever comes is taken in such pieces, so that there is time in between to see that it is too much.
constexpr int kReadBytes = 16 << 10;
// Names, task ids and deadlines; certificates travel elsewhere.
constexpr int kMaxMetadataBytes = 8 << 10;
constexpr int kPingMs = 60'000;
constexpr int kPingAnswerMs = 20'000;
// When nobody can be let in for lack of descriptors.
constexpr int kPauseMs = 100;
constexpr std::chrono::seconds kSayEvery{10};
constexpr std::chrono::milliseconds kProbeWait{2000};

// gRPC ends with its last user. It waits for its threads then, of which one may be in a poll of ten seconds
// that nothing ends, if something sent has ever had to wait for its reader; and a daemon that is to stop is
// waited for. So it does not end: what it has goes with the process.
void keep_grpc() {
    [[maybe_unused]] static const bool kKept = [] {
        ::grpc_init();
        return true;
    }();
}

std::size_t descriptor_limit() {
    rlimit limit{};
    return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

struct Peer {
    std::string name;  // a user or an address; of IPv6 the network, since hosts choose the rest themselves
    std::uint16_t port = 0;
};

Peer user_of(int fd) {
    ucred creds{};
    socklen_t size = sizeof(creds);
    ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &creds, &size);
    return {.name = "user " + std::to_string(creds.uid)};
}

Peer peer_of(int fd) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    ::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size);
    if (address.ss_family == AF_INET) {
        const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
        return {.name = format_ipv4(ntohl(ipv4.sin_addr.s_addr)), .port = ntohs(ipv4.sin_port)};
    }
    const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address);
    constexpr std::size_t kNetwork = 8;
    constexpr std::string_view kDigits = "0123456789abcdef";
    // An IPv4 host that came to an IPv6 socket has its address at the end.
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&ipv6.sin6_addr) != 0;
    std::string name = "ipv6 ";
    for (std::size_t i = 0; i < (mapped ? sizeof(in6_addr) : kNetwork); ++i) {
        const std::uint8_t byte = ipv6.sin6_addr.s6_addr[i];
        name += {kDigits[byte >> 4U], kDigits[byte & 15U]};
    }
    return {.name = std::move(name), .port = ntohs(ipv6.sin6_port)};
}

// Where a daemon that listens there reaches itself.
std::string own_address(const std::string& listen) {
    const auto parts = split_host_port(listen);
    if (!parts.ok()) {
        return listen;
    }
    const bool any4 = parts->host == "0.0.0.0";
    const bool any6 = parts->host == "[::]";
    return (any4 ? "127.0.0.1" : any6 ? "[::1]" : parts->host) + ":" + std::to_string(parts->port);
}

UniqueFd open_reserve() {
    return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

void set_bounds(grpc::ServerBuilder& builder, const ControlServerOptions& options) {
    grpc::ResourceQuota quota(options.name);
    quota.SetMaxThreads(options.threads).Resize(kMemoryBytes);
    builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, options.idle_threads)
        .SetResourceQuota(quota)
        .SetMaxReceiveMessageSize(options.request_bytes)
        .AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.streams)
        .AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes)
        .AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, options.request_bytes + kCallWindowSpare)
        .AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadBytes)
        // It would widen the window again.
        .AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0)
        .AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, static_cast<int>(options.handshake.count()))
        .AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, static_cast<int>(options.idle.count()))
        .AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, static_cast<int>(options.age.count()))
        .AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMs)
        .AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingAnswerMs);
}

}  // namespace

ControlServer::ControlServer(ControlServerOptions options, RpcCredentials& credentials)
    : options_(std::move(options)),
      credentials_(credentials),
      server_credentials_(credentials.of_server()),
      reserve_(open_reserve()),
      book_(connection_bounds(descriptor_limit())),
      inflow_(kInflowBytes) {}

Result<std::unique_ptr<ControlServer>> ControlServer::start(ControlServerOptions options,
                                                            RpcCredentials& credentials,
                                                            grpc::Service& service) {
    keep_grpc();
    std::unique_ptr<ControlServer> server(new ControlServer(std::move(options), credentials));
    ASK_PASS(server->build(service));
    server->thread_ = std::thread([raw = server.get()] { raw->accept_loop(); });
    return server;
}

Result<> ControlServer::build(grpc::Service& service) {
    if (!stop_event_.ok() || !reserve_ || !inflow_.ok()) {
        return Error(Errc::kLimit, "no file descriptor is left: raise the limit (ulimit -n, LimitNOFILE)");
    }
    ASK_TRY(credentials_.check_address(options_.listen), "listen");
    auto network = listen_tcp("listen", options_.listen);
    ASK_PASS(network);
    network_ = std::move(*network);
    if (!options_.socket.empty()) {
        auto local = listen_local(options_.socket, options_.group);
        ASK_PASS(local);
        local_ = std::move(*local);
    }
    grpc::ServerBuilder builder;
    set_bounds(builder, options_);
    builder.RegisterService(&service);
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
    interceptors.push_back(count_requests(inflow_));
    builder.experimental().SetInterceptorCreators(std::move(interceptors));
    using From = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
    acceptor_ = builder.experimental().AddExternalConnectionAcceptor(From::FROM_FD, server_credentials_);
    server_ = builder.BuildAndStart();
    return server_ ? Result<>() : Error(Errc::kInternal, "gRPC does not start a server");
}

ControlServer::~ControlServer() {
    stop(std::chrono::milliseconds(0));
}

void ControlServer::stop(std::chrono::milliseconds wait) {
    stop_event_.notify();
    if (thread_.joinable()) {
        thread_.join();
    }
    network_.reset();
    if (local_) {
        local_.reset();
        ::unlink(options_.socket.c_str());
    }
    if (server_) {
        server_->Shutdown(gpr_time_from_millis(wait.count(), GPR_TIMESPAN));
        server_->Wait();
        server_.reset();
    }
}

void ControlServer::accept_loop() {
    using Clock = std::chrono::steady_clock;
    auto look_at = Clock::now();
    bool heard = false;  // something has come since the last look
    for (;;) {
        // A negative descriptor is passed over.
        std::array<pollfd, 4> entries = {
            pollfd{.fd = network_.get(), .events = POLLIN, .revents = 0},
            pollfd{.fd = local_.get(), .events = POLLIN, .revents = 0},
            pollfd{.fd = stop_event_.fd(), .events = POLLIN, .revents = 0},
            pollfd{.fd = heard ? -1 : inflow_.fd(), .events = POLLIN, .revents = 0}};
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(look_at - Clock::now()).count();
        ::poll(entries.data(), entries.size(),
               inflow_.watches() ? static_cast<int>(std::max<std::int64_t>(left, 0)) : -1);
        if (entries[2].revents != 0) {
            return;
        }
        const auto now = Clock::now();
        if (entries[3].revents != 0) {
            heard = true;
            look_at = std::min(look_at, now + std::chrono::milliseconds(Inflow::kLookMs));
        }
        if (now >= look_at) {
            cut_off_greedy();
            heard = false;
            look_at = now + std::chrono::milliseconds(Inflow::kSweepMs);
        }
        accept_from(entries[0].revents != 0, entries[1].revents != 0);
    }
}

// One from each door in turn: a crowd at one does not keep the other shut.
void ControlServer::accept_from(bool network, bool local) {
    for (int i = 0; (network || local) && i < 64; ++i) {
        network = network && accept_one(Door::kNetwork);
        local = local && accept_one(Door::kLocal);
    }
}

bool ControlServer::accept_one(Door door) {
    const int listener = door == Door::kNetwork ? network_.get() : local_.get();
    UniqueFd connection(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection) {
        let_in(door, std::move(connection));
        return true;
    }
    switch (errno) {
        case EMFILE:
        case ENFILE:
        case ENOBUFS:
        case ENOMEM:
            return accept_and_close(listener);
        default:
            // Nobody there any more, or one who has gone again.
            return errno == ECONNABORTED || errno == EINTR;
    }
}

// Whoever is not taken out of the queue keeps it full, and this thread awake.
bool ControlServer::accept_and_close(int listener) {
    reserve_.reset();
    const bool taken = static_cast<bool>(UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)));
    reserve_ = open_reserve();
    if (taken) {
        turn_away("somebody", "no file descriptor is left (raise LimitNOFILE)");
    } else {
        pause();
    }
    return taken;
}

void ControlServer::let_in(Door door, UniqueFd connection) {
    const Peer peer = door == Door::kNetwork ? peer_of(connection.get()) : user_of(connection.get());
    const bool own = door == Door::kNetwork && peer.port != 0 && peer.port == own_port_.load();
    const auto verdict = own ? ConnectionBook::Verdict::kWelcome : book_.judge(peer.name);
    if (verdict != ConnectionBook::Verdict::kWelcome) {
        turn_away(peer.name, verdict == ConnectionBook::Verdict::kAllTaken
                                 ? "all connections are taken"
                                 : "it has as many as a peer may have");
        return;
    }
    book_.note(connection.get(), peer.name);
    if (door == Door::kLocal) {
        grpc::AddInsecureChannelFromFd(server_.get(), connection.release());
        return;
    }
    if (!inflow_.watch(connection.get(), peer.name)) {
        turn_away(peer.name, "the kernel watches no more connections (fs.epoll.max_user_watches)");
        return;
    }
    const int on = 1;
    ::setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    Acceptor::NewConnectionParameters handed;
    handed.listener_fd = network_.get();
    handed.fd = connection.release();
    acceptor_->HandleNewConnection(&handed);
}

void ControlServer::turn_away(const std::string& peer, const char* why) {
    ++turned_away_;
    if (options_.refused) {
        options_.refused();
    }
    const auto now = std::chrono::steady_clock::now();
    if (now - said_at_ >= kSayEvery) {
        spdlog::warn("{}: {} connection(s) turned away, the last of {}: {}", options_.listen, turned_away_,
                     peer, why);
        said_at_ = now;
        turned_away_ = 0;
    }
}

void ControlServer::cut_off_greedy() {
    for (const std::string& line : inflow_.look()) {
        if (options_.refused) {
            options_.refused();
        }
        spdlog::warn("{}: {}", options_.listen, line);
    }
}

void ControlServer::pause() {
    pollfd stop{.fd = stop_event_.fd(), .events = POLLIN, .revents = 0};
    ::poll(&stop, 1, kPauseMs);
}

Result<> ControlServer::probe() {
    const auto identity = credentials_.identity();
    auto answered = probe_rpc_port({.address = own_address(options_.listen),
                                    .identity = identity.get(),
                                    .wait = kProbeWait,
                                    .check_name = false,
                                    .bound = [this](std::uint16_t port) { own_port_.store(port); }});
    own_port_.store(0);
    return answered.ok() ? Result<>() : std::move(answered).error().with_context("a connection to ourselves");
}

bool answers(ControlServer& server) {
    const auto answered = server.probe();
    if (!answered.ok()) {
        spdlog::error("{}", answered.error().text());
    }
    return answered.ok();
}

}  // namespace ask
