// SPDX-License-Identifier: Apache-2.0
//
// A task as small as a controller takes it.
#pragma once

#include <cstdint>
#include <string>

#include "lib/control/switch/controller.h"
#include "lib/net/host_book.h"

namespace ask::test {

inline TaskRequest small_task(std::uint64_t instance, std::uint32_t receiver) {
    TaskRequest request;
    request.id = "t" + std::to_string(instance);
    request.instance = instance;
    request.geometry = {.short_slots = 4, .groups = 0, .m = 0, .rows = 1};
    request.aggregators = 16;
    request.copies = 1;
    request.receiver_address = receiver;
    request.receiver = control_address(receiver, 4791);
    return request;
}

}  // namespace ask::test
