// SPDX-License-Identifier: Apache-2.0
//
// The header of this name, for the simulator: a descriptor of a simulated process
// (tests/sim/tuples/descriptors.h).
#pragma once

#include <memory>

#include "lib/base/result.h"
#include "tests/sim/tuples/descriptors.h"

namespace ask {

class EventFd {
 public:
    [[nodiscard]] static bool ok() { return true; }
    [[nodiscard]] int fd() const { return event_->descriptor.number(); }
    void notify() const {
        event_->raised = true;
        event_->descriptor.wake();
    }
    void drain() const { event_->raised = false; }

 private:
    struct Event {
        bool raised = false;
        sim::Descriptor descriptor{[this] { return raised; }};
    };
    std::unique_ptr<Event> event_ = std::make_unique<Event>();
};

}  // namespace ask
