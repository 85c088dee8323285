// SPDX-License-Identifier: Apache-2.0
//
// How large a back level a stream's next window is to have at the switch: by the keys of those before it.
// Nobody samples the keys of a window, which would hold each of them up, but which ones the last tables had
// is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "lib/tuples/back.h"

namespace ask {

class WindowNeed {
 public:
    // Of the most that so many had: one with few keys takes no memory from the next, and a switch that makes
    // tables of few sizes has kept one that does.
    static constexpr std::size_t kLast = 8;
    // Of each length: there may be some for the first time.
    static constexpr std::uint64_t kLeast = 4096;

    // The table of a window: how many keys have as many bytes as the index says.
    void note(const std::vector<std::uint64_t>& keys_by_length);
    // A guess, as long as there has been none.
    [[nodiscard]] BackWish wish() const;

 private:
    std::deque<BackKeys> last_;
};

}  // namespace ask
