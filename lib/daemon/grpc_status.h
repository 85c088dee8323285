// SPDX-License-Identifier: Apache-2.0
//
// Errors across gRPC: Errc and status codes correspond one to one, but for kUsage, which arrives as kInput.
#pragma once

#include <string>
#include <string_view>

#include <grpcpp/support/status.h>

#include "lib/base/result.h"

namespace ask {

[[nodiscard]] grpc::Status to_status(const Error& error);
// `peer` names whom the call went to: it is put before the text, which is made fit to be shown. `status` must
// not be OK.
[[nodiscard]] Error from_status(const grpc::Status& status, std::string_view peer);

}  // namespace ask
