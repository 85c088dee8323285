// SPDX-License-Identifier: Apache-2.0
//
// Calls to others may take long: how they are ended before their time.
#pragma once

#include <functional>
#include <utility>

#include "lib/base/runtime.h"

namespace ask {

// Ends the call that is under way with it, and every later one, from another thread.
class CallCancel {
 public:
    void cancel() {
        const Guard lock(mutex_);
        cancelled_ = true;
        if (end_) {
            end_();
        }
    }

 private:
    friend class CancelScope;
    Mutex mutex_;
    bool cancelled_ = false;
    std::function<void()> end_;  // the call that is under way; empty: none is
};

// While it lives, `end` ends the call that is under way with `cancel`, which may be null. It must not wait.
class CancelScope {
 public:
    CancelScope(CallCancel* cancel, std::function<void()> end) : cancel_(cancel) {
        if (cancel_ == nullptr) {
            return;
        }
        const Guard lock(cancel_->mutex_);
        cancel_->end_ = std::move(end);
        if (cancel_->cancelled_) {
            cancel_->end_();
        }
    }
    ~CancelScope() {
        if (cancel_ != nullptr) {
            const Guard lock(cancel_->mutex_);
            cancel_->end_ = nullptr;
        }
    }
    CancelScope(const CancelScope&) = delete;
    CancelScope& operator=(const CancelScope&) = delete;

 private:
    CallCancel* const cancel_;
};

}  // namespace ask
