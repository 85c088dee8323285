// SPDX-License-Identifier: Apache-2.0
//
// Tuples of a stream's window, kept until the window is committed: appended by one thread, and read from the
// beginning by another, as they come, as often as the window's run begins again.
//
// Tuples lie behind each other in blocks that never move: 8 bytes value, 4 bytes key length, key, padded
// to 4. A reader sees a block's tuples up to `used`, and the next block once this one will get no more.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/event_fd.h"
#include "lib/tuples/tuple.h"

namespace ask::client {

// What the spools of a process may take together. Thread-safe.
class SpoolRoom {
 public:
    explicit SpoolRoom(std::size_t limit) : limit_(limit) {}
    void take(std::size_t bytes) { used_.fetch_add(bytes); }
    void give_back(std::size_t bytes) { used_.fetch_sub(bytes); }
    // Whoever reads input stops then. What has been read has its place all the same.
    [[nodiscard]] bool full() const { return used_.load() >= limit_; }
    [[nodiscard]] std::size_t used() const { return used_.load(); }
    [[nodiscard]] std::size_t limit() const { return limit_; }

 private:
    std::size_t limit_;
    std::atomic<std::size_t> used_{0};
};

class Spool {
    struct Block;

 public:
    static constexpr std::size_t kBlock = std::size_t{256} << 10U;
    explicit Spool(SpoolRoom& room) : room_(room) {}
    Spool(const Spool&) = delete;
    Spool& operator=(const Spool&) = delete;
    ~Spool();

    // By the thread that writes. Keys are of up to ASK_MAX_KEY bytes.
    void append(const Tuple& tuple);
    // Wakes a reader that sleeps on event().
    void wake();
    // Tuples that were merged into those that are here, so far. For statistics alone.
    void set_merged(std::uint64_t tuples) { merged_.store(tuples, std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t merged() const { return merged_.load(std::memory_order_relaxed); }
    // Nothing more will be appended. By the thread that writes.
    void close();
    [[nodiscard]] std::uint64_t tuples() const { return tuples_.load(std::memory_order_relaxed); }
    [[nodiscard]] std::size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

    // One at a time reads, whatever thread it is of.
    class Reader {
     public:
        explicit Reader(Spool& spool) : spool_(spool) {}
        // The next ones, at most `most`, borrowed for as long as the spool lives. None: there are none for
        // the time being.
        [[nodiscard]] const std::vector<Tuple>& next(std::size_t most);
        // Whether all has been read, and no more will come.
        [[nodiscard]] bool at_end();
        // Before sleeping on event(): true if there is something (do not sleep).
        bool arm();

     private:
        bool find();
        Spool& spool_;
        Block* block_ = nullptr;
        std::size_t offset_ = 0;
        std::vector<Tuple> tuples_;
    };
    [[nodiscard]] int event() const { return event_.fd(); }

 private:
    Block* block_for(std::size_t bytes);

    SpoolRoom& room_;
    std::atomic<Block*> first_{nullptr};
    Block* last_ = nullptr;
    std::atomic<bool> closed_{false};
    std::atomic<bool> sleeping_{false};
    std::atomic<std::uint64_t> tuples_{0};
    std::atomic<std::uint64_t> merged_{0};
    std::atomic<std::size_t> bytes_{0};
    EventFd event_;
};

}  // namespace ask::client
