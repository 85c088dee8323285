// SPDX-License-Identifier: Apache-2.0
//
// What a receive asks its agent for. Internal to lib/client.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/client/receive_session.h"
#include "proto/local.pb.h"

namespace ask::client {

// Whether the application opens it again should a switch lose what it had.
enum class Again : std::uint8_t { kNo, kYes };

// All but the id, and what a stream's windows differ in.
void fill_open_receive(v1::OpenReceive& open, const ReceiveOptions& options, Again again,
                       const std::vector<std::string>& without_switches = {});

}  // namespace ask::client
