// SPDX-License-Identifier: Apache-2.0
//
// Streams of gzip and zstd data, by libz and libzstd.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "lib/base/result.h"

namespace ask::cli {

// Takes text, a piece of it at a time.
using TextSink = std::function<Result<>(std::string_view)>;

// One stream, fed piece by piece; several compressed one after another are one.
class Decompressor {
 public:
    Decompressor() = default;
    Decompressor(const Decompressor&) = delete;
    Decompressor& operator=(const Decompressor&) = delete;
    virtual ~Decompressor() = default;
    // Errors are the sink's, or (kInput) say what is wrong with the data and at which byte of it.
    virtual Result<> feed(std::string_view bytes, const TextSink& sink) = 0;
    // Whether the data may end here.
    [[nodiscard]] virtual bool complete() const = 0;
    [[nodiscard]] virtual const char* format() const = 0;
};

std::unique_ptr<Decompressor> make_gzip();
// Data whose window is larger than the 128 MiB that zstd itself takes without being asked is refused.
std::unique_ptr<Decompressor> make_zstd();

}  // namespace ask::cli
