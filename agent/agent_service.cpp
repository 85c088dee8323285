// SPDX-License-Identifier: Apache-2.0
#include "agent/agent_service.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include "agent/status.h"
#include "lib/client/local_socket.h"
#include "lib/control/member/convert.h"
#include "lib/daemon/grpc_status.h"
#include "lib/daemon/listen.h"
#include "lib/rpc/call_origin.h"
#include "lib/rpc/credentials.h"

namespace ask {
namespace {

// Requests are small; so is what anybody may make the agent hold.
constexpr int kMaxMessage = 1 << 20;
// Renew calls that are held back take a thread each; beyond these, others need some too.
constexpr int kSpareThreads = 32;

template <typename Message>
grpc::Status answer(Result<Message> result, Message* reply) {
    if (!result) {
        return to_status(result.error());
    }
    *reply = std::move(*result);
    return grpc::Status::OK;
}

// While one lives, files belong to this user alone: gRPC makes its socket's file itself, and whoever could
// connect before the file has its permissions would stay connected. No other thread makes files meanwhile.
class OwnerOnly {
 public:
    OwnerOnly() : before_(::umask(S_IXUSR | S_IRWXG | S_IRWXO)) {}
    ~OwnerOnly() { ::umask(before_); }
    OwnerOnly(const OwnerOnly&) = delete;
    OwnerOnly& operator=(const OwnerOnly&) = delete;

 private:
    const mode_t before_;
};

// A file that a dead agent left behind; kExists if a live one answers there.
Result<> clear_stale_socket(const std::string& path) {
    UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
        return Error(Errc::kExists, path + ": another agent answers there: stop it, or use another `socket`");
    }
    if (errno == ECONNREFUSED) {
        ::unlink(path.c_str());
    }
    return {};
}

}  // namespace

grpc::Status AgentService::Lookup(grpc::ServerContext* context, const v1::LookupRequest* request,
                                  v1::TaskOffer* reply) {
    return answer(agent_.member.registry.look_up(caller_of(*context), *request), reply);
}

grpc::Status AgentService::Join(grpc::ServerContext* context, const v1::JoinRequest* request,
                                v1::JoinReply* reply) {
    return answer(agent_.member.registry.join(caller_of(*context), *request), reply);
}

grpc::Status AgentService::Renew(grpc::ServerContext* context, const v1::RenewRequest* request,
                                 v1::Outcome* reply) {
    return answer(agent_.member.registry.renew(caller_of(*context), *request), reply);
}

grpc::Status AgentService::Leave(grpc::ServerContext* context, const v1::LeaveRequest* request,
                                 v1::LeaveReply* /*reply*/) {
    const auto left = agent_.member.registry.leave(caller_of(*context), *request);
    return left.ok() ? grpc::Status::OK : to_status(left.error());
}

grpc::Status AgentService::GetStatus(grpc::ServerContext* context,
                                     const v1::GetAgentStatusRequest* /*request*/, v1::AgentStatus* reply) {
    *reply = agent_status(agent_);
    keep_to(caller_of(*context), *reply);
    return grpc::Status::OK;
}

grpc::Status AgentService::CancelTask(grpc::ServerContext* context, const v1::CancelTaskRequest* request,
                                      v1::CancelTaskReply* reply) {
    const Caller caller = caller_of(*context);
    if (!context->peer().starts_with("unix:") && !caller.is_local()) {
        return to_status(
            Error(Errc::kDenied, "a task is cancelled on its own host: askctl task cancel there"));
    }
    if (auto valid = check_task_id(request->task_id()); !valid) {
        return to_status(valid.error());
    }
    reply->set_receives(agent_.member.registry.cancel(caller, request->task_id()) ? 1 : 0);
    reply->set_sends(agent_.member.sends.cancel(caller, request->task_id()));
    if (reply->receives() + reply->sends() == 0) {
        return to_status(Error(Errc::kUnknown, "no task " + request->task_id() + " is under way on " +
                                                   agent_.config.name + ": askctl tasks lists what is"));
    }
    return grpc::Status::OK;
}

Result<std::unique_ptr<grpc::Server>> serve(AgentService& service, const AgentConfig& config, gid_t group) {
    const std::string control = config.socket + ".ctl";
    if (auto cleared = clear_stale_socket(control); !cleared) {
        return std::move(cleared).error();
    }
    grpc::ResourceQuota quota("ask-agentd");
    quota.SetMaxThreads(static_cast<int>(config.max_sessions) + kSpareThreads);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(config.listen, rpc_server_credentials(), &port);
    builder.AddListeningPort("unix:" + control, rpc_server_credentials());
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(kMaxMessage);
    builder.SetResourceQuota(quota);
    builder.RegisterService(&service);
    ASK_PASS(check_listen("listen", config.listen));
    std::unique_ptr<grpc::Server> server;
    {
        const OwnerOnly files;
        server = builder.BuildAndStart();
    }
    if (!server || port == 0) {
        return Error(Errc::kExists, "cannot listen on " + config.listen + " and " + control +
                                        ": is another ask-agentd running, and does the directory exist?");
    }
    ASK_PASS(open_to_group(control, group));
    return server;
}

}  // namespace ask
