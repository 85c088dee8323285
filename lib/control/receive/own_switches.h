// SPDX-License-Identifier: Apache-2.0
//
// Switches that the senders of a task name as their own, by address, and what has become of each. The task's
// session opens it there on first need; until it has said how that went, whoever asks for the task waits.
// Guarded as the task is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/runtime.h"
#include "lib/tuples/types.h"

namespace ask {

class OwnSwitches {
 public:
    enum class State : std::uint8_t { kWanted, kOpen, kNone };
    struct Entry {
        State state = State::kWanted;
        Mark mark;        // kOpen: several addresses may be one switch's
        std::string why;  // kNone
        Clock::time_point wanted_at;
    };

    // True: nobody has named it before, and the session is to open it.
    bool want(const std::string& address, Clock::time_point now);
    void opened(const std::string& address, Mark mark);
    void refused(const std::string& address, std::string why);

    // Null: nobody has named it.
    [[nodiscard]] const Entry* find(const std::string& address) const;
    // Whether a sender whose own switch that is can be told how it is to join. Empty: it has none.
    [[nodiscard]] bool is_settled(const std::string& address) const;
    // Why no switch aggregates for a sender of that switch who has joined without.
    [[nodiscard]] std::string why_none(const std::string& address) const;
    struct Wanted {
        std::string address;
        Clock::time_point since;
    };
    // The next one to be opened.
    [[nodiscard]] std::optional<Wanted> next() const;
    // Those that senders know that switch by.
    [[nodiscard]] std::vector<std::string> addresses_of(Mark mark) const;
    // Any that senders have named.
    [[nodiscard]] std::optional<std::string> any() const;

 private:
    std::map<std::string, Entry> entries_;  // by address; at most as many as a task may have senders
};

}  // namespace ask
