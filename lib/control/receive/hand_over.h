// SPDX-License-Identifier: Apache-2.0
//
// Hands a result to an application and waits until that has taken it: for as long as it shows that it is at
// it.
#pragma once

#include <cstdint>
#include <functional>

#include "lib/control/member/session_io.h"
#include "lib/control/receive/kept_results.h"

namespace ask {

enum class HandedOver : std::uint8_t {
    kTaken,
    kGone,      // the application has closed its socket, or says nonsense
    kStuck,     // nothing has moved for the deadline
    kStopping,  // the daemon ends
    kCancelled,
};

struct HandOverOptions {
    milliseconds deadline;             // since the last sign of its being taken
    std::function<void()> on_sign;     // of its being taken
    std::function<void()> on_waiting;  // it is not taken at once; now and then. May take a moment
};
[[nodiscard]] HandedOver hand_over(SessionIo& io, const KeptResult& result, const HandOverOptions& options);
// Answers Taken.
void confirm_taken(SessionIo& io);

}  // namespace ask
