// SPDX-License-Identifier: Apache-2.0
//
// ask-controld as it is started: over TLS, by who certificates say one is, killed in the middle, told to read
// its topology again.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <grpcpp/create_channel.h>

#include "lib/rpc/credentials.h"
#include "proto/controller.grpc.pb.h"
#include "tests/support/free_port.h"
#include "tests/support/patience.h"
#include "tests/unit/tls/folder.h"

using namespace ask;
using namespace ask::test;

namespace {

// Long enough for what is done within it, and as long has a daemon to be waited for that is to know all
// tasks.
const std::chrono::seconds kLease = patience(std::chrono::seconds(4));
const std::chrono::seconds kPatient = patience(std::chrono::seconds(20));
constexpr const char* kReceiver = "198.18.0.1";

constexpr const char* kTopology = R"([[switch]]
name = "spine"
relay = "198.19.0.1:4793"
capacity = 1
[[switch]]
name = "tor"
parent = "spine"
relay = "198.19.0.2:4793"
[[host]]
name = "h1"
switch = "spine"
address = "198.18.0.1"
[[host]]
name = "h2"
switch = "tor"
address = "198.18.0.2"
[[host]]
name = "h3"
switch = "tor"
address = "198.18.0.3"
)";

void write(const std::string& path, const std::string& text) {
    std::ofstream file(path);
    file << text;
    REQUIRE(file.flush().good());
}

std::string read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

template <typename Condition>
bool comes_true(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + kPatient;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) {
            return false;
        }
        // Another process is waited for, which says nothing of itself.
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
}

// Who calls: by a certificate, or over the socket.
class Guest {
 public:
    Guest(const std::string& address, const RpcSecurity& security) {
        const auto credentials = RpcCredentials::create(security);
        REQUIRE_MESSAGE(credentials.ok(), credentials.error().text());
        connect(address, (*credentials)->of_channel());
    }
    explicit Guest(const std::string& socket) { connect("unix:" + socket, local_credentials()); }

    grpc::Status admit(const v1::AdmitRequest& request, v1::AdmitReply* reply) const {
        return call(&v1::Controller::Stub::Admit, request, reply);
    }
    grpc::Status renew(const v1::RenewPlanRequest& request, v1::RenewPlanReply* reply) const {
        return call(&v1::Controller::Stub::Renew, request, reply);
    }
    grpc::Status release(const v1::ReleasePlanRequest& request) const {
        v1::ReleasePlanReply reply;
        return call(&v1::Controller::Stub::Release, request, &reply);
    }
    grpc::Status refused(const v1::ReportRefusedRequest& request, v1::AdmitReply* reply) const {
        return call(&v1::Controller::Stub::ReportRefused, request, reply);
    }
    grpc::Status available(const std::string& name, bool available) const {
        v1::SetAvailableRequest request;
        request.set_switch_(name);
        request.set_available(available);
        v1::SetAvailableReply reply;
        return call(&v1::Controller::Stub::SetAvailable, request, &reply);
    }
    grpc::Status status(v1::ControllerStatus* reply) const {
        return call(&v1::Controller::Stub::GetStatus, v1::GetControllerStatusRequest(), reply);
    }

 private:
    void connect(const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
        grpc::ChannelArguments arguments;
        arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
        arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
        stub_ = v1::Controller::NewStub(grpc::CreateCustomChannel(address, credentials, arguments));
    }

    template <typename Request, typename Reply>
    grpc::Status call(grpc::Status (v1::Controller::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                   Reply*),
                      const Request& request, Reply* reply) const {
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + kPatient);
        return (stub_.get()->*method)(&context, request, reply);
    }

    std::unique_ptr<v1::Controller::Stub> stub_;
};

