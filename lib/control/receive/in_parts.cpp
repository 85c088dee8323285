// SPDX-License-Identifier: Apache-2.0
//
// A receive that is taken in parts (parts.h), as one that waits and listens.
#include <utility>

#include "lib/control/member/patience.h"
#include "lib/control/receive/receiving.h"
#include "lib/text/clean.h"

namespace ask {

Result<> Receiving::choose_reserve() {
    if (!task_->in_parts) {
        return {};
    }
    auto parts = Parts::create({.host = member_.full_name(),
                                .instance = task_->instance,
                                .op = task_->wire,
                                .user = task_->user,
                                .reserve = request_.reserve_bytes(),
                                .deadline = task_->deadline},
                               member_.workers, member_.tables, io_);
    ASK_TRY(parts, "task " + task_->id);
    parts_ = *std::move(parts);
    return {};
}

Result<> Receiving::handle_part_request(const v1::LocalRequest& request) {
    if (request.has_part_taken()) {
        ASK_TRY(parts_->note_taken(), "task " + task_->id);
    } else {
        parts_->note_taking(clean_text(request.taking().waits_for()));
    }
    return {};
}

// What is sent on is none of the fault of those that wait below.
Result<> Receiving::go_on_with_parts() {
    ASK_TRY(parts_->go_on(), "task " + task_->id);
    member_.registry.set_waits_for(*task_, parts_->waits_for());
    return {};
}

Result<> Receiving::await_part() {
    while (parts_->outstanding()) {
        ASK_PASS(wait_and_handle(Clock::now() + kSessionTick));
        show_progress(parts_->waits_for().empty() ? "sending on" : parts_->waits_for());
    }
    return {};
}

}  // namespace ask
