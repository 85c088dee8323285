// SPDX-License-Identifier: Apache-2.0
//
// The control interface (proto/relay.proto).
#pragma once

#include <string>
#include <utility>

#include "lib/control/relay/relays.h"
#include "lib/daemon/control_server.h"
#include "proto/relay.grpc.pb.h"

namespace ask {

class RelayService final : public v1::Relay::Service {
 public:
    RelayService(Relays& relays, std::string name) : relays_(relays), name_(std::move(name)) {}
    grpc::Status OpenRelay(grpc::ServerContext* context, const v1::OpenRelayRequest* request,
                           v1::OpenRelayReply* reply) override;
    grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetRelayStatusRequest* request,
                           v1::RelayStatus* reply) override;

 private:
    Relays& relays_;
    const std::string name_;
};

}  // namespace ask