// A daemon in a folder of its own; killed when the test ends.
class Daemon {
 public:
    Daemon() : port_(free_port()) {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment
        const char* const build = std::getenv("ASK_BUILD_DIR");
        REQUIRE_MESSAGE(build != nullptr, "ASK_BUILD_DIR names the build");
        program_ = std::string(build) + "/bin/ask-controld";
        topology(kTopology);
        const TlsFiles files = folder_.issue("ctl");
        write(folder_.at("controld.toml"), "listen = \"" + address() + "\"\nsocket = \"" + socket() +
                                               "\"\ntopology = \"" + folder_.at("net.toml") +
                                               "\"\nlease_seconds = " + std::to_string(kLease.count()) +
                                               "\ntls_ca = \"" + files.ca + "\"\ntls_certificate = \"" +
                                               files.certificate + "\"\ntls_key = \"" + files.key + "\"\n");
        start();
    }
    ~Daemon() { end(SIGKILL); }
    Daemon(const Daemon&) = delete;
    Daemon& operator=(const Daemon&) = delete;

    void start() {
        const std::string config = folder_.at("controld.toml");
        const char* const argv[] = {program_.c_str(), "--config", config.c_str(), nullptr};
        posix_spawn_file_actions_t actions;
        REQUIRE(::posix_spawn_file_actions_init(&actions) == 0);
        ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log().c_str(),
                                           O_WRONLY | O_CREAT | O_APPEND, 0600);
        REQUIRE(::posix_spawn(&pid_, program_.c_str(), &actions, nullptr, const_cast<char* const*>(argv),
                              environ) == 0);
        ::posix_spawn_file_actions_destroy(&actions);
        // A channel that has failed waits before it tries again: each look has its own.
        REQUIRE_MESSAGE(comes_true([&] {
                            v1::ControllerStatus status;
                            return Guest(socket()).status(&status).ok();
                        }),
                        read(log()));
    }
    int end(int signal) {
        if (pid_ == 0) {
            return 0;
        }
        int status = 0;
        ::kill(pid_, signal);
        ::waitpid(pid_, &status, 0);
        pid_ = 0;
        return status;
    }
    void hang_up() const { ::kill(pid_, SIGHUP); }

    // Until its first lease is over.
    void grow() const {
        const Guest local(socket());
        v1::ControllerStatus status;
        REQUIRE(comes_true([&] { return local.status(&status).ok() && status.young_seconds() == 0; }));
    }
    void topology(const std::string& text) const { write(folder_.at("net.toml"), text); }
    bool says(const std::string& text) const {
        return comes_true([&] { return contains(read(log()), text); });
    }
    [[nodiscard]] std::string log() const { return folder_.at("log"); }
    [[nodiscard]] std::string socket() const { return folder_.at("control.sock"); }
    [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

    Guest guest(const std::string& name, const std::string& host, const std::string& tenant = "",
                bool is_operator = false, const std::string& ca = "ca") const {
        CertificateOrder order;
        order.name = name;
        order.tenant = tenant;
        order.role_operator = is_operator;
        if (!host.empty()) {
            order.addresses = {host};
        }
        return {address(), {.plain_text = PlainText::kNowhere, .files = folder_.issue(order, ca)}};
    }
    [[nodiscard]] const CertificateFolder& folder() const { return folder_; }

 private:
    CertificateFolder folder_;
    std::uint16_t port_;
    std::string program_;
    pid_t pid_ = 0;
};

v1::AdmitRequest wish_of(std::uint64_t instance, std::uint32_t k = 1) {
    v1::AdmitRequest request;
    request.set_task("count");
    request.set_instance(instance);
    request.set_receiver(kReceiver);
    request.set_k(k);
    for (const char* const address : {"198.18.0.2", "198.18.0.3"}) {
        auto* const sender = request.add_senders();
        sender->set_address(address);
        sender->set_sends(1);
    }
    return request;
}

v1::RenewPlanRequest renewal_of(const v1::AdmitRequest& wish, const v1::AdmitReply& reply) {
    v1::RenewPlanRequest request;
    request.set_task(wish.task());
    request.set_instance(wish.instance());
    request.set_receiver(wish.receiver());
    request.set_plan(reply.plan());
    *request.mutable_placement() = reply.placement();
    return request;
}

}  // namespace

