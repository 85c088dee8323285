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

bool is_high(char c) {
    return static_cast<unsigned char>(c) >= 0x80;
}

// As text(), but JSON has no bytes: where they are no UTF-8, they are escaped, so that keys stay apart and
// can be sent again.
std::string json_key(std::string_view key) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text = escaped(key);
    // What JSON cannot carry is left out of this.
    if (std::ranges::none_of(text, is_high) ||
        Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::ignore)) == text) {
        return text;
    }
    std::string bytes;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        bytes +=
            is_high(c) ? std::string("\\x") + kDigits[byte >> 4U] + kDigits[byte & 15U] : std::string(1, c);
    }
    return bytes;
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
