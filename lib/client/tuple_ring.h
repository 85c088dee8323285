// SPDX-License-Identifier: Apache-2.0
//
// The shared-memory ring through which an application hands tuples to its agent (ASK section
// 3.1, steps 6 and 7). One producer (application), one consumer (a worker of the agent). The
// agent creates it and trusts nothing in it: indices and lengths are checked on every read.
//
// Memory: one page of RingHeader, then `bytes` (a power of two) of records, mapped twice in a
// row so that a record never wraps. A record: int64 value, uint32 key length, 4 bytes zero,
// key, padded to 8. `head` and `tail` count bytes ever written and read.
//
// Each side sleeps on a pipe, not on an eventfd: both ends of a pipe have file flags of their own, so an
// application cannot make the agent's end block.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/tuples/tuple.h"

namespace ask {

struct RingHeader {
    static constexpr std::uint64_t kMagic = 0x31474e4952545341ULL;  // "ASTRING1"
    std::uint64_t magic;
    std::uint64_t bytes;
    alignas(64) std::atomic<std::uint64_t> head;  // producer writes
    // Tuples that the producer has merged into others so far, which never get here. For statistics alone.
    std::atomic<std::uint64_t> merged;
    alignas(64) std::atomic<std::uint64_t> tail;  // consumer writes
    // 1: the consumer wants an event for data.
    alignas(64) std::atomic<std::uint32_t> consumer_waiting;
    // The producer wants an event once this many bytes are free; 0: none.
    alignas(64) std::atomic<std::uint32_t> producer_waiting;
};
static_assert(sizeof(RingHeader) <= 4096);

// Agent's side.
class TupleRingConsumer {
 public:
    // `bytes`: a power of two, at least 256 KiB.
    static Result<TupleRingConsumer> create(std::size_t bytes);
    TupleRingConsumer(TupleRingConsumer&&) noexcept;
    TupleRingConsumer& operator=(TupleRingConsumer&&) noexcept;
    ~TupleRingConsumer();

    // To be passed to the application, in this order: memory, its end of the data and of the space event.
    [[nodiscard]] std::array<int, 3> application_fds() const {
        return {memory_.get(), data_write_.get(), space_read_.get()};
    }
    // To poll for input (level-triggered is fine: arm() drains it) while asleep.
    [[nodiscard]] int data_event() const { return data_event_.get(); }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }

    // The next tuple, borrowed until pop(). false: none. kInput: the application broke the ring.
    Result<bool> peek(std::string_view& key, std::int64_t& value);
    void pop();
    // The same of several: as many as there are and `out` has places. The application may write to their keys
    // at any time, but not to Tuple::head.
    Result<std::size_t> peek(std::span<Tuple> out);
    // Those that peek() gave first.
    void pop(std::span<const Tuple> tuples);
    // Publishes the space freed by pop() and wakes a waiting producer; call once a batch.
    void release();
    // What the application says that it has merged.
    [[nodiscard]] std::uint64_t merged() const { return header_->merged.load(std::memory_order_relaxed); }
    // Before sleeping: asks for an event on data; true if data came meanwhile (do not sleep). Popped tuples
    // must have been released.
    bool arm();
    // Whether something was pushed that has not been popped; may be told anything by a broken application.
    [[nodiscard]] bool has_data() const;

 private:
    TupleRingConsumer() = default;
    void swap(TupleRingConsumer& other) noexcept;
    Result<bool> look_again();
    UniqueFd memory_;
    UniqueFd data_event_;   // read end
    UniqueFd data_write_;   // the application's, readable too
    UniqueFd space_event_;  // write end
    UniqueFd space_read_;   // the application's
    RingHeader* header_ = nullptr;
    const std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
    std::uint64_t tail_ = 0;       // private: what was popped
    std::uint64_t seen_head_ = 0;  // private: head as last checked
    std::size_t current_ = 0;      // bytes of the peeked record
};

// Application's side.
class TupleRingProducer {
 public:
    // Takes what application_fds() handed out. kInput: not such a ring, or its memory may still shrink.
    static Result<TupleRingProducer> open(UniqueFd memory, UniqueFd data_event, UniqueFd space_event);
    TupleRingProducer(TupleRingProducer&&) noexcept;
    TupleRingProducer& operator=(TupleRingProducer&&) noexcept;
    ~TupleRingProducer();

    // Writes a tuple if there is room. key.size() <= ASK_MAX_KEY.
    bool try_push(std::string_view key, std::int64_t value);
    // The same for several: writes the first ones, as many as there is room for, and returns how many.
    std::size_t try_push(std::span<const Tuple> tuples);
    // Publishes what was pushed and wakes a waiting consumer; call once a batch.
    void publish();
    // Tells how many tuples have been merged in all; known with the next publish().
    void set_merged(std::uint64_t merged) { header_->merged.store(merged, std::memory_order_relaxed); }
    // Before sleeping on space_event(): asks for an event once `need` bytes (at most bytes()) are free; true
    // if they are already (do not sleep). Publishes first.
    bool arm(std::size_t need);
    [[nodiscard]] int space_event() const { return space_event_.get(); }
    // All that it holds open.
    [[nodiscard]] std::array<int, 3> fds() const {
        return {memory_.get(), data_event_.get(), space_event_.get()};
    }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }
    [[nodiscard]] bool drained() const;  // the agent has taken everything

 private:
    TupleRingProducer() = default;
    void swap(TupleRingProducer& other) noexcept;
    bool has_room(std::size_t bytes);
    UniqueFd memory_;
    UniqueFd data_event_;
    UniqueFd space_event_;
    RingHeader* header_ = nullptr;
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
    std::uint64_t head_ = 0;
    std::uint64_t seen_tail_ = 0;
};

}  // namespace ask
