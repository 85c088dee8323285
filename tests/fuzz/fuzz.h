// SPDX-License-Identifier: Apache-2.0
//
// What the fuzz targets share: a target is one function over bytes, built with libFuzzer (tools/fuzz) or with
// driver.cpp (the tests). A target's globals must not carry anything from one input to the next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>
#include <type_traits>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace ask::fuzz {

// What must hold whatever the input is. Both builds take abort() for a finding and keep the input.
inline void require(bool holds, const char* what) {
    if (!holds) {
        std::fprintf(stderr, "does not hold: %s\n", what);
        std::abort();
    }
}

// Reads an input from its front. What is past the end reads as zeros, so that any bytes are an input.
class Input {
 public:
    Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}

    [[nodiscard]] bool empty() const { return rest_.empty(); }
    template <typename T>
        requires std::is_unsigned_v<T>
    T take() {
        std::uint64_t value = 0;
        for (const std::uint8_t byte : bytes(sizeof(T))) {
            value = value << 8 | byte;
        }
        return static_cast<T>(value);
    }
    bool flag() { return (take<std::uint8_t>() & 1U) != 0; }
    // Of [0, count).
    unsigned below(unsigned count) { return take<std::uint8_t>() % count; }
    // At most so many.
    std::span<const std::uint8_t> bytes(std::size_t count) {
        const auto taken = rest_.first(std::min(count, rest_.size()));
        rest_ = rest_.subspan(taken.size());
        return taken;
    }
    std::string_view text(std::size_t count) { return as_text(bytes(count)); }
    std::string_view rest() { return text(rest_.size()); }

 private:
    static std::string_view as_text(std::span<const std::uint8_t> bytes) {
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
    std::span<const std::uint8_t> rest_;
};

}  // namespace ask::fuzz
