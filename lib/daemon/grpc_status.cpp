// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/grpc_status.h"

#include <array>
#include <string>
#include <utility>

#include "lib/text/clean.h"

namespace ask {
namespace {

constexpr std::array<std::pair<Errc, grpc::StatusCode>, 12> kCodes = {{
    {Errc::kInternal, grpc::StatusCode::INTERNAL},
    {Errc::kInput, grpc::StatusCode::INVALID_ARGUMENT},
    {Errc::kUsage, grpc::StatusCode::INVALID_ARGUMENT},
    {Errc::kUnknown, grpc::StatusCode::NOT_FOUND},
    {Errc::kExists, grpc::StatusCode::ALREADY_EXISTS},
    {Errc::kUnavailable, grpc::StatusCode::UNAVAILABLE},
    {Errc::kDenied, grpc::StatusCode::PERMISSION_DENIED},
    {Errc::kUnsupported, grpc::StatusCode::FAILED_PRECONDITION},
    {Errc::kLimit, grpc::StatusCode::RESOURCE_EXHAUSTED},
    {Errc::kDeadline, grpc::StatusCode::DEADLINE_EXCEEDED},
    {Errc::kAborted, grpc::StatusCode::ABORTED},
    {Errc::kOverflow, grpc::StatusCode::OUT_OF_RANGE},
}};

}  // namespace

grpc::Status to_status(const Error& error) {
    for (const auto& [code, status] : kCodes) {
        if (code == error.code()) {
            return {status, error.text()};
        }
    }
    return {grpc::StatusCode::INTERNAL, error.text()};
}

Error from_status(const grpc::Status& status, std::string_view peer) {
    Errc found = Errc::kInternal;
    for (const auto& [code, number] : kCodes) {
        if (number == status.error_code()) {
            found = code;
            break;
        }
    }
    if (status.error_code() == grpc::StatusCode::CANCELLED) {
        found = Errc::kAborted;
    }
    return {found, std::string(peer) + ": " + clean_text(status.error_message())};
}

}  // namespace ask
