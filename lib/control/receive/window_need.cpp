// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/window_need.h"

#include <algorithm>

#include "lib/abi/var.h"

namespace ask {

void WindowNeed::note(const std::vector<std::uint64_t>& keys_by_length) {
    BackKeys keys{};
    const std::size_t lengths = std::min<std::size_t>(keys_by_length.size(), ASK_VAR_MAX_KEY + 1);
    for (std::size_t bytes = 0; bytes < lengths; ++bytes) {
        keys[ask_var_group(static_cast<std::uint32_t>(bytes))] += keys_by_length[bytes];
    }
    last_.push_back(keys);
    if (last_.size() > kLast) {
        last_.pop_front();
    }
}

BackWish WindowNeed::wish() const {
    BackWish wish{.wanted = true, .keys = {}, .guess = last_.empty()};
    for (const BackKeys& keys : last_) {
        for (unsigned group = 0; group < keys.size(); ++group) {
            wish.keys[group] = std::max({wish.keys[group], keys[group], kLeast});
        }
    }
    return wish;
}

}  // namespace ask
