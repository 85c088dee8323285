// SPDX-License-Identifier: Apache-2.0
//
// An input's bytes as text: gzip and zstd, which its first bytes tell, are decompressed as they come, in
// bounded memory; what is no text is refused by name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "tools/cli/decompress.h"

namespace ask::cli {

struct ContentRules {
    bool as_is = false;         // bytes are taken as they are, whatever they look like
    bool refuse_zeros = false;  // a zero byte among the first of the text shows that it is none
};

// One input, fed piece by piece. Errors (kInput) name it.
class TextStream {
 public:
    TextStream(std::string name, ContentRules rules);
    Result<> feed(std::string_view bytes, const TextSink& sink);
    // The input has ended.
    Result<> finish(const TextSink& sink);

    [[nodiscard]] bool compressed() const { return decompressor_ != nullptr; }
    [[nodiscard]] std::uint64_t bytes_in() const { return bytes_in_; }
    [[nodiscard]] std::uint64_t text_bytes() const { return text_bytes_; }

 private:
    // Tells by the first bytes what the input is, if they are enough for that or `all` that there is.
    Result<> recognize(std::string_view bytes, bool all);
    Result<> decode(std::string_view bytes, const TextSink& sink);
    Result<> hand_on(std::string_view text, const TextSink& sink);

    std::string name_;
    ContentRules rules_;
    bool known_;
    std::string start_;  // what has come until it is known
    std::unique_ptr<Decompressor> decompressor_;
    std::uint64_t bytes_in_ = 0;
    std::uint64_t text_bytes_ = 0;
};

}  // namespace ask::cli
