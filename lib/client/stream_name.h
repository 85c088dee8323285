// SPDX-License-Identifier: Apache-2.0
//
// What may name a stream: its windows are tasks, whose ids are longer.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/base/task_id.h"

namespace ask::client {

inline constexpr std::size_t kMaxStreamName = 40;

// kUsage if it names none.
inline Result<> check_stream_name(std::string_view name) {
    ASK_PASS(check_task_id(name));
    return name.size() <= kMaxStreamName
               ? Result<>()
               : Error(Errc::kUsage, "stream " + std::string(name) + ": a stream's name has at most " +
                                         std::to_string(kMaxStreamName) + " characters");
}

}  // namespace ask::client
