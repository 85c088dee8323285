// SPDX-License-Identifier: Apache-2.0
//
// ask.hpp: ask.h for C++20, on top of it and of nothing else.
//
//     ask::Group group({.group = "train", .root = "h1", .rank = 0, .size = 4});
//     std::vector<float> gradients(1000);
//     group.allreduce(gradients);                         // in place: the sum of all, everywhere
//     const double loss = group.allreduce(my_loss);       // of one value
//     ask::Request later = group.iallreduce(more, result, ask::Op::kMax);
//     later.wait();
//
// What fails throws ask::Error, with a code and a text that says who or what, and what to do. kUsage, kLimit
// and kUnsupported of an operation leave the group as it was; whatever else one fails with is the group's
// end.
//
//     ask::Sender sender({.task = "words", .to = "h4"});  // on some hosts
//     sender.push("apple", 2);
//     sender.finish();
//     const ask::Result result = ask::receive({.task = "words", .senders = 1});  // on h4
//     for (const auto& [key, value] : result.rows()) ...
//
// Vectors are contiguous ranges with a size (std::vector, std::array, std::span, ask::Array) of integers of 8
// to 64 bits, float, double, ask::Float16 or ask::Bfloat16. Rules of buffers, threads and forks are ask.h's.
#pragma once

#if __cplusplus < 202002L
#error "ask.hpp needs C++20: -std=c++20"
#endif

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ask.h"

