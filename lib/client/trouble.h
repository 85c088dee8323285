// SPDX-License-Identifier: Apache-2.0
//
// When what a stream waits for is worth a word: agents are restarted, and nobody needs to hear of that.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace ask::client {

class Trouble {
 public:
    using Clock = std::chrono::steady_clock;
    // It lasts for so long, and is said again after the deadline.
    static constexpr std::chrono::milliseconds kPatience{5'000};
    explicit Trouble(std::chrono::milliseconds deadline) : deadline_(deadline) {}

    // What to say of it; `text` is empty while there is none.
    std::optional<std::string> note(const std::string& text, Clock::time_point now) {
        if (text.empty()) {
            since_.reset();
            return std::exchange(said_, false) ? std::optional<std::string>("the stream goes on")
                                               : std::nullopt;
        }
        if (!since_) {
            since_ = now;
            next_ = now + std::min(kPatience, deadline_);
        }
        if (now < next_) {
            return std::nullopt;
        }
        next_ = now + deadline_;
        said_ = true;
        return text;
    }

 private:
    std::chrono::milliseconds deadline_;
    std::optional<Clock::time_point> since_;
    Clock::time_point next_;
    bool said_ = false;
};

}  // namespace ask::client
