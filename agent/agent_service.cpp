// SPDX-License-Identifier: Apache-2.0
#include "agent/agent_service.h"

#include <utility>

#include <grpc/support/time.h>

#include "agent/status.h"
#include "lib/control/member/convert.h"
#include "lib/daemon/grpc_status.h"
#include "lib/rpc/call_origin.h"
#include "lib/rpc/hosts6.h"

namespace ask {
namespace {

// Renew calls that are held back take a thread each; beyond these, others need some too.
constexpr int kSpareThreads = 32;
// As many calls as a task of a rack's hosts holds back.
constexpr int kIdleThreads = 64;

template <typename Message>
grpc::Status answer(Result<Message> result, Message* reply) {
    if (!result) {
        return to_status(result.error());
    }
    *reply = std::move(*result);
    if constexpr (HasHosts6<Message>) {
        explain_hosts(*reply);
    }
    return grpc::Status::OK;
}

// Of a request that the number of its caller's host is in: nobody looks at it before that is known.
template <typename Request, typename Handle>
auto with_hosts(const grpc::ServerContext& context, const Request& request, Handle handle)
    -> decltype(handle(Caller())) {
    const Caller caller = caller_of(context);
    if (const auto taken = take_hosts(request, caller); !taken) {
        return Error(taken.error());
    }
    return handle(caller);
}

// Its caller has given up. By the clock that nobody sets, which context.deadline() is not.
bool is_overdue(const grpc::ServerContext& context) {
    const gpr_timespec until = gpr_convert_clock_type(context.raw_deadline(), GPR_CLOCK_MONOTONIC);
    return gpr_time_cmp(gpr_now(GPR_CLOCK_MONOTONIC), until) >= 0;
}

}  // namespace

grpc::Status AgentService::Lookup(grpc::ServerContext* context, const v1::LookupRequest* request,
                                  v1::TaskOffer* reply) {
    return answer(
        with_hosts(*context, *request,
                   [&](const Caller& caller) { return agent_.member.registry.look_up(caller, *request); }),
        reply);
}

grpc::Status AgentService::Join(grpc::ServerContext* context, const v1::JoinRequest* request,
                                v1::JoinReply* reply) {
    return answer(
        with_hosts(*context, *request,
                   [&](const Caller& caller) { return agent_.member.registry.join(caller, *request); }),
        reply);
}

grpc::Status AgentService::Renew(grpc::ServerContext* context, const v1::RenewRequest* request,
                                 v1::Outcome* reply) {
    const auto listens = [context] { return !is_overdue(*context) && !context->IsCancelled(); };
    return answer(agent_.member.registry.renew(caller_of(*context), *request, listens), reply);
}

grpc::Status AgentService::Leave(grpc::ServerContext* context, const v1::LeaveRequest* request,
                                 v1::LeaveReply* /*reply*/) {
    const auto left = agent_.member.registry.leave(caller_of(*context), *request);
    return left.ok() ? grpc::Status::OK : to_status(left.error());
}

grpc::Status AgentService::FollowStream(grpc::ServerContext* context, const v1::FollowStreamRequest* request,
                                        v1::FollowStreamReply* reply) {
    return answer(with_hosts(*context, *request,
                             [&](const Caller& caller) {
                                 return agent_.member.registry.follow_stream(caller, *request);
                             }),
                  reply);
}

grpc::Status AgentService::FinishTask(grpc::ServerContext* context, const v1::FinishTaskRequest* request,
                                      v1::FinishTaskReply* /*reply*/) {
    const Caller caller = caller_of(*context);
    if (!caller.is_local()) {
        return to_status(
            Error(Errc::kDenied, "a stream is finished on its receiver's host: askctl task finish there"));
    }
    if (auto valid = check_task_id(request->task_id()); !valid) {
        return to_status(valid.error());
    }
    if (!agent_.member.registry.finish_stream(caller, request->task_id())) {
        return to_status(Error(Errc::kUnknown, "no stream " + request->task_id() + " is received on " +
                                                   agent_.config.name + ": askctl tasks lists what is"));
    }
    return grpc::Status::OK;
}

grpc::Status AgentService::JoinGroup(grpc::ServerContext* context, const v1::JoinGroupRequest* request,
                                     v1::JoinGroupReply* reply) {
    return answer(with_hosts(*context, *request,
                             [&](const Caller& caller) { return agent_.groups.join(caller, *request); }),
                  reply);
}

grpc::Status AgentService::RenewGroup(grpc::ServerContext* context, const v1::RenewGroupRequest* request,
                                      v1::GroupOutcome* reply) {
    return answer(agent_.groups.renew(caller_of(*context), *request), reply);
}

grpc::Status AgentService::LeaveGroup(grpc::ServerContext* context, const v1::LeaveGroupRequest* request,
                                      v1::LeaveGroupReply* /*reply*/) {
    const auto left = agent_.groups.leave(caller_of(*context), *request);
    return left.ok() ? grpc::Status::OK : to_status(left.error());
}

grpc::Status AgentService::GetStatus(grpc::ServerContext* context,
                                     const v1::GetAgentStatusRequest* /*request*/, v1::AgentStatus* reply) {
    const Caller caller = caller_of(*context);
    if (!caller.is_local() && !may_operate(caller)) {
        return to_status(Error(Errc::kDenied, describe(caller) +
                                                  " is no operator: ask on the agent's own host, or with an "
                                                  "operator's certificate (askctl ca issue --operator)"));
    }
    *reply = agent_status(agent_);
    keep_to(caller, *reply);
    explain_hosts(*reply);
    return grpc::Status::OK;
}

grpc::Status AgentService::CancelTask(grpc::ServerContext* context, const v1::CancelTaskRequest* request,
                                      v1::CancelTaskReply* reply) {
    const Caller caller = caller_of(*context);
    // Whoever may open the socket may end what runs here of his own; nobody else.
    if (!caller.is_local()) {
        return to_status(
            Error(Errc::kDenied, "a task is cancelled on its own host: askctl task cancel there"));
    }
    if (auto valid = check_task_id(request->task_id()); !valid) {
        return to_status(valid.error());
    }
    reply->set_receives(agent_.member.registry.cancel(caller, request->task_id()) ? 1 : 0);
    reply->set_sends(agent_.member.sends.cancel(caller, request->task_id()) +
                     agent_.member.follows.cancel(caller, request->task_id()));
    if (reply->receives() + reply->sends() == 0) {
        return to_status(Error(Errc::kUnknown, "no task " + request->task_id() + " is under way on " +
                                                   agent_.config.name + ": askctl tasks lists what is"));
    }
    return grpc::Status::OK;
}

Result<std::unique_ptr<ControlServer>> serve(AgentService& service, Agent& agent, gid_t group) {
    const int calls = static_cast<int>(agent.config.max_sessions) + kSpareThreads;
    return ControlServer::start(
        {.name = "ask-agentd",
         .listen = agent.config.listen,
         .socket = agent.config.socket + ".ctl",
         .group = group,
         .threads = calls,
         .streams = calls,
         .idle_threads = kIdleThreads,
         .refused = [&agent] { agent.counters.add(AgentCounter::k_refused_connections); }},
        *agent.credentials, service);
}

}  // namespace ask