namespace ask {
// Parts of a program that were compiled with headers of different versions keep apart.
inline namespace v0 {

enum class Code : int {
    kInternal = ASK_E_INTERNAL,
    kUsage = ASK_E_USAGE,
    kInput = ASK_E_INPUT,
    kUnknown = ASK_E_UNKNOWN,
    kExists = ASK_E_EXISTS,
    kUnavailable = ASK_E_UNAVAILABLE,
    kDenied = ASK_E_DENIED,
    kUnsupported = ASK_E_UNSUPPORTED,
    kLimit = ASK_E_LIMIT,
    kDeadline = ASK_E_DEADLINE,
    kAborted = ASK_E_ABORTED,
    kOverflow = ASK_E_OVERFLOW,
    kSwitchLost = ASK_E_SWITCH_LOST,
    kNotTaken = ASK_E_NOT_TAKEN,
    kRunAgain = ASK_E_RUN_AGAIN,
};

// Element by element. Bits are combined of integers; ask.h has what sums in fewer bits are.
enum class Op : int {
    kSum = ASK_SUM,
    kProduct = ASK_PROD,
    kMin = ASK_MIN,
    kMax = ASK_MAX,
    kAnd = ASK_BAND,
    kOr = ASK_BOR,
    kXor = ASK_BXOR,
    kSum32 = ASK_SUM_32,
    kSum16 = ASK_SUM_16,
    kCount = ASK_COUNT,  // of tuples
    kMean = ASK_MEAN,    // of tuples: Result::counts()
};

class Error : public std::runtime_error {
 public:
    Error(Code code, const std::string& text) : std::runtime_error(text), code_(code) {}
    [[nodiscard]] Code code() const noexcept { return code_; }

 private:
    Code code_;
};

// Bits of types that C++20 has not: the upper half of a float, and IEEE's binary16.
enum class Bfloat16 : std::uint16_t {};
enum class Float16 : std::uint16_t {};

namespace detail {

template <typename T>
inline constexpr bool kIsNumber =
    std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char> &&
    !std::is_same_v<T, wchar_t> && !std::is_same_v<T, char8_t> && !std::is_same_v<T, char16_t> &&
    !std::is_same_v<T, char32_t> && sizeof(T) <= 8;

// Its number in ask.h; 0: a type that cannot be reduced.
template <typename T>
[[nodiscard]] constexpr int dtype_of() {
    if constexpr (std::is_same_v<T, float>) {
        return ASK_FLOAT32;
    } else if constexpr (std::is_same_v<T, double>) {
        return ASK_FLOAT64;
    } else if constexpr (std::is_same_v<T, Bfloat16>) {
        return ASK_BFLOAT16;
    } else if constexpr (std::is_same_v<T, Float16>) {
        return ASK_FLOAT16;
    } else if constexpr (kIsNumber<T>) {
        constexpr bool kSigned = std::is_signed_v<T>;
        switch (sizeof(T)) {
            case 1:
                return kSigned ? ASK_INT8 : ASK_UINT8;
            case 2:
                return kSigned ? ASK_INT16 : ASK_UINT16;
            case 4:
                return kSigned ? ASK_INT32 : ASK_UINT32;
            default:
                return kSigned ? ASK_INT64 : ASK_UINT64;
        }
    } else {
        return 0;
    }
}

inline void check(int code) {
    if (code != ASK_OK) {
        throw Error(static_cast<Code>(code), ask_error());
    }
}

}  // namespace detail

template <typename T>
concept Value = detail::dtype_of<T>() != 0;

// What is read, and what is written: `out` is no vector that is gone with the statement.
template <typename R>
concept Input =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && Value<std::ranges::range_value_t<R>>;
template <typename R>
concept Output = Input<R> && std::ranges::borrowed_range<R> &&
                 !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;
// Of one type of values.
template <typename In, typename Out>
concept Alike = std::same_as<std::ranges::range_value_t<In>, std::ranges::range_value_t<Out>>;

// An operation under way. One that is destroyed first is given up: its output is not written, and its group
// fails when it is closed.
class [[nodiscard]] Request {
 public:
    Request() = default;  // of nothing that is under way
    Request(Request&& other) noexcept
        : group_(std::move(other.group_)), request_(std::exchange(other.request_, nullptr)) {}
    Request& operator=(Request&& other) noexcept {
        group_ = std::move(other.group_);
        request_ = std::exchange(other.request_, nullptr);
        return *this;
    }
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;
    ~Request() = default;

    // Until the operation is whole here. Again: at once.
    void wait() {
        const int code = ask_wait(request_);
        end_unless_refused(code);
        detail::check(code);
    }
    // Whether it is whole, without waiting.
    [[nodiscard]] bool test() { return wait_for(std::chrono::microseconds(0)); }
    // The same, once it is or after the limit.
    [[nodiscard]] bool wait_for(std::chrono::microseconds limit) {
        if (request_ == nullptr) {
            return true;
        }
        int done = 0;
        const int code = limit.count() > 0
                             ? ask_wait_for(request_, static_cast<std::uint64_t>(limit.count()), &done)
                             : ask_test(request_, &done);
        if (done != 0) {
            request_ = nullptr;
        }
        detail::check(code);
        return done != 0;
    }
    // Whether there is something to wait for.
    explicit operator bool() const noexcept { return request_ != nullptr; }

 private:
    friend class Group;
    Request(std::shared_ptr<ask_group> group, ask_request* request)
        : group_(std::move(group)), request_(request) {}
    // While another thread is in a call with the group nothing has happened.
    void end_unless_refused(int code) noexcept {
        if (code != ASK_E_USAGE || ask_group_error(group_.get(), nullptr) != ASK_OK) {
            request_ = nullptr;
        }
    }

    std::shared_ptr<ask_group> group_;
    ask_request* request_ = nullptr;
};

// Memory shared with the agent, which operations use where it is. Not initialised. It has to outlive what
// uses it; as long as there is one, its group stays open.
template <Value T>
class Array {
 public:
    Array(Array&& other) noexcept
        : group_(std::move(other.group_)),
          data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)) {}
    Array& operator=(Array&& other) noexcept {
        std::swap(group_, other.group_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    ~Array() {
        if (data_ != nullptr) {
            ask_free(group_.get(), data_);
        }
    }

    [[nodiscard]] T* data() noexcept { return data_; }
    [[nodiscard]] const T* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] T* begin() noexcept { return data_; }
    [[nodiscard]] T* end() noexcept { return data_ + size_; }
    [[nodiscard]] const T* begin() const noexcept { return data_; }
    [[nodiscard]] const T* end() const noexcept { return data_ + size_; }
    [[nodiscard]] T& operator[](std::size_t i) noexcept { return data_[i]; }
    [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return data_[i]; }

 private:
    friend class Group;
    Array(std::shared_ptr<ask_group> group, T* data, std::size_t size)
        : group_(std::move(group)), data_(data), size_(size) {}

    std::shared_ptr<ask_group> group_;
    T* data_;
    std::size_t size_;
};

// As ask_group_options, which says what each is.
struct Options {
    std::string group{};
    std::string root{};
    std::uint32_t rank = 0;
    std::uint32_t size = 0;
    std::chrono::milliseconds deadline{ASK_DEFAULT_DEADLINE_MS};
    int cancel_fd = -1;
    std::string agent{};            // empty: as NULL
    std::string token{};            // empty: none
    std::uint64_t arena_bytes = 0;  // 0: 64 MiB
};

// A member of a group, which leaves once this and what it has given are gone. All members begin the same
// operations in the same order, with the same number of values, type, operator and root. One thread at a time
// may use it.
class Group {
 public:
    // Returns once all members have joined.
    explicit Group(const Options& options) : group_(open(options), &ask_group_close) {}

