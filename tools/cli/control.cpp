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
#include "lib/net/address.h"
#include "lib/rpc/clean_message.h"
#include "lib/rpc/credentials.h"
#include "lib/rpc/hosts6.h"
#include "lib/rpc/unreachable.h"
#include "lib/text/clean.h"
#include "proto/agent.grpc.pb.h"
#include "proto/controller.grpc.pb.h"
#include "proto/relay.grpc.pb.h"
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

// What it does not explain is shown as a number.
template <typename Status>
void take_status(Status& status) {
    clean_strings(status);
    [[maybe_unused]] const auto explained = take_hosts(status);
}

// unix:PATH takes absolute and relative paths.
std::unique_ptr<v1::Agent::Stub> agent_stub(const std::string& socket) {
    return v1::Agent::NewStub(channel_to("unix:" + socket + ".ctl", local_credentials()));
}

// What may be elsewhere: how messages call it, and what to do if it does not answer.
struct Kind {
    const char* what;
    const char* daemon;
    const char* flag;
    const char* variable;
    const char* socket;

    [[nodiscard]] std::string name_another() const {
        return flag + (*variable == '\0' ? std::string() : std::string(" or ") + variable);
    }
};
constexpr Kind kSwitch{"the switch", "ask-switchd", "--switch", "ASK_SWITCH",
                       "/run/ask-switchd/control.sock"};
constexpr Kind kController{"the controller", "ask-controld", "--controller", "ASK_CONTROLLER",
                           "/run/ask-controld/control.sock"};
// No variable: nothing is asked of relays every day.
constexpr Kind kRelay{"the relay", "ask-relayd", "--relay", "", "/run/ask-relayd/control.sock"};

// One of them, and with what it is spoken to; none on this machine.
struct End {
    const Kind& kind;
    std::string address;
    std::shared_ptr<RpcCredentials> credentials;

    // Of its socket; empty: it is elsewhere.
    [[nodiscard]] std::string path() const {
        return address.starts_with(kLocalPrefix) ? address.substr(kLocalPrefix.size()) : "";
    }
    [[nodiscard]] std::shared_ptr<grpc::Channel> channel() const {
        return channel_to(address, credentials ? credentials->of_channel() : local_credentials());
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

Error explain_end(const grpc::Status& status, const End& end) {
    const std::string who = std::string(end.kind.what) + " at " + end.address;
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE && end.credentials) {
        if (auto wrong = end.credentials->diagnose(end.address, status.error_message())) {
            return std::move(*wrong).with_context(who);
        }
    }
    if (const std::string path = end.path();
        !path.empty() && ::access(path.c_str(), R_OK | W_OK) != 0 && errno == EACCES) {
        return explain_denied(path);
    }
    return explain(
        status, who, end.path().empty() ? end.address : end.path(),
        std::string("start ") + end.kind.daemon + " there, or name another with " + end.kind.name_another());
}

// gRPC may still be asking one name server after the other when the time for an answer is over.
Result<> check_name(const std::string& address, const Kind& kind) {
    const std::string host = address.substr(0, address.rfind(':'));
    if (host.starts_with('[')) {
        return {};
    }
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
        return Error(Errc::kUnknown, "the name \"" + host + "\" does not resolve (" + ::gai_strerror(error) +
                                         "): name another with " + kind.name_another() +
                                         ", or give its address");
    }
    ::freeaddrinfo(found);
    return {};
}

