// SPDX-License-Identifier: Apache-2.0
#include "agent/switch_client.h"

#include <utility>

#include "lib/control/member/convert.h"
#include "lib/control/member/copy_reader.h"
#include "lib/net/address.h"
#include "lib/rpc/call_origin.h"
#include "lib/rpc/types.h"
#include "lib/rpc/unreachable.h"

namespace ask {
Error SwitchClient::explain(Error error) const {
    if (error.code() == Errc::kUnavailable) {
        if (auto wrong = channels_.credentials().diagnose(address_, error.text())) {
            return std::move(*wrong).with_context(name());
        }
        return {Errc::kUnavailable, "switch " + address_ +
                                        " unreachable: " + why_unreachable(address_, error.text()) +
                                        ": start ask-switchd there, or open the task with --no-switch"};
    }
    if (error.code() == Errc::kDeadline) {
        return {Errc::kDeadline, "switch " + address_ +
                                     " does not answer: restart ask-switchd there, or open the task with "
                                     "--no-switch"};
    }
    return error;
}

// What the switch had of a task that it does not know any more went with it.
Error SwitchClient::explain_loss(Error error) const {
    if (error.code() == Errc::kUnknown) {
        return {Errc::kSwitchLost, error.text() + ": what it had aggregated is lost"};
    }
    return explain(std::move(error));
}

Result<> SwitchClient::outcome(RpcCall& call, const grpc::Status& status) const {
    if (!status.ok()) {
        return from_status(status, name());
    }
    if (channels_.credentials().encrypted() && !shows_uri(call.context().auth_context().get(), kSwitchUri)) {
        return Error(Errc::kDenied,
                     name() + ": the certificate of " + address_ +
                         " does not say that it is a switch: issue it one that does (askctl ca issue "
                         "--switch)");
    }
    learn(call.context().auth_context().get());
    return {};
}

// A switch has an address in each network: hosts in others know it by another one.
void SwitchClient::learn(const grpc::AuthContext* auth) const {
    const auto parts = split_host_port(address_);
    if (!channels_.credentials().encrypted() || !parts.ok()) {
        return;
    }
    std::vector<std::string> own;
    for (const std::string& address : shown_addresses(auth)) {
        const bool is_ipv6 = address.find(':') != std::string::npos;
        own.push_back((is_ipv6 ? "[" + address + "]" : address) + ":" + std::to_string(parts->port));
    }
    channels_.learn_switch(own);
}

template <typename Request, typename Reply>
Result<Reply> SwitchClient::attempt(grpc::Status (v1::Switch::Stub::*method)(grpc::ClientContext*,
                                                                             const Request&, Reply*),
                                    const Request& request, milliseconds wait, CallCancel* cancel) {
    ASK_PASS(allowed_);
    RpcCall call(channels_, wait, cancel);
    Reply reply;
    const auto to = stub();
    const auto done =
        outcome(call, call.verdict((to.get()->*method)(&call.context(), explained(request), &reply)));
    if (!done.ok()) {
        return done.error();
    }
    ASK_PASS(take_reply(reply, name()));
    return reply;
}

template <typename Request, typename Reply>
Result<Reply> SwitchClient::call(grpc::Status (v1::Switch::Stub::*method)(grpc::ClientContext*,
                                                                          const Request&, Reply*),
                                 const Request& request, milliseconds wait, CallCancel* cancel) {
    auto reply = attempt(method, request, wait, cancel);
    return reply ? std::move(reply) : explain(std::move(reply).error());
}

Result<v1::SwitchInfo> SwitchClient::info(milliseconds wait, CallCancel* cancel) {
    return call(&v1::Switch::Stub::GetInfo, v1::GetSwitchInfoRequest(), wait, cancel);
}

Result<v1::SwitchStatus> SwitchClient::status(milliseconds wait) {
    return call(&v1::Switch::Stub::GetStatus, v1::GetSwitchStatusRequest(), wait);
}

Result<v1::OpenTaskReply> SwitchClient::open_task(const v1::OpenTaskRequest& request, milliseconds wait,
                                                  CallCancel* cancel) {
    auto reply = call(&v1::Switch::Stub::OpenTask, request, wait, cancel);
    if (!reply) {
        return reply;
    }
    if (auto same = check_wire_version(reply->wire_version(), name()); !same) {
        // One of a time when nobody said has opened the task; if it cannot be told, the lease ends it.
        static_cast<void>(close_task(request.instance(), wait));
        return std::move(same).error();
    }
    return reply;
}

Result<> SwitchClient::close_task(std::uint64_t instance, milliseconds wait, CallCancel* cancel) {
    v1::CloseTaskRequest request;
    request.set_instance(instance);
    auto reply = call(&v1::Switch::Stub::CloseTask, request, wait, cancel);
    return reply ? Result<>() : std::move(reply).error();
}

Result<SwitchPort::Joined> SwitchClient::join_flow(const v1::JoinFlowRequest& request, milliseconds wait) {
    auto reply = call(&v1::Switch::Stub::JoinFlow, request, wait);
    if (!reply) {
        return std::move(reply).error();
    }
    const auto mark = mark_from_proto(reply->mark());
    ASK_PASS(mark);
    return Joined{.mark = *mark, .nonce = reply->nonce()};
}

SwitchPort::Registered SwitchClient::try_register(const v1::RegisterChannelRequest& request,
                                                  milliseconds wait, CallCancel* cancel) {
    if (!allowed_) {
        return {{}, allowed_.error(), {}};
    }
    RpcCall call(channels_, wait, cancel);
    v1::RegisterChannelReply reply;
    const grpc::Status status =
        call.verdict(stub()->RegisterChannel(&call.context(), explained(request), &reply));
    const auto done = outcome(call, status);
    if (done.ok()) {
        clean_strings(reply);
        auto mark = mark_from_proto(reply.mark());
        return mark ? Registered{*mark, {}, {}} : Registered{{}, std::move(mark).error(), {}};
    }
    Registered answer{{}, explain(done.error()), {}};
    v1::RegisterChannelRefusal refusal;
    if (status.error_code() == grpc::StatusCode::FAILED_PRECONDITION &&
        refusal.ParseFromString(status.error_details()) && refusal.told()) {
        answer.has = refusal.incarnation();
    }
    return answer;
}

Result<> SwitchClient::unregister_channel(ChannelId channel, std::uint32_t incarnation, milliseconds wait,
                                          CallCancel* cancel) {
    v1::UnregisterChannelRequest request;
    *request.mutable_channel() = channel_to_proto(channel);
    request.set_incarnation(incarnation);
    auto reply = call(&v1::Switch::Stub::UnregisterChannel, request, wait, cancel);
    return reply ? Result<>() : std::move(reply).error();
}

Result<v1::RenewTasksReply> SwitchClient::renew_tasks(const std::vector<std::uint64_t>& instances,
                                                      milliseconds wait) {
    v1::RenewTasksRequest request;
    request.mutable_instances()->Add(instances.begin(), instances.end());
    return call(&v1::Switch::Stub::RenewTasks, request, wait);
}

Result<> SwitchClient::confirm_copy(const RegionId& region, std::uint64_t epoch, milliseconds wait,
                                    CallCancel* cancel) {
    v1::ConfirmCopyRequest request;
    request.set_instance(region.instance);
    request.set_nonce(region.nonce);
    request.set_epoch(epoch);
    auto reply = attempt(&v1::Switch::Stub::ConfirmCopy, request, wait, cancel);
    return reply ? Result<>() : explain_loss(std::move(reply).error());
}

Result<CopyEnd> SwitchClient::stream_copy(const FetchOrder& order, const TakeEntries& take,
                                          CallCancel* cancel) {
    ASK_PASS(allowed_);
    RpcCall call(channels_, order.wait, cancel, RpcWait::kEachPart);
    grpc::ClientContext& context = call.context();
    v1::FetchCopyRequest request;
    request.set_instance(order.region.instance);
    request.set_nonce(order.region.nonce);
    request.set_epoch(order.epoch);
    request.set_close(order.close);
    request.set_settled(order.settled);
    request.set_skip(order.skip);
    const auto to = stub();
    const auto reader = to->FetchCopy(&context, request);
    CopyReader copy(name(), order, take);
    v1::FetchChunk chunk;
    while (reader->Read(&chunk)) {
        call.next_part();
        auto fine = chunk.flows().empty() ? Result<>() : take_hosts(chunk);
        fine = fine ? copy.add(std::move(chunk)) : std::move(fine).error().with_context(name());
        if (!fine) {
            context.TryCancel();
            reader->Finish();
            return std::move(fine).error();
        }
    }
    if (auto done = outcome(call, call.verdict(reader->Finish())); !done.ok()) {
        return explain_loss(std::move(done).error());
    }
    return copy.finish();
}

}  // namespace ask