    [[nodiscard]] std::uint32_t rank() const noexcept { return ask_group_rank(group_.get()); }
    [[nodiscard]] std::uint32_t size() const noexcept { return ask_group_size(group_.get()); }
    // Why it has failed, if it has; from any thread.
    [[nodiscard]] std::optional<Error> failure() const {
        const char* text = nullptr;
        const int code = ask_group_error(group_.get(), &text);
        return code == ASK_OK ? std::nullopt : std::optional<Error>(Error(static_cast<Code>(code), text));
    }
    // For ask.h's functions; closed with the group.
    [[nodiscard]] ask_group* handle() const noexcept { return group_.get(); }

    template <Value T>
    [[nodiscard]] Array<T> array(std::size_t size) {
        if (size > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
            throw Error(Code::kLimit, std::to_string(size) + " values are more than memory can hold");
        }
        void* const memory = ask_alloc(group_.get(), size * sizeof(T));
        if (memory == nullptr) {
            throw Error(group_ ? Code::kLimit : Code::kUsage, ask_error());
        }
        return Array<T>(group_, static_cast<T*>(memory), size);
    }

    // Combines all members' vectors into `out` at each.
    template <Input In, Output Out>
        requires Alike<In, Out>
    void allreduce(In&& in, Out&& out, Op op = Op::kSum) {
        begin_allreduce(in, out, op).wait();
    }
    // In place.
    template <Output R>
    void allreduce(R&& vector, Op op = Op::kSum) {
        begin_allreduce(vector, vector, op).wait();
    }
    template <Value T>
    [[nodiscard]] T allreduce(T value, Op op = Op::kSum) {
        detail::check(ask_allreduce(group_.get(), &value, &value, 1, detail::dtype_of<T>(), as_int(op)));
        return value;
    }

    // Into `out` at rank `root`; elsewhere `out` is left alone, and may be empty.
    template <Input In, Output Out>
        requires Alike<In, Out>
    void reduce(In&& in, Out&& out, std::uint32_t root, Op op = Op::kSum) {
        begin_reduce(in, out, root, op).wait();
    }
    // In place at `root`.
    template <Output R>
    void reduce(R&& vector, std::uint32_t root, Op op = Op::kSum) {
        begin_reduce(vector, vector, root, op).wait();
    }
    // The result at `root`, nothing elsewhere.
    template <Value T>
    [[nodiscard]] std::optional<T> reduce(T value, std::uint32_t root, Op op = Op::kSum) {
        detail::check(ask_reduce(group_.get(), &value, &value, 1, detail::dtype_of<T>(), as_int(op), root));
        return rank() == root ? std::optional<T>(value) : std::nullopt;
    }

    // What `root` has, into everybody's.
    template <Output R>
    void bcast(R&& vector, std::uint32_t root) {
        begin_bcast(vector, root).wait();
    }
    template <Value T>
    [[nodiscard]] T bcast(T value, std::uint32_t root) {
        detail::check(ask_bcast(group_.get(), &value, 1, detail::dtype_of<T>(), root));
        return value;
    }

    // Returns once every member has begun it.
    void barrier() { detail::check(ask_barrier(group_.get())); }

    // Each begins what its namesake does. Until the request has ended, leave what is read as it is, and what
    // is written alone; both must live until then.
    template <Input In, Output Out>
        requires Alike<In, Out> && std::ranges::borrowed_range<In>
    Request iallreduce(In&& in, Out&& out, Op op = Op::kSum) {
        return begin_allreduce(in, out, op);
    }
    template <Output R>
    Request iallreduce(R&& vector, Op op = Op::kSum) {
        return begin_allreduce(vector, vector, op);
    }
    template <Input In, Output Out>
        requires Alike<In, Out> && std::ranges::borrowed_range<In>
    Request ireduce(In&& in, Out&& out, std::uint32_t root, Op op = Op::kSum) {
        return begin_reduce(in, out, root, op);
    }
    template <Output R>
    Request ireduce(R&& vector, std::uint32_t root, Op op = Op::kSum) {
        return begin_reduce(vector, vector, root, op);
    }
    template <Output R>
    Request ibcast(R&& vector, std::uint32_t root) {
        return begin_bcast(vector, root);
    }
    Request ibarrier() {
        return begun([&](ask_request** request) { return ask_ibarrier(group_.get(), request); });
    }

