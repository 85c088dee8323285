// SPDX-License-Identifier: Apache-2.0
//
// A table of a result, in the order that was asked for.
#pragma once

#include <cstdint>
#include <functional>

#include "lib/base/result.h"
#include "lib/client/result_map.h"
#include "tools/cli/output.h"

namespace ask::cli {

struct TableOrder {
    client::ResultMap::Order by = client::ResultMap::Order::kKey;
    std::uint64_t most = client::ResultMap::kAll;
};

// All of it and its end, if the style has means by their sums and counts. Calls `pulse` now and then before
// the first comes.
Result<> write_table(
    const client::ResultMap& table, bool of_means, const TableOrder& order, ResultWriter& out,
    const std::function<void()>& pulse = [] {});

}  // namespace ask::cli
