// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/write_table.h"

#include <cstddef>
#include <string_view>

#include "lib/client/means.h"

namespace ask::cli {
namespace {

Result<> write_means(const client::ResultMap& table, const TableOrder& order, ResultWriter& out,
                     const std::function<void()>& pulse) {
    const auto means = client::Means::of(table, pulse);
    ASK_PASS(means);
    for (const std::size_t each : means->in_order(order.by, order.most, pulse)) {
        ASK_PASS(out.add((*means)[each]));
    }
    return {};
}

}  // namespace

Result<> write_table(const client::ResultMap& table, bool of_means, const TableOrder& order,
                     ResultWriter& out, const std::function<void()>& pulse) {
    if (of_means) {
        ASK_PASS(write_means(table, order, out, pulse));
    } else {
        ASK_PASS(table.each_in_order(
            order.by, order.most,
            [&out](std::string_view key, std::int64_t value) { return out.add(key, value); }, pulse));
    }
    return out.finish();
}

}  // namespace ask::cli
