// SPDX-License-Identifier: Apache-2.0
//
// A copy that a switch streams, in one go or in several: known to be that copy, and whole, only at the end.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.h"
#include "lib/control/member/switch_port.h"
#include "lib/tuples/result_table.h"
#include "proto/switch.pb.h"

namespace ask {

class CopyReader {
 public:
    // `name` names the switch in errors. `order` and `take` outlive it.
    CopyReader(std::string name, const FetchOrder& order, const TakeEntries& take)
        : name_(std::move(name)), order_(order), take_(take), count_(order.skip) {}

    // The next piece. kInput: it is not what a switch says. Else what taking it comes to.
    Result<> add(v1::FetchChunk chunk);
    // After the last piece. kInput: it is not all there. kSwitchLost: it is another incarnation's than the
    // order's, or another region's.
    Result<CopyEnd> finish();

 private:
    Result<> expect(const BackSize& size);

    const std::string name_;
    const FetchOrder& order_;
    const TakeEntries& take_;
    v1::FetchChunk last_;
    std::uint64_t count_;         // entries that came, before and now
    std::uint64_t expected_ = 0;  // of those, of the back level, if it was said
};

// Takes the whole of a copy into a table.
Result<> merge_copy(ResultTable& table, const FetchedCopy& copy);

}  // namespace ask
