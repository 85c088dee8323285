// SPDX-License-Identifier: Apache-2.0
#include "lib/control/member/left_open.h"

namespace ask {

Result<> close_left_open(LeftOpen& left, SwitchPort& at, const std::string& id, milliseconds wait,
                         CallCancel* cancel) {
    for (const LeftOpen::Task& task : left.list(Clock::now())) {
        if (task.id == id && task.address == at.address()) {
            ASK_PASS(at.close_task(task.instance, wait, cancel));
            left.remove(task);
        }
    }
    return {};
}

}  // namespace ask
