// SPDX-License-Identifier: Apache-2.0
#include "lib/tuples/whole_keys.h"

namespace ask {

bool has_zero_byte(std::string_view key) {
    std::size_t at = 0;
    for (; at + 8 <= key.size(); at += 8) {
        if (word_has_zero_byte(load_raw<std::uint64_t>(key.data() + at))) {
            return true;
        }
    }
    return key.substr(at).find('\0') != std::string_view::npos;
}

HeldRecords::Counts HeldRecords::that_fit(std::size_t room) const {
    Counts counts{};
    std::uint32_t records = 0;
    std::size_t bytes = 0;
    for (std::uint32_t group = ASK_VAR_GROUPS; group-- > 0;) {
        const std::size_t size = ask_var_record_bytes(group);
        std::uint32_t count =
            std::min(static_cast<std::uint32_t>(groups_[group].size() / size), ASK_VAR_MAX_RECORDS - records);
        while (count > 0 && packet_bytes(records + count, bytes + count * size) > room) {
            --count;
        }
        counts[group] = count;
        records += count;
        bytes += count * size;
    }
    return counts;
}

void HeldRecords::push(std::string_view key, std::int64_t value) {
    const std::uint32_t group = ask_var_group(static_cast<std::uint32_t>(key.size()));
    const std::size_t size = ask_var_record_bytes(group);
    std::vector<std::byte>& held = groups_[group];
    held.resize(held.size() + size);
    write_record(held.data() + held.size() - size, key, value);
    ++records_;
    bytes_ += size;
}

std::size_t HeldRecords::pop(std::uint32_t group, std::uint32_t count, std::byte* to) {
    std::vector<std::byte>& held = groups_[group];
    const std::size_t size = std::size_t{count} * ask_var_record_bytes(group);
    std::copy_n(held.begin(), size, to);
    held.erase(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(size));
    records_ -= count;
    bytes_ -= size;
    return size;
}

}  // namespace ask
