// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/region_dump.h"

#include <algorithm>

#include "lib/text/escape.h"
#include "lib/tuples/fetch_codec.h"

namespace ask::cli {
namespace {

// Sums of int32 aggregators of the switch's CPUs: far from int64's ends.
std::int64_t combined(v1::Operator op, std::int64_t a, std::int64_t b) {
    return op == v1::OPERATOR_MIN ? std::min(a, b) : op == v1::OPERATOR_MAX ? std::max(a, b) : a + b;
}

// JSON has no bytes, and keys are to stay apart.
std::string json_key(std::string_view key) {
    std::string text;
    append_escaped_utf8(text, key);
    return text;
}

}  // namespace

Result<> RegionDump::add(std::string_view entries) {
    EntryReader reader(entries);
    while (!reader.done()) {
        const auto entry = reader.next();
        ASK_PASS(entry);
        const auto [at, fresh] = values_.try_emplace(std::string(entry->key), entry->value);
        if (!fresh) {
            at->second = combined(op_, at->second, entry->value);
        }
    }
    return {};
}

std::vector<RegionDump::Row> RegionDump::rows(std::size_t top) const {
    std::vector<Row> all(values_.begin(), values_.end());
    if (top == 0) {
        std::ranges::sort(all);
        return all;
    }
    const std::size_t most = std::min(top, all.size());
    std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(most),
                              [](const Row& a, const Row& b) {
                                  return a.second != b.second ? a.second > b.second : a.first < b.first;
                              });
    all.resize(most);
    return all;
}

std::string RegionDump::text(std::size_t top) const {
    std::string text;
    for (const auto& [key, value] : rows(top)) {
        append_escaped(text, key);
        text += '\t' + std::to_string(value) + '\n';
    }
    return text;
}

Json RegionDump::json(std::size_t top) const {
    Json list = Json::array();
    for (const auto& [key, value] : rows(top)) {
        list.push_back({{"key", json_key(key)}, {"value", value}});
    }
    return list;
}

}  // namespace ask::cli