 private:
    static ask_group* open(const Options& options) {
        const auto deadline = options.deadline.count();
        if (deadline <= 0 || deadline > std::numeric_limits<std::uint32_t>::max()) {
            throw Error(Code::kUsage,
                        "group " + options.group + ": the deadline must be from 1 ms to 49 days");
        }
        const auto text = [](const std::string& from) { return from.empty() ? nullptr : from.c_str(); };
        ask_group_options to = ASK_GROUP_OPTIONS_INIT;
        to.group = options.group.c_str();
        to.root = options.root.c_str();
        to.rank = options.rank;
        to.size = options.size;
        to.deadline_ms = static_cast<std::uint32_t>(deadline);
        to.cancel_fd = options.cancel_fd;
        to.agent = text(options.agent);
        to.token = text(options.token);
        to.arena_bytes = options.arena_bytes;
        ask_group* group = nullptr;
        detail::check(ask_group_open(&to, &group));
        return group;
    }

    [[nodiscard]] static constexpr int as_int(Op op) { return static_cast<int>(op); }

    template <typename R>
    [[nodiscard]] static constexpr int dtype() {
        return detail::dtype_of<std::ranges::range_value_t<R>>();
    }

    template <typename In, typename Out>
    static void check_sizes(In& in, Out& out) {
        if (std::ranges::size(in) != std::ranges::size(out)) {
            throw Error(Code::kUsage, "the input has " + std::to_string(std::ranges::size(in)) +
                                          " values and the output " + std::to_string(std::ranges::size(out)));
        }
    }

    template <typename Begin>
    Request begun(const Begin& begin) {
        ask_request* request = nullptr;
        detail::check(begin(&request));
        return Request(group_, request);
    }

    template <typename In, typename Out>
    Request begin_allreduce(In& in, Out& out, Op op) {
        check_sizes(in, out);
        return begun([&](ask_request** request) {
            return ask_iallreduce(group_.get(), std::ranges::data(in), std::ranges::data(out),
                                  std::ranges::size(in), dtype<In>(), as_int(op), request);
        });
    }
    template <typename In, typename Out>
    Request begin_reduce(In& in, Out& out, std::uint32_t root, Op op) {
        const bool here = rank() == root;
        if (here) {
            check_sizes(in, out);
        }
        return begun([&](ask_request** request) {
            return ask_ireduce(group_.get(), std::ranges::data(in), here ? std::ranges::data(out) : nullptr,
                               std::ranges::size(in), dtype<In>(), as_int(op), root, request);
        });
    }
    template <typename R>
    Request begin_bcast(R& vector, std::uint32_t root) {
        return begun([&](ask_request** request) {
            return ask_ibcast(group_.get(), std::ranges::data(vector), std::ranges::size(vector), dtype<R>(),
                              root, request);
        });
    }

