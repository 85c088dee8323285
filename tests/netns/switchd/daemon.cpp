// SPDX-License-Identifier: Apache-2.0
#include "tests/netns/switchd/daemon.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>

#include "lib/tuples/fetch_codec.h"
#include "tests/support/patience.h"

namespace ask::test {
namespace {

constexpr const char* kAddress = "127.0.0.1:4792";
constexpr std::uint16_t kPort = 4792;
const std::chrono::seconds kPatience = patience(std::chrono::seconds(20));

std::unique_ptr<grpc::ClientContext> context() {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(std::chrono::system_clock::now() + kPatience);
    context->set_wait_for_ready(true);
    return context;
}

// A channel of its own for each daemon: gRPC would otherwise wait out its back-off after the last one died.
std::unique_ptr<v1::Switch::Stub> connect() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 50);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    return v1::Switch::NewStub(
        grpc::CreateCustomChannel(kAddress, grpc::InsecureChannelCredentials(), arguments));
}

// A connection to the daemon that comes from that host.
int dial_from(std::uint32_t host) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(host);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(kPort);
    REQUIRE(::setsockopt(fd, SOL_IP, IP_TRANSPARENT, &on, sizeof(on)) == 0);
    REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof(from)) == 0);
    REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
    REQUIRE(::fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    return fd;
}

void set_channel(const ChannelId& channel, v1::ChannelId* message) {
    message->set_host(channel.host);
    message->set_port(channel.port);
}

}  // namespace

std::string base_flags(const std::string& ports) {
    return std::string("--config /dev/null --bpffs ") + kBpffs + " --listen " + kAddress +
           " --plain-text loopback --socket " + kScratch + "/switchd.sock" +
           (ports.empty() ? "" : " --ports " + ports) + " ";
}

CommandResult run_daemon(const std::string& flags) {
    return run_command("exec " + built("bin/ask-switchd") + " " + flags);
}

Daemon::Daemon(const std::string& flags, const std::string& ports, const std::string& wrapper)
    : log_path_(std::string(kScratch) + "/switchd.log") {
    // Tests of other things need not wait for the verifier.
    const bool prepares = flags.find("--prepared-programs") != std::string::npos;
    const std::string command =
        "exec setpriv --pdeathsig KILL -- " + wrapper + " " + built("bin/ask-switchd") + " " +
        base_flags(ports) + (prepares ? "" : "--prepared-programs 0 ") + flags + " > " + log_path_ + " 2>&1";
    const char* arguments[] = {"bash", "-c", command.c_str(), nullptr};
    REQUIRE(::posix_spawnp(&pid_, "bash", nullptr, nullptr, const_cast<char* const*>(arguments), environ) ==
            0);
    stub_ = connect();
    v1::SwitchInfo info;
    const auto call = context();
    const grpc::Status answered = stub_->GetInfo(call.get(), {}, &info);
    REQUIRE_MESSAGE(answered.ok(), log());
}

Daemon::~Daemon() {
    // A server that stops waits for its clients to say good-bye, and here nobody would hear it ask: gRPC
    // reads while a call is made.
    stub_.reset();
    stubs_.clear();
    end(SIGTERM);
    run_daemon(base_flags("") + "--unload");
}

v1::Switch::Stub& Daemon::stub_at(std::uint32_t host) {
    const std::scoped_lock lock(stubs_mutex_);
    auto& stub = stubs_[host];
    if (!stub) {
        stub = v1::Switch::NewStub(grpc::CreateInsecureChannelFromFd("switch", dial_from(host)));
    }
    return *stub;
}

