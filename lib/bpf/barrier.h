// SPDX-License-Identifier: Apache-2.0
//
// Waiting until no program can still be using what it looked up before.
#pragma once

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace ask::bpf {

// A successful update of a map of maps returns only after an RCU grace period, on every kernel (a failed one
// may not wait, hence a map of our own whose update cannot fail for want of an entry). 10-18 ms a call: batch
// what waits.
class RcuBarrier {
 public:
    static Result<RcuBarrier> create();

    // Returns when every program that ran when it was called has ended. Any thread; callers do not disturb
    // each other.
    Result<> wait() const;

 private:
    RcuBarrier(UniqueFd outer, UniqueFd inner) : outer_(std::move(outer)), inner_(std::move(inner)) {}

    UniqueFd outer_;
    UniqueFd inner_;
};

}  // namespace ask::bpf
