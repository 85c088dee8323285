// SPDX-License-Identifier: Apache-2.0
//
// Protobuf messages as JSON for scripts: names as in proto/, numbers as numbers, nothing left out.
#pragma once

#include <nlohmann/json.hpp>

#include "lib/base/result.h"

namespace google::protobuf {
class Message;
}

namespace ask::cli {

using Json = nlohmann::ordered_json;

// Where JSON numbers or enums would not do: an `instance`, `plan` or `member` is a hex string (readers of
// JSON round 64 bits), the number of a host (every fixed32) its address, an operator "sum".
[[nodiscard]] Json to_json(const google::protobuf::Message& message);
// What a command keeps for its next process, as text: with a sum of it, by which it shows that a byte is
// another than was written.
[[nodiscard]] std::string sealed(Json json);
// Whether it is what sealed() was given, but for that sum.
[[nodiscard]] bool is_sealed(Json json);
// Why a text that was JSON of ours cannot be read; for a file that somebody has damaged.
[[nodiscard]] std::string damage_of(const std::string& text);
// As text. Names come from other hosts and may be any bytes.
[[nodiscard]] std::string dump(const Json& json);

}  // namespace ask::cli
