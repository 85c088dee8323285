// SPDX-License-Identifier: Apache-2.0
#include "lib/control/member/copy_reader.h"

#include <utility>

#include "lib/tuples/fetch_codec.h"

namespace ask {

Result<> CopyReader::add(v1::FetchChunk chunk) {
    // Pieces of nothing would go on for ever.
    if (last_.last() || (!chunk.last() && chunk.entries().empty())) {
        return Error(Errc::kInput, name_ + ": its copy of the task does not end where it says");
    }
    if (chunk.back_entries() != 0) {
        ASK_PASS(expect({.entries = chunk.back_entries(), .key_bytes = chunk.back_key_bytes()}));
    }
    if (!chunk.entries().empty()) {
        auto taken = take_(std::move(*chunk.mutable_entries()));
        if (!taken.ok()) {
            // Anything else is not the switch's fault.
            return taken.error().code() == Errc::kInput ? std::move(taken).error().with_context(name_)
                                                        : std::move(taken).error();
        }
        count_ += *taken;
    }
    if (chunk.last()) {
        last_ = std::move(chunk);
    }
    return {};
}

// Memory is had for it, so it is said once, and is no more than a back level has.
Result<> CopyReader::expect(const BackSize& size) {
    if (expected_ != 0 || size.entries > kMostBackEntries ||
        size.key_bytes > size.entries * kBackKeyBytes.back()) {
        return Error(Errc::kInput, name_ + ": its copy of the task has " + std::to_string(size.entries) +
                                       " entries in the back level, with keys of " +
                                       std::to_string(size.key_bytes) + " bytes, which cannot be");
    }
    expected_ = size.entries;
    return order_.expect ? order_.expect(size) : Result<>();
}

Result<CopyEnd> CopyReader::finish() {
    if (!last_.last() || last_.count() != count_ || last_.epoch() != order_.epoch) {
        return Error(Errc::kInput, name_ + ": its copy of the task came incomplete");
    }
    if (last_.mark().switch_id() != order_.mark.switch_id ||
        last_.mark().incarnation() != order_.mark.incarnation) {
        return Error(Errc::kSwitchLost, name_ + " was restarted, and what it had aggregated is lost");
    }
    if (last_.nonce() != order_.region.nonce) {
        return Error(Errc::kSwitchLost, name_ + ": the task's region was made anew, and what it had is lost");
    }
    if (last_.count() < expected_) {
        return Error(Errc::kInput, name_ + ": its copy of the task has " + std::to_string(count_) +
                                       " entries, fewer than it said of its back level alone");
    }
    return CopyEnd{.count = count_, .flows = {last_.flows().begin(), last_.flows().end()}};
}

Result<> merge_copy(ResultTable& table, const FetchedCopy& copy) {
    for (const std::string& chunk : copy.chunks) {
        ASK_PASS(add_entries(table, chunk));
    }
    return {};
}

}  // namespace ask
