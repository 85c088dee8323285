// SPDX-License-Identifier: Apache-2.0
//
// A daemon's door: who is let in, as whom, and what happens when too many come.
#include "lib/daemon/control_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <grpcpp/create_channel.h>

#include "lib/rpc/call_origin.h"
#include "lib/tls/probe.h"
#include "proto/agent.grpc.pb.h"
#include "tests/support/free_port.h"
#include "tests/support/patience.h"
#include "tests/unit/tls/folder.h"
#include "tests/unit/tls/odd_certificate.h"

using namespace ask;
using namespace ask::test;

namespace {

const std::chrono::seconds kPatient = patience(std::chrono::seconds(20));

// Remembers who called; Lookup waits until it is told to go on.
class Guest final : public v1::Agent::Service {
 public:
    grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetAgentStatusRequest* /*request*/,
                           v1::AgentStatus* reply) override {
        const std::lock_guard lock(mutex_);
        last_ = caller_of(*context);
        ++calls_;
        reply->set_name(context->peer());
        return grpc::Status::OK;
    }
    grpc::Status Lookup(grpc::ServerContext* context, const v1::LookupRequest* /*request*/,
                        v1::TaskOffer* /*reply*/) override {
        std::unique_lock lock(mutex_);
        held_peer_ = context->peer();
        ++held_;
        thread_local bool served = false;
        fresh_ += std::exchange(served, true) ? 0 : 1;
        changed_.notify_all();
        changed_.wait(lock, [this] { return go_on_; });
        held_after_ = context->peer();
        held_caller_ = caller_of(*context);
        over_ = true;
        changed_.notify_all();
        return grpc::Status::OK;
    }
    [[nodiscard]] Caller last() {
        const std::lock_guard lock(mutex_);
        return last_;
    }

    // How many got as far as a call.
    [[nodiscard]] std::uint64_t calls() {
        const std::lock_guard lock(mutex_);
        return calls_;
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    Caller last_;
    std::uint64_t calls_ = 0;
    std::string held_peer_;
    int held_ = 0;
    int fresh_ = 0;  // threads that had handled none before
    std::string held_after_;
    Caller held_caller_;
    bool go_on_ = false;
    bool over_ = false;
};

struct House {
    explicit House(const RpcSecurity& security, const std::string& socket = "")
        : House(security, ControlServerOptions{.socket = socket}) {}
    House(const RpcSecurity& security, ControlServerOptions options)
        : credentials(open(security)), address("127.0.0.1:" + std::to_string(free_port())) {
        options.name = "test";
        options.listen = address;
        options.group = ::getegid();
        options.threads = 16;
        options.streams = 8;
        options.refused = [this] { ++refused; };
        auto started = ControlServer::start(std::move(options), *credentials, guest);
        REQUIRE_MESSAGE(started.ok(), started.error().text());
        server = std::move(*started);
    }
    static std::shared_ptr<RpcCredentials> open(const RpcSecurity& security) {
        auto opened = RpcCredentials::create(security);
        REQUIRE_MESSAGE(opened.ok(), opened.error().text());
        return *opened;
    }

    std::shared_ptr<RpcCredentials> credentials;
    std::string address;
    Guest guest;
    std::atomic<int> refused{0};
    std::unique_ptr<ControlServer> server;
};

std::unique_ptr<v1::Agent::Stub> stub_of(const std::string& address,
                                         const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    return v1::Agent::NewStub(grpc::CreateCustomChannel(address, credentials, arguments));
}

grpc::Status call(const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                  v1::AgentStatus* reply = nullptr) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatient);
    v1::AgentStatus ignored;
    return stub_of(address, credentials)->GetStatus(&context, {}, reply == nullptr ? &ignored : reply);
}

UniqueFd connect_to(const std::string& address) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(fd);
    REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
    return fd;
}

template <typename Condition>
bool comes_true(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + kPatient;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) {
            return false;
        }
        std::this_thread::yield();
    }
    return true;
}