Result<End> end_at(const std::string& address, const ControlSecurity& security, const Kind& kind) {
    if (address.starts_with(kLocalPrefix)) {
        return End{kind, address, nullptr};
    }
    ASK_TRY(check_name(address, kind), std::string(kind.what) + " at " + address);
    // What it says of a handshake that fails, the error says in words.
    gpr_set_log_function([](gpr_log_func_args* /*line*/) {});
    auto credentials = RpcCredentials::create(
        {.plain_text = security.plain_text ? PlainText::kEverywhere : PlainText::kNowhere,
         .files = security.files.value_or(TlsFiles::in(security.tls))});
    if (!credentials) {
        return Error(credentials.error().code(),
                     credentials.error().text() + " (--tls or ASK_TLS names another folder; " + kind.what +
                         " on this machine is asked without any of it: " + kind.flag +
                         " unix:" + kind.socket + ")");
    }
    return End{kind, canonical_host_port(address), *std::move(credentials)};
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
    take_status(status);
    return status;
}

Result<v1::SwitchStatus> switch_status(const std::string& address, const ControlSecurity& security) {
    const auto end = end_at(address, security, kSwitch);
    ASK_PASS(end);
    grpc::ClientContext context;
    limit(context);
    v1::SwitchStatus status;
    const grpc::Status done = v1::Switch::NewStub(end->channel())->GetStatus(&context, {}, &status);
    if (!done.ok()) {
        return explain_end(done, *end);
    }
    take_status(status);
    return status;
}

Result<v1::ControllerStatus> controller_status(const std::string& address, const ControlSecurity& security) {
    const auto end = end_at(address, security, kController);
    ASK_PASS(end);
    grpc::ClientContext context;
    limit(context);
    v1::ControllerStatus status;
    const grpc::Status done = v1::Controller::NewStub(end->channel())->GetStatus(&context, {}, &status);
    if (!done.ok()) {
        return explain_end(done, *end);
    }
    take_status(status);
    return status;
}

Result<v1::RelayStatus> relay_status(const std::string& address, const ControlSecurity& security) {
    const auto end = end_at(address, security, kRelay);
    ASK_PASS(end);
    grpc::ClientContext context;
    limit(context);
    v1::RelayStatus status;
    const grpc::Status done = v1::Relay::NewStub(end->channel())->GetStatus(&context, {}, &status);
    if (!done.ok()) {
        return explain_end(done, *end);
    }
    take_status(status);
    return status;
}

Result<bool> set_available(const std::string& address, const ControlSecurity& security,
                           const std::string& name, bool available) {
    const auto end = end_at(address, security, kController);
    ASK_PASS(end);
    grpc::ClientContext context;
    limit(context);
    v1::SetAvailableRequest request;
    request.set_switch_(name);
    request.set_available(available);
    v1::SetAvailableReply reply;
    const grpc::Status done =
        v1::Controller::NewStub(end->channel())->SetAvailable(&context, request, &reply);
    if (!done.ok()) {
        return explain_end(done, *end);
    }
    return reply.changed();
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

Result<> finish_stream(const std::string& socket, const std::string& name) {
    grpc::ClientContext context;
    limit(context);
    v1::FinishTaskRequest request;
    request.set_task_id(name);
    v1::FinishTaskReply reply;
    const grpc::Status done = agent_stub(socket)->FinishTask(&context, request, &reply);
    return done.ok() ? Result<>() : explain_agent(done, socket);
}

Result<> read_region(const std::string& address, const ControlSecurity& security, const v1::SwitchTask& task,
                     const std::function<Result<>(std::string_view entries)>& sink) {
    const auto end = end_at(address, security, kSwitch);
    ASK_PASS(end);
    grpc::ClientContext context;
    limit(context);
    v1::FetchCopyRequest request;
    request.set_instance(task.instance());
    request.set_nonce(task.nonce());
    request.set_epoch(task.epoch());
    const auto stub = v1::Switch::NewStub(end->channel());
    const auto reader = stub->FetchCopy(&context, request);
    Result<> fine;
    v1::FetchChunk chunk;
    while (reader->Read(&chunk)) {
        fine = fine ? sink(chunk.entries()) : std::move(fine);
    }
    if (const grpc::Status done = reader->Finish(); !done.ok()) {
        return explain_end(done, *end);
    }
    return fine;
}

}  // namespace ask::cli
