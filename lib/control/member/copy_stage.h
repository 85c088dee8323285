// SPDX-License-Identifier: Apache-2.0
//
// A copy that a switch streams, until it is there whole: nothing of it counts before. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/base/result.h"
#include "lib/control/member/switch_port.h"
#include "lib/tuples/result_table.h"
#include "proto/switch.pb.h"

namespace ask {

class CopyStage {
 public:
    // `name` names the switch in errors.
    CopyStage(std::string name, const FetchOrder& order) : name_(std::move(name)), order_(order) {}

    // The next piece. kInput: it is not what a switch says.
    Result<> add(v1::FetchChunk chunk);
    // After the last piece. kInput: it is not all there. kSwitchLost: it is another incarnation's than the
    // order's, or another region's.
    Result<FetchedCopy> finish();

 private:
    const std::string name_;
    const FetchOrder order_;
    FetchedCopy copy_;
    v1::FetchChunk last_;
    std::size_t staged_ = 0;  // bytes
};

// Takes the whole of a copy into a table. Its entries are read a second time, so that none is in it of a copy
// that is not all there.
Result<> merge_copy(ResultTable& table, const FetchedCopy& copy);

}  // namespace ask