// Whether all other threads of this process sleep: none is on its way from one call to the next.
bool others_sleep() {
    const std::string own = std::to_string(::gettid());
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream file(thread.path() / "stat");
        std::string line;
        std::getline(file, line);
        const std::size_t name_ends = line.rfind(") ");
        if (thread.path().filename() != own && name_ends != std::string::npos &&
            line.compare(name_ends + 2, 1, "S") != 0) {
            return false;
        }
    }
    return true;
}

// Whether this process has an end of any TCP connection.
bool has_connections() {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        sockaddr_storage peer{};
        socklen_t size = sizeof(peer);
        if (::getpeername(std::stoi(entry.path().filename()), reinterpret_cast<sockaddr*>(&peer), &size) ==
                0 &&
            peer.ss_family != AF_UNIX) {
            return true;
        }
    }
    return false;
}

const RpcSecurity kPlain{.plain_text = PlainText::kLoopback, .files = {}};

RpcSecurity tls_of(const TlsFiles& files) {
    return {.plain_text = PlainText::kNowhere, .files = files};
}

// Who `names` of a certificate of our CA make one, at the house.
Caller known_by(House& house, const CertificateFolder& folder, const std::vector<OddName>& names) {
    const TlsFiles files = folder.issue("odd");
    const std::string odd =
        OddCertificate(files).common_name("ask://role/operator").names(names).sign(folder.at("ca/ca.key"));
    std::ofstream(files.certificate) << odd;
    const grpc::Status status = call(house.address, House::open(tls_of(files))->of_channel());
    REQUIRE_MESSAGE(status.ok(), status.error_message());
    const Caller caller = house.guest.last();
    CHECK(caller.verified);
    return caller;
}

