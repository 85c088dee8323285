// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/text_stream.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tools/cli/decompress.h"

namespace ask::cli {
namespace {

// A zero byte among so many first bytes of text is not a key's.
constexpr std::uint64_t kLookedAt = 4096;

struct Format {
    std::string_view magic;  // '?': any byte
    const char* name;
    std::unique_ptr<Decompressor> (*decompress)();  // none: somebody else has to
    const char* advice;
};

constexpr std::array<Format, 7> kFormats{{
    {"\x1f\x8b\x08", "gzip", make_gzip, ""},
    {"\x28\xb5\x2f\xfd", "zstd", make_zstd, ""},
    {"?\x2a\x4d\x18", "zstd", make_zstd, ""},  // a frame to be skipped, as pzstd begins with
    {{"\xfd"
      "7zXZ\0",
      6},
     "xz",
     nullptr,
     "xz -dc"},
    {"BZh?1AY&SY", "bzip2", nullptr, "bzip2 -dc"},
    {"\x04\x22\x4d\x18", "lz4", nullptr, "lz4 -dc"},
    {"PK\x03\x04", "zip", nullptr, "unzip -p"},
}};
constexpr std::size_t kLongestMagic = 10;

// Whether the bytes are the magic, or its start as far as they go.
bool matches(std::string_view magic, std::string_view bytes) {
    const std::size_t common = std::min(magic.size(), bytes.size());
    for (std::size_t i = 0; i < common; ++i) {
        if (magic[i] != '?' && magic[i] != bytes[i]) {
            return false;
        }
    }
    return true;
}

const Format* format_of(std::string_view bytes) {
    for (const Format& format : kFormats) {
        if (bytes.size() >= format.magic.size() && matches(format.magic, bytes)) {
            return &format;
        }
    }
    return nullptr;
}

bool may_become_known(std::string_view bytes) {
    return bytes.empty() || std::ranges::any_of(kFormats, [bytes](const Format& format) {
               return bytes.size() < format.magic.size() && matches(format.magic, bytes);
           });
}

}  // namespace

TextStream::TextStream(std::string name, ContentRules rules)
    : name_(std::move(name)), rules_(rules), known_(rules.as_is) {}

Result<> TextStream::recognize(std::string_view bytes, bool all) {
    const Format* const format = format_of(bytes);
    known_ = all || format != nullptr || !may_become_known(bytes);
    if (format == nullptr) {
        return {};
    }
    if (format->decompress == nullptr) {
        return Error(Errc::kInput, name_ + ": is " + format->name +
                                       " data, which ask-send does not decompress: " + format->advice +
                                       " FILE | ask-send ...; --no-decompress takes the bytes");
    }
    decompressor_ = format->decompress();
    return {};
}

Result<> TextStream::feed(std::string_view bytes, const TextSink& sink) {
    if (known_) {
        return decode(bytes, sink);
    }
    // Usually all that is needed is in the first piece.
    const bool enough = start_.empty() && bytes.size() >= kLongestMagic;
    if (!enough) {
        start_ += bytes;
        bytes = start_;
    }
    ASK_PASS(recognize(bytes, false));
    if (!known_) {
        return {};
    }
    const std::string start = std::exchange(start_, {});
    return decode(enough ? bytes : std::string_view(start), sink);
}

Result<> TextStream::finish(const TextSink& sink) {
    if (!known_) {
        ASK_PASS(recognize(start_, true));
        ASK_PASS(decode(std::exchange(start_, {}), sink));
    }
    if (decompressor_ && !decompressor_->complete()) {
        return Error(Errc::kInput, name_ + ": is cut short: its " + decompressor_->format() +
                                       " data ends at byte " + std::to_string(bytes_in_) + ", in the middle");
    }
    return {};
}

Result<> TextStream::decode(std::string_view bytes, const TextSink& sink) {
    if (bytes.empty()) {
        return {};
    }
    bytes_in_ += bytes.size();
    if (!decompressor_) {
        return hand_on(bytes, sink);
    }
    // The sink's errors name what they are about; those of the data have yet to.
    bool in_sink = false;
    auto fed = decompressor_->feed(bytes, [&](std::string_view text) {
        auto taken = hand_on(text, sink);
        in_sink = !taken.ok();
        return taken;
    });
    return fed.ok() || in_sink ? std::move(fed) : std::move(fed).error().with_context(name_);
}

Result<> TextStream::hand_on(std::string_view text, const TextSink& sink) {
    if (rules_.refuse_zeros && text_bytes_ < kLookedAt) {
        const std::size_t zero = text.substr(0, kLookedAt - text_bytes_).find('\0');
        if (zero != std::string_view::npos) {
            return Error(Errc::kInput, name_ + ": is no text: its byte " +
                                           std::to_string(text_bytes_ + zero + 1) +
                                           " is zero; --no-decompress takes the bytes as they are");
        }
    }
    text_bytes_ += text.size();
    return sink(text);
}

}  // namespace ask::cli
