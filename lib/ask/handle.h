// SPDX-License-Identifier: Apache-2.0
//
// What is the same of all that ask.h hands out: it belongs to one thread at a time and to one process, and
// what fails is the calling thread's last error.
#pragma once

#include <atomic>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "lib/ask/ask.h"
#include "lib/base/result.h"

namespace ask {

// Keeps the error's text for ask_error(), and returns its code.
int report(const Error& error);
// Of this thread's last error.
[[nodiscard]] const char* last_error_text();

[[nodiscard]] inline Error usage(std::string text) {
    return {Errc::kUsage, std::move(text)};
}

// Runs a body that returns Result<>; what it throws (no memory) is an error like others.
template <typename Body>
int guarded(const Body& body) noexcept {
    try {
        const Result<> done = body();
        return done ? ASK_OK : report(done.error());
    } catch (const std::bad_alloc&) {
        return report(Error(Errc::kLimit, "out of memory"));
    } catch (const std::exception& thrown) {
        return report(Error(Errc::kInternal, thrown.what()));
    }
}

// The text of an option that may be NULL.
[[nodiscard]] inline std::string text_or_empty(const char* text) {
    return text == nullptr ? "" : text;
}

// One of them. A fork's child closes the descriptors of all that its parent has enlisted, and may not use it.
class Handle {
 public:
    // "group", "sender", ...; a literal.
    explicit Handle(const char* what) : what_(what) {}
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;

    // Known in advance: a fork's child may not allocate.
    void enlist(std::vector<int> fds);
    // Before its descriptors are closed; again does nothing.
    void dismiss();
    // This process is a fork's child: what the handle has is to be left as it is, since the numbers of its
    // descriptors may be others' by now.
    [[nodiscard]] bool of_parent() const { return of_parent_; }
    [[nodiscard]] const char* what() const { return what_; }

 protected:
    ~Handle() { dismiss(); }

 private:
    friend class Turn;
    friend struct Registry;
    const char* what_;
    std::vector<int> fds_;
    std::atomic_flag busy_;  // a thread is in
    std::atomic<bool> of_parent_ = false;
};

// The calling thread's turn at a handle.
class Turn {
 public:
    explicit Turn(Handle& handle)
        : handle_(handle), mine_(!handle.busy_.test_and_set(std::memory_order_acquire)) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
        if (mine_) {
            handle_.busy_.clear(std::memory_order_release);
        }
    }
    [[nodiscard]] Result<> check() const;

 private:
    Handle& handle_;
    bool mine_;
};

// A call that gives the caller what `make` returns, a Result of a unique_ptr; `if_null` is what one without a
// place for it is told.
template <typename Handle, typename Make>
int hand_out(Handle** place, const char* if_null, const Make& make) noexcept {
    return guarded([&]() -> Result<> {
        if (place == nullptr) {
            return usage(if_null);
        }
        auto made = make();
        ASK_PASS(made);
        *place = made->release();
        return {};
    });
}

// A call with a handle of that kind, in its turn; `if_null` is what a NULL one is told.
template <typename Open, typename Body>
int call_with(Open* handle, const char* if_null, const Body& body) noexcept {
    return guarded([&]() -> Result<> {
        if (handle == nullptr) {
            return usage(if_null);
        }
        const Turn turn(*handle);
        ASK_PASS(turn.check());
        return body(*handle);
    });
}

}  // namespace ask