// Why `files` cannot speak to `house`, in our own words.
std::string why_not(const House& house, const RpcSecurity& security) {
    const auto own = House::open(security);
    const grpc::Status status = call(house.address, own->of_channel());
    REQUIRE_FALSE(status.ok());
    const auto found = own->diagnose(house.address, status.error_message());
    REQUIRE_MESSAGE(found.has_value(), status.error_message());
    CHECK(found->code() == Errc::kDenied);
    return found->text();
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("over TLS a caller is who its certificate says") {
    const CertificateFolder folder;
    const House house(tls_of(folder.issue("sw")));
    CertificateOrder order;
    order.name = "h1";
    order.addresses = {"127.0.0.1", "198.18.1.2"};
    order.tenant = "search";
    order.role_switch = true;
    const auto own = House::open(tls_of(folder.issue(order)));
    const grpc::Status status = call(house.address, own->of_channel());
    REQUIRE_MESSAGE(status.ok(), status.error_message());
    const Caller caller = const_cast<House&>(house).guest.last();
    CHECK(caller.address == "127.0.0.1");
    CHECK(caller.verified);
    CHECK_FALSE(caller.plain_text);
    CHECK(caller.tenant == "search");
    CHECK(caller.role_switch);
    CHECK_FALSE(may_operate(caller));
    CHECK(acts_for(caller, 0xc6120102U));
    CHECK(describe(caller) == "h1 (127.0.0.1)");
}

TEST_CASE("nobody gets in without a certificate of our CA, and is told why in words") {
    const CertificateFolder folder;
    folder.make_ca("other");
    const House house(tls_of(folder.issue("sw")));
    const TlsFiles good = folder.issue("h1");
    const TlsFiles strange = folder.issue("h1", "other");

    CHECK_FALSE(call(house.address, grpc::InsecureChannelCredentials()).ok());
    CHECK_FALSE(call(house.address, grpc::SslCredentials({})).ok());
    CHECK(contains(why_not(house, tls_of(strange)),
                   "the certificate of " + house.address + " is not signed by our CA"));
    CHECK(contains(why_not(house, kPlain), house.address + " does not speak plain text"));
    // It trusts us, and we it, but not the other way round.
    const auto theirs = TlsIdentity::load(strange);
    const auto ours = TlsIdentity::load(good);
    const TlsIdentity mixed{
        .ca = ours->ca, .certificate = theirs->certificate, .key = theirs->key, .expires = 0};
    const auto refused = probe_rpc_port({.address = house.address, .identity = &mixed});
    REQUIRE_FALSE(refused.ok());
    CHECK_MESSAGE(
        contains(
            refused.error().text(),
            house.address +
                " refuses our certificate without a word: it is not signed by the CA that is trusted there"),
        refused.error().text());
    CHECK(probe_rpc_port({.address = house.address, .identity = &*ours}).ok());

    const House plain(kPlain);
    CHECK(
        contains(why_not(plain, tls_of(good)), plain.address + " speaks plain text, and TLS is wanted here"));

    CertificateOrder elsewhere;
    elsewhere.name = "sw2";
    elsewhere.addresses = {"198.18.9.9"};
    const House moved(tls_of(folder.issue(elsewhere)));
    CHECK(contains(why_not(moved, tls_of(good)),
                   "the certificate of " + moved.address + " is not for 127.0.0.1"));
}

TEST_CASE("what a certificate says beside its names, or says oddly, makes nobody anything") {
    const CertificateFolder folder;
    House house(tls_of(folder.issue("sw")));
    constexpr std::uint32_t kLoopback = 0x7f000001;
    const auto nobody = [&](const Caller& caller) {
        CHECK(caller.tenant.empty());
        CHECK_FALSE(may_operate(caller));
        CHECK_FALSE(caller.role_switch);
    };
    // No name at all: not even for where it calls from may it act.
    Caller caller = known_by(house, folder, {});
    nobody(caller);
    CHECK_FALSE(acts_for(caller, kLoopback));
    CHECK(describe(caller) == "127.0.0.1");
    // Of another host it is the other host.
    caller = known_by(house, folder, {{GEN_IPADD, {'\xc6', '\x12', '\x03', '\x02'}}});
    nobody(caller);
    CHECK_FALSE(acts_for(caller, kLoopback));
    CHECK(acts_for(caller, 0xc6120302U));
    // An address as a name is none.
    caller = known_by(house, folder, {{GEN_DNS, "127.0.0.1"}, {GEN_URI, "127.0.0.1"}});
    CHECK_FALSE(acts_for(caller, kLoopback));
    // Two tenants, and a role with them.
    nobody(known_by(
        house, folder,
        {{GEN_URI, "ask://tenant/search"}, {GEN_URI, "ask://tenant/ads"}, {GEN_URI, "ask://role/operator"}}));
    nobody(known_by(house, folder, {{GEN_URI, "ask://tenant/../ads"}, {GEN_URI, "ask://role/switch"}}));
    // Names that end early for who reads them as C does, that go on, and that are of another kind.
    nobody(known_by(house, folder, {{GEN_URI, std::string("ask://role/operator\0.example", 28)}}));
    nobody(known_by(house, folder, {{GEN_URI, std::string("ask://tenant/search\0", 20)}}));
    nobody(known_by(house, folder, {{GEN_URI, "ask://role/operator/"}, {GEN_URI, "ASK://role/switch"}}));
    nobody(known_by(house, folder, {{GEN_DNS, "ask://role/operator"}, {GEN_DNS, "ask://tenant/search"}}));
    // Which nobody is called.
    caller = known_by(house, folder, {{GEN_DNS, "*"}});
    CHECK(caller.names == std::vector<std::string>{"*"});
}

TEST_CASE("a certificate that is out of date, or that a host has signed, lets nobody in") {
    const CertificateFolder folder;
    House house(tls_of(folder.issue("sw")));
    const TlsFiles files = folder.issue("h1");
    const auto lets_in = [&](const std::string& certificate, std::uint64_t calls) {
        const auto shown = grpc::SslCredentials({.pem_root_certs = OddCertificate::read(files.ca),
                                                 .pem_private_key = OddCertificate::read(files.key),
                                                 .pem_cert_chain = certificate});
        const bool in = call(house.address, shown).ok();
        CHECK(house.guest.calls() == calls);
        return in;
    };
    const std::string ca = folder.at("ca/ca.key");
    CHECK(lets_in(OddCertificate(files).valid(-3600, 3600).sign(ca), 1));
    CHECK_FALSE(lets_in(OddCertificate(files).valid(-7200, -3600).sign(ca), 1));
    CHECK_FALSE(lets_in(OddCertificate(files).valid(3600, 7200).sign(ca), 1));
    CHECK_FALSE(lets_in(OddCertificate(files).sign(files.key), 1));
    const TlsFiles insider = folder.issue("h2");
    CHECK_FALSE(lets_in(OddCertificate(files).names({{GEN_URI, "ask://role/operator"}}).sign_as(insider), 1));
}

TEST_CASE("new certificates are in force from the next connection on, and bad ones are not") {
    const CertificateFolder folder;
    const TlsFiles files = folder.issue("sw");
    const House house(tls_of(files));
    folder.make_ca("new");
    const TlsFiles fresh = folder.issue("sw", "new");
    const auto before = House::open(tls_of(folder.issue("h1")));
    const auto after = House::open(tls_of(folder.issue("h1", "new")));
    CHECK(call(house.address, before->of_channel()).ok());
    CHECK_FALSE(call(house.address, after->of_channel()).ok());

    // One file alone does not fit the others.
    std::filesystem::copy_file(fresh.ca, files.ca, std::filesystem::copy_options::overwrite_existing);
    CHECK_FALSE(house.credentials->refresh().ok());
    CHECK(call(house.address, before->of_channel()).ok());
    std::filesystem::copy_file(fresh.certificate, files.certificate,
                               std::filesystem::copy_options::overwrite_existing);
    CHECK_FALSE(house.credentials->refresh().ok());
    std::filesystem::copy_file(fresh.key, files.key, std::filesystem::copy_options::overwrite_existing);
    const auto taken = house.credentials->refresh();
    REQUIRE_MESSAGE(taken.ok(), taken.error().text());
    CHECK(*taken);
    CHECK_FALSE(*house.credentials->refresh());
    CHECK(call(house.address, after->of_channel()).ok());
    CHECK_FALSE(call(house.address, before->of_channel()).ok());
}

TEST_CASE("on the Unix socket a caller is the user who connected, as long as the call lasts") {
    const CertificateFolder folder;
    const std::string socket = folder.at("control.sock");
    House house(kPlain, socket);
    struct stat info{};
    REQUIRE(::stat(socket.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777U) == 0660U);
    v1::AgentStatus reply;
    REQUIRE(call("unix:" + socket, local_credentials(), &reply).ok());
    CHECK(reply.name().starts_with("fd:"));
    CHECK(house.guest.last().uid == ::getuid());
    CHECK_FALSE(house.guest.last().plain_text);

    // The caller goes away while its call is handled: until that ends nobody else gets its descriptor's
    // number, by which it is known.
    {
        grpc::ClientContext context;
        auto stub = stub_of("unix:" + socket, local_credentials());
        std::thread caller([&] {
            v1::TaskOffer offer;
            stub->Lookup(&context, {}, &offer);
        });
        {
            std::unique_lock lock(house.guest.mutex_);
            REQUIRE(house.guest.changed_.wait_for(lock, kPatient,
                                                  [&] { return !house.guest.held_peer_.empty(); }));
        }
        context.TryCancel();
        caller.join();
    }
    for (int i = 0; i < 8; ++i) {
        REQUIRE(call("unix:" + socket, local_credentials(), &reply).ok());
        CHECK(reply.name() != house.guest.held_peer_);
    }
    std::unique_lock lock(house.guest.mutex_);
    house.guest.go_on_ = true;
    house.guest.changed_.notify_all();
    REQUIRE(house.guest.changed_.wait_for(lock, kPatient, [&] { return house.guest.over_; }));
    CHECK(house.guest.held_after_ == house.guest.held_peer_);
    CHECK(house.guest.held_caller_.uid == ::getuid());
}

TEST_CASE("plain text only where it was asked for") {
    const auto loopback = House::open(kPlain);
    CHECK(loopback->check_address("127.0.0.1:4791").ok());
    CHECK(loopback->check_address("localhost:4791").ok());
    CHECK(loopback->check_address("[::1]:4791").ok());
    for (const char* const open :
         {"0.0.0.0:4791", "198.18.1.2:4791", "h1:4791", "[::]:4791", "128.0.0.1:1"}) {
        CAPTURE(open);
        CHECK(loopback->check_address(open).error().code() == Errc::kDenied);
    }
    CHECK(
        House::open({.plain_text = PlainText::kEverywhere, .files = {}})->check_address("0.0.0.0:4791").ok());
    Guest guest;
    const auto started = ControlServer::start({.name = "test", .listen = "0.0.0.0:4791"}, *loopback, guest);
    REQUIRE_FALSE(started.ok());
    CHECK(contains(started.error().text(), "listen: 0.0.0.0:4791: is not loopback"));
}

TEST_CASE("a peer that takes all the connections it can get takes its share, and gives it back") {
    House house(kPlain);
    const std::size_t share = connection_bounds([] {
                                  rlimit limit{};
                                  ::getrlimit(RLIMIT_NOFILE, &limit);
                                  return static_cast<std::size_t>(limit.rlim_cur);
                              }())
                                  .per_peer;
    std::vector<UniqueFd> held;
    for (std::size_t i = 0; i < share + 20; ++i) {
        held.push_back(connect_to(house.address));
    }
    REQUIRE(comes_true([&] { return house.refused.load() >= 20; }));
    // The daemon itself is let in all the same.
    const auto answered = house.server->probe();
    CHECK_MESSAGE(answered.ok(), answered.error().text());
    held.clear();
    CHECK(comes_true([&] { return call(house.address, grpc::InsecureChannelCredentials()).ok(); }));
}

namespace {

// Whether the other side closes it in time; what it says before that is of no interest.
bool is_closed_by_peer(int fd) {
    const auto end = std::chrono::steady_clock::now() + kPatient;
    std::array<char, 4096> said{};
    for (;;) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
        pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
        if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) != 1) {
            return false;
        }
        if (::recv(fd, said.data(), said.size(), 0) <= 0) {
            return true;
        }
    }
}

