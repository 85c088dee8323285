// SPDX-License-Identifier: Apache-2.0
#include "lib/control/member/copy_stage.h"

#include <utility>

#include "lib/tuples/fetch_codec.h"

namespace ask {
namespace {

// A region of 64 AAs of 2^24 aggregators would need more, but no SRAM budget grants it.
constexpr std::size_t kMaxStaged = std::size_t{4} << 30U;

}  // namespace

Result<> CopyStage::add(v1::FetchChunk chunk) {
    staged_ += chunk.entries().size();
    if (last_.last() || staged_ > kMaxStaged) {
        return Error(Errc::kInput, name_ + ": its copy of the task does not end where it says");
    }
    EntryReader entries(chunk.entries());
    while (!entries.done()) {
        ASK_TRY(entries.next(), name_);
        ++copy_.count;
    }
    copy_.chunks.push_back(std::move(*chunk.mutable_entries()));
    if (chunk.last()) {
        last_ = std::move(chunk);
    }
    return {};
}

Result<FetchedCopy> CopyStage::finish() {
    if (!last_.last() || last_.count() != copy_.count || last_.epoch() != order_.epoch) {
        return Error(Errc::kInput, name_ + ": its copy of the task came incomplete");
    }
    if (last_.mark().switch_id() != order_.mark.switch_id ||
        last_.mark().incarnation() != order_.mark.incarnation) {
        return Error(Errc::kSwitchLost, name_ + " was restarted, and what it had aggregated is lost");
    }
    if (last_.nonce() != order_.region.nonce) {
        return Error(Errc::kSwitchLost, name_ + ": the task's region was made anew, and what it had is lost");
    }
    copy_.flows.assign(last_.flows().begin(), last_.flows().end());
    return std::move(copy_);
}

Result<> merge_copy(ResultTable& table, const FetchedCopy& copy) {
    for (const std::string& chunk : copy.chunks) {
        ASK_PASS(add_entries(table, chunk));
    }
    return {};
}

}  // namespace ask
