// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/control.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>

#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <grpcpp/grpcpp.h>

#include "lib/client/local_socket.h"
#include "lib/daemon/grpc_status.h"
#include "lib/rpc/clean_message.h"
#include "lib/rpc/credentials.h"
#include "lib/rpc/unreachable.h"
#include "lib/text/clean.h"
#include "proto/agent.grpc.pb.h"
#include "proto/switch.grpc.pb.h"

namespace ask::cli {
namespace {

constexpr std::chrono::seconds kAnswer{5};
// A status lists tasks by the thousand, with the names of all their senders: more than gRPC's 4 MiB.
constexpr int kLongestAnswer = 1 << 28;

constexpr std::string_view kLocalPrefix = "unix:";

void limit(grpc::ClientContext& context) {
    context.set_deadline(gpr_time_from_seconds(kAnswer.count(), GPR_TIMESPAN));
}

Error explain(const grpc::Status& status, const std::string& who, const std::string& address,
              const std::string& what_to_do) {
    const std::string said = clean_text(status.error_message());
    switch (status.error_code()) {
        case grpc::StatusCode::UNAVAILABLE:
            return {Errc::kUnavailable,
                    who + " cannot be reached: " + why_unreachable(address, said) + ": " + what_to_do};
        case grpc::StatusCode::DEADLINE_EXCEEDED:
            return {Errc::kDeadline,
                    who + " has not answered within " + std::to_string(kAnswer.count()) +
                        " s: its machine is down, a firewall drops what is sent there, or the daemon hangs"};
        case grpc::StatusCode::PERMISSION_DENIED:
            return {Errc::kDenied, who + " refuses: " + said};
        case grpc::StatusCode::NOT_FOUND:
            return {Errc::kUnknown, said};
        case grpc::StatusCode::UNIMPLEMENTED:
            return {
                Errc::kUnknown,
                who + ": whoever listens there is another service (agents listen at 4791, switches at 4792)"};
        default:
            return {Errc::kInternal, who + ": " + said};
    }
}

std::shared_ptr<grpc::Channel> channel_to(const std::string& address,
                                          const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kLongestAnswer);
    return grpc::CreateCustomChannel(address, credentials, arguments);
}

// unix:PATH takes absolute and relative paths.
std::unique_ptr<v1::Agent::Stub> agent_stub(const std::string& socket) {
    return v1::Agent::NewStub(channel_to("unix:" + socket + ".ctl", local_credentials()));
}

// A switch, and with what it is spoken to; none on this machine.
struct SwitchEnd {
    std::string address;
    std::shared_ptr<RpcCredentials> credentials;

    // Of its socket; empty: it is elsewhere.
    [[nodiscard]] std::string path() const {
        return address.starts_with(kLocalPrefix) ? address.substr(kLocalPrefix.size()) : "";
    }
    [[nodiscard]] std::unique_ptr<v1::Switch::Stub> stub() const {
        return v1::Switch::NewStub(
            channel_to(address, credentials ? credentials->of_channel() : local_credentials()));
    }
};

Error explain_agent(const grpc::Status& status, const std::string& socket) {
    const std::string path = socket + ".ctl";
    if (::access(path.c_str(), R_OK | W_OK) != 0 && errno == EACCES) {
        return explain_denied(path);
    }
    return explain(status, "the agent at " + path, path,
                   "start ask-agentd, or name its socket with --agent or ASK_AGENT");
}

Error explain_switch(const grpc::Status& status, const SwitchEnd& end) {
    const std::string who = "the switch at " + end.address;
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE && end.credentials) {
        if (auto wrong = end.credentials->diagnose(end.address, status.error_message())) {
            return std::move(*wrong).with_context(who);
        }
    }
    if (const std::string path = end.path();
        !path.empty() && ::access(path.c_str(), R_OK | W_OK) != 0 && errno == EACCES) {
        return explain_denied(path);
    }
    return explain(status, who, end.path().empty() ? end.address : end.path(),
                   "start ask-switchd there, or name another with --switch or ASK_SWITCH");
}

// gRPC may still be asking one name server after the other when the time for an answer is over.
Result<> check_name(const std::string& address) {
    const std::string host = address.substr(0, address.rfind(':'));
    if (host.starts_with('[')) {
        return {};
    }
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
        return Error(Errc::kUnknown, "the name \"" + host + "\" does not resolve (" + ::gai_strerror(error) +
                                         "): name another with --switch or ASK_SWITCH, or give its address");
    }
    ::freeaddrinfo(found);
    return {};
}

Result<SwitchEnd> switch_end(const std::string& address, const ControlSecurity& security) {
    if (address.starts_with(kLocalPrefix)) {
        return SwitchEnd{address, nullptr};
    }
    ASK_TRY(check_name(address), "the switch at " + address);
    // What it says of a handshake that fails, the error says in words.
    gpr_set_log_function([](gpr_log_func_args* /*line*/) {});
    auto credentials = RpcCredentials::create(
        {.plain_text = security.plain_text ? PlainText::kEverywhere : PlainText::kNowhere,
         .files = security.files.value_or(TlsFiles::in(security.tls))});
    if (!credentials) {
        return Error(
            credentials.error().code(),
            credentials.error().text() +
                " (--tls or ASK_TLS names another folder; a switch on this machine is asked without any of "
                "it: --switch unix:/run/ask-switchd/control.sock)");
    }
    return SwitchEnd{address, *std::move(credentials)};
}

}  // namespace

Result<v1::AgentStatus> agent_status(const std::string& socket) {
    grpc::ClientContext context;
    limit(context);
    v1::AgentStatus status;
    const grpc::Status done = agent_stub(socket)->GetStatus(&context, {}, &status);
    if (!done.ok()) {
        return explain_agent(done, socket);
    }
    clean_strings(status);
    return status;
}

Result<v1::SwitchStatus> switch_status(const std::string& address, const ControlSecurity& security) {
    const auto end = switch_end(address, security);
    ASK_PASS(end);
    grpc::ClientContext context;
    limit(context);
    v1::SwitchStatus status;
    const grpc::Status done = end->stub()->GetStatus(&context, {}, &status);
    if (!done.ok()) {
        return explain_switch(done, *end);
    }
    clean_strings(status);
    return status;
}

Result<v1::CancelTaskReply> cancel_task(const std::string& socket, const std::string& id) {
    grpc::ClientContext context;
    limit(context);
    v1::CancelTaskRequest request;
    request.set_task_id(id);
    v1::CancelTaskReply reply;
    const grpc::Status done = agent_stub(socket)->CancelTask(&context, request, &reply);
    if (!done.ok()) {
        return explain_agent(done, socket);
    }
    clean_strings(reply);
    return reply;
}

Result<> read_region(const std::string& address, const ControlSecurity& security, const v1::SwitchTask& task,
                     const std::function<Result<>(std::string_view entries)>& sink) {
    const auto end = switch_end(address, security);
    ASK_PASS(end);
    grpc::ClientContext context;
    limit(context);
    v1::FetchCopyRequest request;
    request.set_instance(task.instance());
    request.set_nonce(task.nonce());
    request.set_epoch(task.epoch());
    const auto stub = end->stub();
    const auto reader = stub->FetchCopy(&context, request);
    Result<> fine;
    v1::FetchChunk chunk;
    while (reader->Read(&chunk)) {
        fine = fine ? sink(chunk.entries()) : std::move(fine);
    }
    if (const grpc::Status done = reader->Finish(); !done.ok()) {
        return explain_switch(done, *end);
    }
    return fine;
}

}  // namespace ask::cli
