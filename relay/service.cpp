// SPDX-License-Identifier: Apache-2.0
#include "relay/service.h"

#include "lib/daemon/grpc_status.h"
#include "lib/daemon/version.h"
#include "lib/rpc/call_origin.h"
#include "lib/rpc/hosts6.h"
#include "lib/rpc/upkeep.h"

namespace ask {

grpc::Status RelayService::OpenRelay(grpc::ServerContext* context, const v1::OpenRelayRequest* request,
                                     v1::OpenRelayReply* reply) {
    auto opened = relays_.open(caller_of(*context), *request);
    if (!opened) {
        return to_status(opened.error());
    }
    *reply = *std::move(opened);
    return grpc::Status::OK;
}

grpc::Status RelayService::GetStatus(grpc::ServerContext* context,
                                     const v1::GetRelayStatusRequest* /*request*/, v1::RelayStatus* reply) {
    const Caller caller = caller_of(*context);
    *reply = relays_.status(caller);
    reply->set_name(name_);
    reply->set_version(std::string(kVersion));
    set_upkeep(*reply, caller.is_local() || may_operate(caller));
    explain_hosts(*reply);
    return grpc::Status::OK;
}

}  // namespace ask