TEST_CASE("a receiver admits for itself, and nobody else touches or sees its plan") {
    const Daemon daemon;
    const Guest receiver = daemon.guest("h1", kReceiver);
    const Guest other = daemon.guest("h2", "198.18.0.2");
    const Guest tenant = daemon.guest("h1s", kReceiver, "search");
    const Guest alice = daemon.guest("alice", "", "", true);
    daemon.grow();

    v1::AdmitReply reply;
    const v1::AdmitRequest wish = wish_of(7);
    const grpc::Status admitted = receiver.admit(wish, &reply);
    REQUIRE_MESSAGE(admitted.ok(), admitted.error_message());
    REQUIRE(reply.placement().relays_size() == 1);
    CHECK(reply.placement().relays(0).name() == "tor");
    CHECK(reply.placement().relays(0).address() == "198.19.0.2:4793");
    CHECK(reply.placement().hosts(0).entry() == "tor");
    CHECK(reply.lease_seconds() == static_cast<double>(kLease.count()));

    v1::AdmitReply denied;
    CHECK(other.admit(wish, &denied).error_code() == grpc::StatusCode::PERMISSION_DENIED);
    v1::RenewPlanReply renewed;
    CHECK(other.renew(renewal_of(wish, reply), &renewed).error_code() == grpc::StatusCode::PERMISSION_DENIED);
    v1::ReleasePlanRequest release;
    release.set_instance(7);
    release.set_receiver(kReceiver);
    CHECK(other.release(release).error_code() == grpc::StatusCode::PERMISSION_DENIED);
    v1::ReportRefusedRequest refusal;
    refusal.set_instance(7);
    refusal.set_receiver(kReceiver);
    refusal.set_plan(reply.plan());
    refusal.set_switch_("tor");
    refusal.set_reason("no memory\x1b[2J");
    CHECK(other.refused(refusal, &denied).error_code() == grpc::StatusCode::PERMISSION_DENIED);
    // Another tenant on the same host: the plan is not there, and releasing it does nothing.
    CHECK(tenant.refused(refusal, &denied).error_code() == grpc::StatusCode::NOT_FOUND);
    CHECK(tenant.release(release).ok());

    v1::ControllerStatus status;
    for (const Guest* const stranger : {&other, &tenant}) {
        REQUIRE(stranger->status(&status).ok());
        CHECK(status.plans_size() == 0);
        CHECK(status.switches_size() == 0);
        CHECK(status.counters_size() == 0);
        CHECK(status.topology().empty());
    }
    REQUIRE(receiver.status(&status).ok());
    REQUIRE(status.plans_size() == 1);
    CHECK(status.plans(0).receiver() == "h1");
    CHECK(status.switches_size() == 0);
    REQUIRE(alice.status(&status).ok());
    REQUIRE(status.plans_size() == 1);
    CHECK(status.plans(0).switches(0) == "tor");
    REQUIRE(status.switches_size() == 2);
    CHECK(status.switches(1).taken() == 1);

    // Its own word counts, and is shown fit for a terminal.
    v1::AdmitReply next;
    REQUIRE(receiver.refused(refusal, &next).ok());
    CHECK(next.plan() != reply.plan());
    REQUIRE(next.placement().relays_size() == 1);
    CHECK(next.placement().relays(0).name() == "spine");
    REQUIRE(alice.status(&status).ok());
    CHECK(status.switches(1).taken() == 0);
    CHECK_FALSE(status.switches(1).available());
    CHECK(contains(status.switches(1).last_refusal(), "no memory\\x1b"));
    CHECK(receiver.release(release).ok());
    REQUIRE(alice.status(&status).ok());
    CHECK(status.plans_size() == 0);
}