    std::shared_ptr<ask_group> group_;
};

// Tuples by columns, as ask_columns; borrowed. `values` may be empty where the task's operator is kCount.
template <typename Offset>
    requires std::same_as<Offset, std::int32_t> || std::same_as<Offset, std::int64_t>
[[nodiscard]] ask_columns columns(std::span<const Offset> offsets, std::string_view keys,
                                  std::span<const std::int64_t> values) {
    const std::size_t rows = offsets.empty() ? 0 : offsets.size() - 1;
    if (values.size() != rows && !values.empty()) {
        throw Error(Code::kUsage, "columns: " + std::to_string(rows) + " rows have " +
                                      std::to_string(values.size()) + " values");
    }
    return {rows,           detail::dtype_of<Offset>(),
            offsets.data(), keys.data(),
            keys.size(),    values.empty() ? nullptr : values.data()};
}
template <typename Offset>
[[nodiscard]] ask_columns columns(const std::vector<Offset>& offsets, std::string_view keys,
                                  std::span<const std::int64_t> values) {
    return columns(std::span<const Offset>(offsets), keys, values);
}

// As ask_sender_options, which says what each is.
struct SenderOptions {
    std::string task{};
    std::string to{};
    std::chrono::milliseconds deadline{ASK_DEFAULT_DEADLINE_MS};
    int cancel_fd = -1;
    std::string agent{};  // empty: as NULL
    std::string token{};  // empty: none
    const ask_columns* sample = nullptr;
    std::uint64_t expected = 0;
    std::optional<std::uint32_t> merge_window{};  // unset: the agent's
    bool can_repeat = false;
};

// As ask_receiver_options.
struct ReceiverOptions {
    std::string task{};
    std::uint32_t senders = 1;
    Op op = Op::kSum;
    std::chrono::milliseconds deadline{ASK_DEFAULT_DEADLINE_MS};
    int cancel_fd = -1;
    std::string agent{};  // empty: as NULL
    std::string token{};  // empty: none
    std::string from{};   // empty: all
    std::uint32_t aggregators = 0;
    std::uint32_t flags = 0;
};

namespace detail {

inline std::uint32_t deadline_of(const std::string& task, std::chrono::milliseconds deadline) {
    if (deadline.count() <= 0 || deadline.count() > std::numeric_limits<std::uint32_t>::max()) {
        throw Error(Code::kUsage, "task " + task + ": the deadline must be from 1 ms to 49 days");
    }
    return static_cast<std::uint32_t>(deadline.count());
}
inline const char* text_or_null(const std::string& text) {
    return text.empty() ? nullptr : text.c_str();
}

// Borrows from `from`.
inline ask_sender_options to_c(const SenderOptions& from) {
    ask_sender_options to = ASK_SENDER_OPTIONS_INIT;
    to.task = from.task.c_str();
    to.to = from.to.c_str();
    to.deadline_ms = deadline_of(from.task, from.deadline);
    to.cancel_fd = from.cancel_fd;
    to.agent = text_or_null(from.agent);
    to.token = text_or_null(from.token);
    to.sample = from.sample;
    to.expected = from.expected;
    to.merge_window = from.merge_window ? std::int64_t{*from.merge_window} : -1;
    to.can_repeat = from.can_repeat ? 1 : 0;
    return to;
}
inline ask_receiver_options to_c(const ReceiverOptions& from) {
    ask_receiver_options to = ASK_RECEIVER_OPTIONS_INIT;
    to.task = from.task.c_str();
    to.senders = from.senders;
    to.op = static_cast<int>(from.op);
    to.deadline_ms = deadline_of(from.task, from.deadline);
    to.cancel_fd = from.cancel_fd;
    to.agent = text_or_null(from.agent);
    to.token = text_or_null(from.token);
    to.from = text_or_null(from.from);
    to.aggregators = from.aggregators;
    to.flags = from.flags;
    return to;
}

}  // namespace detail

// One of a task's senders. Destroyed before finish() has returned, it ends the task for everybody. What is
// refused (kUsage, kInput, kLimit) has not been sent and it goes on; after any other error it is over. One
// thread at a time may use it.
class Sender {
 public:
    // Returns once the task is found and joined.
    explicit Sender(const SenderOptions& options) : sender_(open(options), &ask_sender_close) {}

    void push(std::string_view key, std::int64_t value) {
        detail::check(ask_sender_push(sender_.get(), key.data(), key.size(), value));
    }
    // All rows or, refused, none.
    void push(const ask_columns& rows) { detail::check(ask_sender_push_columns(sender_.get(), &rows)); }
    // Call it before a long time without a push.
    void flush() { detail::check(ask_sender_flush(sender_.get())); }
    // Returns once the result, with each tuple exactly once, is where the receiver wants it.
    ask_task_stats finish() {
        ask_task_stats stats = ASK_TASK_STATS_INIT;
        detail::check(ask_sender_finish(sender_.get(), &stats));
        return stats;
    }
    // Tells everybody why the task cannot succeed.
    void abandon(const std::string& reason) {
        detail::check(ask_sender_abandon(sender_.get(), reason.c_str()));
    }
    // For ask.h's functions; closed with the sender.
    [[nodiscard]] ask_sender* handle() const noexcept { return sender_.get(); }

 private:
    static ask_sender* open(const SenderOptions& options) {
        const ask_sender_options to = detail::to_c(options);
        ask_sender* sender = nullptr;
        detail::check(ask_sender_open(&to, &sender));
        return sender;
    }