// Whether a connection on which a call has been made comes to its end without another one.
bool ends_by_itself(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    grpc::ClientContext context;
    v1::AgentStatus reply;
    REQUIRE(v1::Agent::NewStub(channel)->GetStatus(&context, {}, &reply).ok());
    return channel->WaitForStateChange(GRPC_CHANNEL_READY, std::chrono::system_clock::now() + kPatient);
}

}  // namespace

TEST_CASE("a handshake that does not go on ends, and so does a connection that is idle or old") {
    using std::chrono::milliseconds;
    const CertificateFolder folder;
    const House tls(tls_of(folder.issue("sw")), ControlServerOptions{.handshake = milliseconds(100)});
    const UniqueFd silent = connect_to(tls.address);
    CHECK(is_closed_by_peer(silent.get()));
    // A record of TLS that is half there: a ClientHello of 512 bytes, of which five have come.
    const UniqueFd half = connect_to(tls.address);
    constexpr std::array<unsigned char, 10> kHello{22, 3, 1, 2, 0, 1, 0, 1, 252, 3};
    REQUIRE(::send(half.get(), kHello.data(), kHello.size(), MSG_NOSIGNAL) == kHello.size());
    CHECK(is_closed_by_peer(half.get()));

    const House idle(kPlain, ControlServerOptions{.idle = milliseconds(100)});
    CHECK(ends_by_itself(idle.address));
    const House old(kPlain, ControlServerOptions{.age = milliseconds(100)});
    CHECK(ends_by_itself(old.address));
}