TEST_CASE("who has no certificate of its CA gets nowhere, and only operators switch switches off") {
    const Daemon daemon;
    daemon.folder().make_ca("other");
    const Guest stranger = daemon.guest("h1", kReceiver, "", true, "other");
    const Guest receiver = daemon.guest("h1", kReceiver);
    const Guest alice = daemon.guest("alice", "", "", true);
    v1::ControllerStatus status;
    v1::AdmitReply reply;
    CHECK(stranger.status(&status).error_code() == grpc::StatusCode::UNAVAILABLE);
    CHECK(stranger.admit(wish_of(1), &reply).error_code() == grpc::StatusCode::UNAVAILABLE);
    const Guest plain(daemon.address(), {.plain_text = PlainText::kEverywhere, .files = {}});
    CHECK(plain.status(&status).error_code() == grpc::StatusCode::UNAVAILABLE);
    // An operator has no host, so nothing to admit for.
    CHECK(alice.admit(wish_of(1), &reply).error_code() == grpc::StatusCode::PERMISSION_DENIED);

    CHECK(receiver.available("tor", false).error_code() == grpc::StatusCode::PERMISSION_DENIED);
    CHECK(alice.available("tor", false).ok());
    CHECK(alice.available("none", false).error_code() == grpc::StatusCode::NOT_FOUND);
    const Guest local(daemon.socket());
    REQUIRE(local.status(&status).ok());
    CHECK_FALSE(status.switches(1).available());
    CHECK(status.switches(1).reason() == "switched off by an operator");
    CHECK(local.available("tor", true).ok());
    CHECK(local.admit(wish_of(1), &reply).error_code() == grpc::StatusCode::PERMISSION_DENIED);

    v1::AdmitRequest bad = wish_of(1);
    bad.mutable_senders(0)->set_address("h2");
    CHECK(receiver.admit(bad, &reply).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
    bad = wish_of(1);
    bad.add_excluded(std::string(300U << 10U, 'x'));
    CHECK(receiver.admit(bad, &reply).error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_CASE("a controller that is killed is rebuilt from renewals, and proposes no place twice") {
    Daemon daemon;
    const Guest receiver = daemon.guest("h1", kReceiver);
    daemon.grow();
    v1::AdmitRequest wish = wish_of(1, 2);
    v1::AdmitReply reply;
    REQUIRE(receiver.admit(wish, &reply).ok());
    // Nothing more is saved above the lower switch.
    REQUIRE(reply.placement().relays_size() == 1);

    daemon.end(SIGKILL);
    daemon.start();
    const Guest again = daemon.guest("h1", kReceiver);
    v1::AdmitReply early;
    REQUIRE(again.admit(wish_of(2), &early).ok());
    CHECK(early.placement().relays_size() == 0);
    CHECK(early.placement().hosts_size() == 2);
    CHECK_MESSAGE(contains(early.note(), "to hear of tasks that run"), early.note());
    v1::RenewPlanReply renewed;
    REQUIRE(again.renew(renewal_of(wish, reply), &renewed).ok());
    CHECK(renewed.rebuilt());
    CHECK(renewed.lease_seconds() == static_cast<double>(kLease.count()));
    // Repeated, it changes nothing.
    REQUIRE(again.renew(renewal_of(wish, reply), &renewed).ok());
    CHECK_FALSE(renewed.rebuilt());
    const Guest local(daemon.socket());
    v1::ControllerStatus status;
    REQUIRE(local.status(&status).ok());
    REQUIRE(status.plans_size() == 2);
    CHECK(status.plans(0).rebuilt());
    CHECK(status.plans(0).plan() == reply.plan());
    CHECK(status.switches(1).taken() == 1);
    // Nobody renews any of them: all is given back.
    CHECK(comes_true([&] { return local.status(&status).ok() && status.plans_size() == 0; }));
    CHECK(status.switches(1).taken() == 0);
    CHECK(daemon.end(SIGTERM) == 0);
}

TEST_CASE("SIGHUP takes another topology, and a bad one changes nothing") {
    Daemon daemon;
    const Guest local(daemon.socket());
    v1::ControllerStatus status;
    daemon.topology("[[switch]]\nname = \"a\"\nparent = \"b\"\n");
    daemon.hang_up();
    CHECK(daemon.says("'b' is no switch of this topology; the topology of before stays"));
    REQUIRE(local.status(&status).ok());
    CHECK(status.switches_size() == 2);
    daemon.topology(std::string(kTopology) + "[[switch]]\nname = \"tor2\"\nparent = \"spine\"\n");
    daemon.hang_up();
    CHECK(comes_true([&] { return local.status(&status).ok() && status.switches_size() == 3; }));
    CHECK(status.switches(2).reason() == "without a relay");
    CHECK(daemon.end(SIGTERM) == 0);
}
