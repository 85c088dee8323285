// SPDX-License-Identifier: Apache-2.0
//
// The control interface (proto/relay.proto).
#pragma once

#include "lib/daemon/control_server.h"
#include "proto/relay.grpc.pb.h"
#include "relay/relays.h"

namespace ask {

class RelayService final : public v1::Relay::Service {
 public:
    explicit RelayService(Relays& relays) : relays_(relays) {}
    grpc::Status OpenRelay(grpc::ServerContext* context, const v1::OpenRelayRequest* request,
                           v1::OpenRelayReply* reply) override;
    grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetRelayStatusRequest* request,
                           v1::RelayStatus* reply) override;

 private:
    Relays& relays_;
};

}  // namespace ask
