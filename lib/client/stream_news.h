// SPDX-License-Identifier: Apache-2.0
//
// What a member of a stream should tell people.
#pragma once

#include <string>

namespace ask::client {

struct StreamNews {
    std::string text;
    bool is_loss = false;  // some of the member's tuples are in no window
};

}  // namespace ask::client