TEST_CASE("a request is 64 KiB at most, and a connection has so many calls under way") {
    House house(kPlain);
    const auto stub = stub_of(house.address, grpc::InsecureChannelCredentials());
    {
        v1::LookupRequest request;
        request.set_token(std::string(70'000, 't'));
        grpc::ClientContext context;
        v1::TaskOffer reply;
        const auto status = stub->Lookup(&context, request, &reply);
        CHECK(status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
        CHECK(house.guest.held_ == 0);
    }
    std::vector<std::thread> callers;
    for (int i = 0; i < 12; ++i) {
        callers.emplace_back([&] {
            grpc::ClientContext context;
            v1::TaskOffer reply;
            CHECK(stub->Lookup(&context, {}, &reply).ok());
        });
    }
    std::unique_lock lock(house.guest.mutex_);
    REQUIRE(house.guest.changed_.wait_for(lock, kPatient, [&] { return house.guest.held_ == 8; }));
    lock.unlock();
    // Others are served meanwhile, and the rest of these wait where they are.
    CHECK(call(house.address, grpc::InsecureChannelCredentials()).ok());
    lock.lock();
    CHECK(house.guest.held_ == 8);
    house.guest.go_on_ = true;
    house.guest.changed_.notify_all();
    lock.unlock();
    for (auto& caller : callers) {
        caller.join();
    }
    CHECK(house.guest.held_ == 12);
}

TEST_CASE("threads that have handled calls stay for the next") {
    constexpr int kCalls = 7;
    constexpr int kRounds = 10;
    House house(kPlain, ControlServerOptions{.idle_threads = kCalls + 1});
    const auto stub = stub_of(house.address, grpc::InsecureChannelCredentials());
    for (int round = 1; round <= kRounds; ++round) {
        std::vector<std::thread> callers;
        for (int i = 0; i < kCalls; ++i) {
            callers.emplace_back([&] {
                grpc::ClientContext context;
                v1::TaskOffer reply;
                CHECK(stub->Lookup(&context, {}, &reply).ok());
            });
        }
        std::unique_lock lock(house.guest.mutex_);
        CHECK(house.guest.changed_.wait_for(lock, kPatient,
                                            [&] { return house.guest.held_ == round * kCalls; }));
        house.guest.go_on_ = true;
        house.guest.changed_.notify_all();
        lock.unlock();
        for (auto& caller : callers) {
            caller.join();
        }
        lock.lock();
        house.guest.go_on_ = false;
        lock.unlock();
        // One that is not back yet from its call takes none of the next round.
        CHECK(comes_true(others_sleep));
    }
    // The first round's, and one that waited for calls meanwhile.
    CHECK(house.guest.fresh_ <= kCalls + 1);
}

TEST_CASE("when descriptors run out nobody waits at the door, and it opens again") {
    House house(kPlain);
    REQUIRE(house.server->probe().ok());
    // gRPC's threads close what is over when they get to it, and a descriptor would be free then.
    REQUIRE(comes_true([] { return !has_connections(); }));
    std::vector<UniqueFd> wait;
    for (int i = 0; i < 8; ++i) {
        wait.push_back(UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
    }
    std::vector<UniqueFd> all;
    while (UniqueFd fd{::open("/dev/null", O_RDONLY | O_CLOEXEC)}) {
        all.push_back(std::move(fd));
    }
    REQUIRE(errno == EMFILE);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(house.address.substr(house.address.rfind(':') + 1))));
    for (const UniqueFd& fd : wait) {
        REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
    }
    CHECK(comes_true([&] { return house.refused.load() >= static_cast<int>(wait.size()); }));
    CHECK_FALSE(house.server->probe().ok());
    all.clear();
    wait.clear();
    const auto answered = house.server->probe();
    CHECK_MESSAGE(answered.ok(), answered.error().text());
    CHECK(call(house.address, grpc::InsecureChannelCredentials()).ok());
}
