// SPDX-License-Identifier: Apache-2.0
#include "agent/peer_client.h"

#include <utility>

#include "agent/renew_call.h"
#include "lib/rpc/types.h"

namespace ask {

PeerClient::PeerClient(RpcChannels& channels, const std::string& address, std::string name)
    : channels_(channels), name_(std::move(name)), stub_(v1::Agent::NewStub(channels.get(address))) {}

// Whether it receives anything is not known yet.
Result<v1::TaskOffer> PeerClient::look_up(const v1::LookupRequest& request, milliseconds wait,
                                          CallCancel* cancel) {
    const std::string agent = "agent on " + name_;
    auto offer = call_rpc(channels_, *stub_, &v1::Agent::Stub::Lookup, request, wait, agent, cancel);
    if (offer.ok()) {
        ASK_PASS(check_wire_version(offer->wire_version(), agent));
    }
    return offer;
}

Result<v1::JoinReply> PeerClient::join(const v1::JoinRequest& request, milliseconds wait,
                                       CallCancel* cancel) {
    return call_rpc(channels_, *stub_, &v1::Agent::Stub::Join, request, wait, "receiver " + name_, cancel);
}

Result<> PeerClient::leave(const v1::LeaveRequest& request, milliseconds wait) {
    const auto left =
        call_rpc(channels_, *stub_, &v1::Agent::Stub::Leave, request, wait, "receiver " + name_);
    return left ? Result<>() : Error(left.error());
}

std::unique_ptr<Renewal> PeerClient::renewal(std::shared_ptr<Mailbox> mailbox) {
    return std::make_unique<RenewCall>(stub_.get(), std::move(mailbox), "receiver " + name_);
}

}  // namespace ask
