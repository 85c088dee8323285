// SPDX-License-Identifier: Apache-2.0
#include "agent/peer_client.h"

#include <utility>

#include "agent/renew_call.h"
#include "lib/rpc/types.h"

namespace ask {

template <typename Request, typename Reply>
Result<Reply> PeerClient::call(grpc::Status (v1::Agent::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                       Reply*),
                               const Request& request, milliseconds wait, const std::string& peer,
                               CallCancel* cancel) {
    const RpcCredentials& credentials = channels_.credentials();
    ASK_TRY(credentials.check_address(address_), peer);
    const auto to = stub();
    auto reply = call_rpc(channels_, *to, method, request, wait, peer, cancel);
    if (!reply.ok() && reply.error().code() == Errc::kUnavailable) {
        if (auto wrong = credentials.diagnose(address_, reply.error().text())) {
            return std::move(*wrong).with_context(peer);
        }
    }
    return reply;
}

// Whether it receives anything is not known yet.
Result<v1::TaskOffer> PeerClient::look_up(const v1::LookupRequest& request, milliseconds wait,
                                          CallCancel* cancel) {
    const std::string agent = "agent on " + name_;
    auto offer = call(&v1::Agent::Stub::Lookup, request, wait, agent, cancel);
    if (offer.ok()) {
        ASK_PASS(check_wire_version(offer->wire_version(), agent));
    }
    return offer;
}

Result<v1::JoinReply> PeerClient::join(const v1::JoinRequest& request, milliseconds wait,
                                       CallCancel* cancel) {
    return call(&v1::Agent::Stub::Join, request, wait, "receiver " + name_, cancel);
}

// An agent of an older release does not know the call, which no error of its own is like.
Result<v1::FollowStreamReply> PeerClient::follow_stream(const v1::FollowStreamRequest& request,
                                                        milliseconds wait, CallCancel* cancel) {
    const std::string agent = "agent on " + name_;
    auto reply = call(&v1::Agent::Stub::FollowStream, request, wait, agent, cancel);
    if (!reply && reply.error().code() == Errc::kInternal) {
        return Error(Errc::kUnsupported, reply.error().text() + ": it may know no streams: upgrade it");
    }
    if (reply.ok()) {
        ASK_PASS(check_wire_version(reply->wire_version(), agent));
    }
    return reply;
}

Result<> PeerClient::leave(const v1::LeaveRequest& request, milliseconds wait) {
    const auto left = call(&v1::Agent::Stub::Leave, request, wait, "receiver " + name_, nullptr);
    return left ? Result<>() : Error(left.error());
}

Result<v1::JoinGroupReply> PeerClient::join_group(const v1::JoinGroupRequest& request, milliseconds wait,
                                                  CallCancel* cancel) {
    auto reply = call(&v1::Agent::Stub::JoinGroup, request, wait, "root " + name_, cancel);
    if (reply.ok()) {
        ASK_PASS(check_wire_version(reply->wire_version(), "agent on " + name_));
    }
    return reply;
}

Result<v1::GroupOutcome> PeerClient::renew_group(const v1::RenewGroupRequest& request, milliseconds wait,
                                                 CallCancel* cancel) {
    return call(&v1::Agent::Stub::RenewGroup, request, wait, "root " + name_, cancel);
}

Result<> PeerClient::leave_group(const v1::LeaveGroupRequest& request, milliseconds wait) {
    const auto left = call(&v1::Agent::Stub::LeaveGroup, request, wait, "root " + name_, nullptr);
    return left ? Result<>() : Error(left.error());
}

std::unique_ptr<Renewal> PeerClient::renewal(std::shared_ptr<Mailbox> mailbox) {
    return std::make_unique<RenewCall>([this] { return stub(); }, std::move(mailbox), "receiver " + name_);
}

}  // namespace ask