    std::unique_ptr<ask_sender, void (*)(ask_sender*)> sender_;
};

// All there is to send, at once; again should a switch lose it. `sample`, `expected` and `can_repeat` are its
// own affair.
inline ask_task_stats send(const SenderOptions& options, const ask_columns& rows) {
    const ask_sender_options to = detail::to_c(options);
    ask_task_stats stats = ASK_TASK_STATS_INIT;
    detail::check(ask_send(&to, &rows, &stats));
    return stats;
}

// Every key once, with its value.
class Result {
 public:
    [[nodiscard]] std::size_t size() const noexcept { return columns().rows; }
    [[nodiscard]] std::string_view key(std::size_t row) const noexcept {
        const auto from = static_cast<std::size_t>(offsets()[row]);
        const auto to = static_cast<std::size_t>(offsets()[row + 1]);
        return {static_cast<const char*>(columns().keys) + from, to - from};
    }
    [[nodiscard]] std::int64_t value(std::size_t row) const noexcept { return columns().values[row]; }
    // A range of pairs of key and value; borrowed, as the spans are.
    [[nodiscard]] auto rows() const& {
        return std::views::iota(std::size_t{0}, size()) |
               std::views::transform([this](std::size_t row) { return std::pair(key(row), value(row)); });
    }
    [[nodiscard]] std::span<const std::int64_t> offsets() const noexcept {
        return {static_cast<const std::int64_t*>(columns().offsets), columns().rows + 1};
    }
    [[nodiscard]] std::span<const std::int64_t> values() const noexcept {
        return {columns().values, columns().rows};
    }
    // Of a task of means: of how many values values() are the sums; else empty.
    [[nodiscard]] std::span<const std::int64_t> counts() const noexcept {
        const std::int64_t* const counts = ask_result_counts(result_.get());
        return {counts, counts == nullptr ? 0 : size()};
    }
    // The double that is nearest to a quotient of doubles; exact is what value() and counts() are.
    [[nodiscard]] double mean(std::size_t row) const noexcept {
        return static_cast<double>(value(row)) / static_cast<double>(counts()[row]);
    }
    [[nodiscard]] const ask_columns& columns() const noexcept { return *ask_result_columns(result_.get()); }
    [[nodiscard]] ask_task_stats stats() const {
        ask_task_stats stats = ASK_TASK_STATS_INIT;
        detail::check(ask_result_stats(result_.get(), &stats));
        return stats;
    }
    // With ASK_RECEIVE_ALLOW_INCOMPLETE: whose tuples lack, and why.
    [[nodiscard]] std::vector<std::string> missing() const {
        std::vector<std::string> all;
        while (const char* each = ask_result_missing(result_.get(), all.size())) {
            all.emplace_back(each);
        }
        return all;
    }

 private:
    friend class Receiver;
    explicit Result(ask_result* result) : result_(result, &ask_result_free) {}

    std::unique_ptr<ask_result, void (*)(ask_result*)> result_;
};

// A task on this host. Destroyed before wait() has returned, it ends the task for everybody.
class Receiver {
 public:
    // Returns once senders may join.
    explicit Receiver(const ReceiverOptions& options) : receiver_(open(options), &ask_receiver_close) {}

    // Returns once every sender has finished; they wait for confirm() still.
    [[nodiscard]] Result wait() {
        ask_result* result = nullptr;
        detail::check(ask_receiver_wait(receiver_.get(), &result));
        return Result(result);
    }
    // The result is where it should be: now the senders succeed.
    void confirm() { detail::check(ask_receiver_confirm(receiver_.get())); }
    // For ask.h's functions; closed with the receiver.
    [[nodiscard]] ask_receiver* handle() const noexcept { return receiver_.get(); }

 private:
    static ask_receiver* open(const ReceiverOptions& options) {
        const ask_receiver_options to = detail::to_c(options);
        ask_receiver* receiver = nullptr;
        detail::check(ask_receiver_open(&to, &receiver));
        return receiver;
    }

    std::unique_ptr<ask_receiver, void (*)(ask_receiver*)> receiver_;
};

// The whole of a task, confirmed.
[[nodiscard]] inline Result receive(const ReceiverOptions& options) {
    Receiver receiver(options);
    Result result = receiver.wait();
    receiver.confirm();
    return result;
}

}  // namespace v0
}  // namespace ask
