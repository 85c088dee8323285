// SPDX-License-Identifier: Apache-2.0
//
// Descriptors of a simulated process: what its threads wait for with others, as poll() does; its host's
// clock, and what it says.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>

#include "lib/tuples/types.h"
#include "tests/sim/tuples/threads.h"

namespace ask::sim {

// Woken as a descriptor of the process may be readable.
[[nodiscard]] std::shared_ptr<Signal> ready_of(const Threads& process);
// What its host's clock shows, less the receiver's.
void set_clock(const Threads& process, std::int64_t ms);
// The calling thread's.
[[nodiscard]] std::int64_t clock_ms();
// Of no process any more.
void forget_processes();
// One line of the history, by a command.
void say(const std::string& who, const std::string& what);

// Made by a thread of the process that waits for it; numbers are no real ones'.
class Descriptor {
 public:
    explicit Descriptor(std::function<bool()> readable);
    ~Descriptor();
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    [[nodiscard]] int number() const { return number_; }
    [[nodiscard]] bool readable() const { return readable_(); }
    // It may be readable now.
    void wake() const { sim::wake(*ready_); }
    // What whoever waits for it waits for.
    [[nodiscard]] const std::shared_ptr<Signal>& ready() const { return ready_; }

 private:
    const int number_;
    const std::function<bool()> readable_;
    const std::shared_ptr<Signal> ready_;
};

// Until one of them is readable: as lib/base/waiting.h has it.
[[nodiscard]] unsigned wait_for_descriptors(std::initializer_list<int> numbers, Nanos until);

}  // namespace ask::sim
