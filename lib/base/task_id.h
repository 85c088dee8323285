// SPDX-License-Identifier: Apache-2.0
//
// What may name a task. The name is also a directory's, of the task's pins: so no dots and no slashes.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "lib/abi/limits.h"
#include "lib/base/result.h"

namespace ask {

[[nodiscard]] inline bool is_pin_name(std::string_view text) {
    return !text.empty() && text.size() <= ASK_MAX_TASK_ID && std::ranges::all_of(text, [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
               c == '-';
    });
}

// kUsage if it is none. The error may go to a log: of the text it shows only what can be printed.
inline Result<> check_task_id(std::string_view id) {
    if (is_pin_name(id)) {
        return {};
    }
    std::string shown(id.substr(0, ASK_MAX_TASK_ID + 1));
    std::ranges::replace_if(shown, [](char c) { return c < ' ' || c > '~'; }, '?');
    return Error(Errc::kUsage, "task id '" + shown + "' must be 1 to " + std::to_string(ASK_MAX_TASK_ID) +
                                   " of A-Z a-z 0-9 _ -");
}

}  // namespace ask
