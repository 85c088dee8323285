// SPDX-License-Identifier: Apache-2.0
#include "lib/text/bad_lines.h"

#include <utility>

namespace ask {

BadLines::BadLines(std::uint64_t most, std::function<void(const std::string&)> show)
    : most_(most), show_(std::move(show)) {}

Result<> BadLines::skip(const Error& error) {
    if (skipped_ == most_) {
        return most_ == 0 ? error
                          : Error(error.code(),
                                  error.text() + " (" + std::to_string(most_) +
                                      " malformed lines were skipped before, the limit of --skip-bad)");
    }
    ++skipped_;
    if (skipped_ > shown_ && shown_ < kShown) {
        ++shown_;
        if (show_) {
            show_(error.text());
        }
    }
    return {};
}

}  // namespace ask