int Daemon::end(int signal) {
    if (pid_ < 0) {
        return -1;
    }
    ::kill(pid_, signal);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void Daemon::signal(int signal) const {
    REQUIRE(::kill(pid_, signal) == 0);
}

std::string Daemon::log() const {
    std::ostringstream text;
    text << std::ifstream(log_path_).rdbuf();
    return text.str();
}

grpc::Status Daemon::register_channel(const ChannelId& channel, std::uint32_t incarnation,
                                      v1::RegisterChannelReply* reply, std::uint32_t replaces) {
    v1::RegisterChannelRequest request;
    v1::RegisterChannelReply ignored;
    set_channel(channel, request.mutable_channel());
    request.set_incarnation(incarnation);
    request.set_replaces(replaces);
    return stub_at(channel.host)
        .RegisterChannel(context().get(), request, reply == nullptr ? &ignored : reply);
}

grpc::Status Daemon::unregister_channel(const ChannelId& channel, std::uint32_t incarnation) {
    v1::UnregisterChannelRequest request;
    v1::UnregisterChannelReply reply;
    set_channel(channel, request.mutable_channel());
    request.set_incarnation(incarnation);
    return stub_at(channel.host).UnregisterChannel(context().get(), request, &reply);
}

grpc::Status Daemon::open_task(const v1::OpenTaskRequest& request, v1::OpenTaskReply* reply) {
    v1::OpenTaskReply ignored;
    return stub_at(receiver_).OpenTask(context().get(), request, reply == nullptr ? &ignored : reply);
}

grpc::Status Daemon::join_flow(std::uint64_t instance, const ChannelId& channel, std::uint32_t incarnation,
                               const CheckSecret& secret) {
    v1::JoinFlowRequest request;
    v1::JoinFlowReply reply;
    request.set_instance(instance);
    set_channel(channel, request.mutable_channel());
    request.set_incarnation(incarnation);
    request.set_secret(std::string(reinterpret_cast<const char*>(secret.data()), sizeof(secret)));
    return stub_at(receiver_).JoinFlow(context().get(), request, &reply);
}

grpc::Status Daemon::close_task(std::uint64_t instance) {
    v1::CloseTaskRequest request;
    v1::CloseTaskReply reply;
    request.set_instance(instance);
    return stub_at(receiver_).CloseTask(context().get(), request, &reply);
}

v1::RenewTasksReply Daemon::renew(const std::vector<std::uint64_t>& instances) {
    v1::RenewTasksRequest request;
    v1::RenewTasksReply reply;
    request.mutable_instances()->Add(instances.begin(), instances.end());
    const grpc::Status status = stub_at(receiver_).RenewTasks(context().get(), request, &reply);
    REQUIRE_MESSAGE(status.ok(), status.error_message());
    return reply;
}

v1::SwitchStatus Daemon::status() {
    v1::SwitchStatus reply;
    const grpc::Status status = stub_->GetStatus(context().get(), {}, &reply);
    REQUIRE_MESSAGE(status.ok(), status.error_message());
    return reply;
}

std::uint64_t Daemon::nonce_of(std::uint64_t instance) {
    const v1::SwitchStatus seen = status();
    for (const v1::SwitchTask& task : seen.tasks()) {
        if (task.instance() == instance) {
            return task.nonce();
        }
    }
    return 0;
}

grpc::Status Daemon::fetch(std::uint64_t instance, std::uint64_t epoch, std::vector<Entry>* entries,
                           v1::FetchChunk* last) {
    v1::FetchCopyRequest request;
    request.set_instance(instance);
    request.set_nonce(nonce_of(instance));
    request.set_epoch(epoch);
    return fetch(request, entries, last);
}

grpc::Status Daemon::swap(std::uint64_t instance, std::uint64_t epoch, std::vector<Entry>* entries,
                          v1::FetchChunk* last) {
    v1::FetchCopyRequest request;
    request.set_instance(instance);
    request.set_nonce(nonce_of(instance));
    request.set_epoch(epoch);
    request.set_close(true);
    return fetch(request, entries, last);
}

grpc::Status Daemon::confirm(std::uint64_t instance, std::uint64_t epoch) {
    v1::ConfirmCopyRequest request;
    v1::ConfirmCopyReply reply;
    request.set_instance(instance);
    request.set_nonce(nonce_of(instance));
    request.set_epoch(epoch);
    return stub_at(receiver_).ConfirmCopy(context().get(), request, &reply);
}

grpc::Status Daemon::fetch(const v1::FetchCopyRequest& request, std::vector<Entry>* entries,
                           v1::FetchChunk* last) {
    const auto call = context();
    const auto reader = stub_at(receiver_).FetchCopy(call.get(), request);
    v1::FetchChunk chunk;
    bool ended = false;
    while (reader->Read(&chunk)) {
        CHECK_FALSE(ended);
        EntryReader bytes(chunk.entries());
        while (!bytes.done()) {
            const auto entry = bytes.next();
            REQUIRE(entry.ok());
            entries->push_back({std::string(entry->key), entry->value});
        }
        ended = chunk.last();
        if (ended && last != nullptr) {
            *last = chunk;
        }
    }
    const grpc::Status status = reader->Finish();
    CHECK(status.ok() == ended);
    return status;
}

v1::OpenTaskRequest task_request(const std::string& id, std::uint64_t instance) {
    v1::OpenTaskRequest request;
    request.set_id(id);
    request.set_instance(instance);
    request.mutable_geometry()->set_short_slots(16);
    request.mutable_geometry()->set_groups(8);
    request.mutable_geometry()->set_m(2);
    request.mutable_geometry()->set_rows(4);
    request.set_op(v1::OPERATOR_SUM);
    request.set_aggregators(1024);
    request.set_copies(1);
    request.set_policy(v1::POLICY_FIRST_COME);
    request.set_receiver("198.18.2.2:4791");
    request.set_receiver_address(kHost2);
    request.set_wire_version(ASK_WIRE_VERSION);
    return request;
}

std::uint64_t counter(const v1::SwitchStatus& status, const std::string& name) {
    for (const v1::Counter& counter : status.counters()) {
        if (counter.name() == name) {
            return counter.value();
        }
    }
    FAIL("no counter " << name);
    return 0;
}

}  // namespace ask::test
