// SPDX-License-Identifier: Apache-2.0
//
// Result<T>: a value, or an Error that says what failed, on which object, and
// what to do next. C++20 has no std::expected; this is the small part of it
// that the project needs. Nothing throws across a module border.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace ask {

// What class of thing went wrong: decides exit codes and gRPC status codes.
// Numbers are the exit codes of the commands (docs/commands.md).
enum class Errc : int {
    kInternal = 1,     // a bug, or a system call that should not fail
    kUsage = 2,        // a flag or a configuration value
    kInput = 3,        // a malformed line, key or value; a bad packet in a file
    kUnknown = 4,      // no such task, host, agent or interface
    kExists = 5,       // an id in use
    kUnavailable = 6,  // a daemon cannot be reached, or went away
    kDenied = 7,       // permission or capability missing
    kUnsupported = 8,  // the kernel, the driver or the interface cannot do it
    kLimit = 9,        // a budget, a table or a queue is full
    kDeadline = 10,    // something did not finish in time; the message names who
    kAborted = 11,     // the task was torn down, by a user or because a part of it died
    kOverflow = 12,    // a result does not fit int64
    kSwitchLost = 13,  // a switch lost what it had aggregated, and not everybody can send again
    kNotTaken = 14,    // a result was computed, and nobody has taken it; the message says where it is kept
    kRunAgain = 15,    // a switch did, and the task begins again: open again, and send everything again
};

// The class of a number that came from another process; `otherwise` if it is none.
[[nodiscard]] constexpr Errc errc_from_number(int number, Errc otherwise) {
    const bool known =
        number >= static_cast<int>(Errc::kInternal) && number <= static_cast<int>(Errc::kRunAgain);
    return known ? static_cast<Errc>(number) : otherwise;
}

// An error: class, text, and optionally the errno it came from. The text reads from
// the outside in: "attach switch program to p1: Operation not supported".
class [[nodiscard]] Error {
 public:
    Error(Errc code, std::string text) : code_(code), text_(std::move(text)) {}

    // Builds an error from `err` (an errno value, positive), saying what was attempted.
    static Error from_errno(int err, std::string_view what) {
        const Errc code =
            (err == EPERM || err == EACCES)                                  ? Errc::kDenied
            : (err == EOPNOTSUPP || err == ENOSYS || err == EPROTONOSUPPORT) ? Errc::kUnsupported
            : (err == ENOENT || err == ENODEV)                               ? Errc::kUnknown
            : (err == EEXIST)                                                ? Errc::kExists
            : (err == ENOSPC || err == ENOMEM || err == EMFILE || err == ENOBUFS || err == E2BIG)
                ? Errc::kLimit
                : Errc::kInternal;
        Error error(code, std::string(what) + ": " + std::generic_category().message(err));
        error.errno_ = err;
        return error;
    }

    [[nodiscard]] Errc code() const { return code_; }
    [[nodiscard]] int sys_errno() const { return errno_; }
    [[nodiscard]] const std::string& text() const { return text_; }
    // Says on which object the failing operation was working.
    Error with_context(std::string_view object) && {
        text_ = std::string(object) + ": " + text_;
        return std::move(*this);
    }

 private:
    Errc code_;
    int errno_ = 0;
    std::string text_;
};

// A T or an Error. `Result<>` (T = void) carries success only.
template <typename T = void>
class [[nodiscard]] Result {
 public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

    [[nodiscard]] bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }

    [[nodiscard]] T& value() & { return std::get<0>(state_); }
    [[nodiscard]] const T& value() const& { return std::get<0>(state_); }
    [[nodiscard]] T&& value() && { return std::get<0>(std::move(state_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    [[nodiscard]] const Error& error() const& { return std::get<1>(state_); }
    [[nodiscard]] Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
    std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
    Result() = default;
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

    [[nodiscard]] bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }
    [[nodiscard]] const Error& error() const& { return std::get<1>(state_); }
    [[nodiscard]] Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
    std::variant<std::monostate, Error> state_;
};

}  // namespace ask

// Propagates the error of a Result, named or not, naming the object it was about:
//   ASK_TRY(attach(port), "port " + name);
#define ASK_TRY(expr, context)                                                            \
    do {                                                                                  \
        auto&& ask_try_result = (expr);                                                   \
        if (!ask_try_result.ok()) {                                                       \
            return ::ask::Error(std::move(ask_try_result).error()).with_context(context); \
        }                                                                                 \
    } while (false)

// The same where the error names its object already.
#define ASK_PASS(expr)                                               \
    do {                                                             \
        auto&& ask_pass_result = (expr);                             \
        if (!ask_pass_result.ok()) {                                 \
            return ::ask::Error(std::move(ask_pass_result).error()); \
        }                                                            \
    } while (false)
