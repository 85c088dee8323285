// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/decompress.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

namespace ask::cli {
namespace {

constexpr std::size_t kTextBytes = 1U << 18U;
constexpr int kMaxWindowLog = 27;

Error damaged(const char* format, std::uint64_t offset, const std::string& why) {
    return {Errc::kInput,
            std::string("damaged ") + format + " data at byte " + std::to_string(offset) + ": " + why};
}

class Gzip : public Decompressor {
 public:
    Gzip() : text_(std::make_unique_for_overwrite<char[]>(kTextBytes)) {
        // 16: a gzip header and trailer; 15: the largest window there is, 32 KiB.
        if (::inflateInit2(&stream_, 16 + 15) != Z_OK) {
            throw std::bad_alloc();
        }
    }
    ~Gzip() override { ::inflateEnd(&stream_); }
    Gzip(const Gzip&) = delete;
    Gzip& operator=(const Gzip&) = delete;

    Result<> feed(std::string_view bytes, const TextSink& sink) override {
        // zlib does not write there.
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
        stream_.avail_in = static_cast<uInt>(bytes.size());
        bool full = false;  // there may be more text than has been taken
        while (stream_.avail_in > 0 || full) {
            if (complete_) {
                ::inflateReset(&stream_);
            }
            const int got = inflate_once();
            complete_ = got == Z_STREAM_END;
            if (got != Z_OK && got != Z_STREAM_END && got != Z_BUF_ERROR) {
                return damaged(format(), bytes_in_ + bytes.size() - stream_.avail_in,
                               stream_.msg != nullptr ? stream_.msg : ::zError(got));
            }
            const std::size_t length = kTextBytes - stream_.avail_out;
            full = stream_.avail_out == 0 && !complete_;
            if (length > 0) {
                ASK_PASS(sink({text_.get(), length}));
            }
        }
        bytes_in_ += bytes.size();
        return {};
    }
    [[nodiscard]] bool complete() const override { return complete_; }
    [[nodiscard]] const char* format() const override { return "gzip"; }

 private:
    int inflate_once() {
        stream_.next_out = reinterpret_cast<Bytef*>(text_.get());
        stream_.avail_out = static_cast<uInt>(kTextBytes);
        return ::inflate(&stream_, Z_NO_FLUSH);
    }

    std::unique_ptr<char[]> text_;
    z_stream stream_{};
    bool complete_ = false;
    std::uint64_t bytes_in_ = 0;
};

class Zstd : public Decompressor {
 public:
    Zstd() : text_(std::make_unique_for_overwrite<char[]>(kTextBytes)), context_(::ZSTD_createDCtx()) {
        if (!context_) {
            throw std::bad_alloc();
        }
        ::ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
    }

    Result<> feed(std::string_view bytes, const TextSink& sink) override {
        ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
        bool full = false;  // there may be more text than has been taken
        while (in.pos < in.size || full) {
            ZSTD_outBuffer out{text_.get(), kTextBytes, 0};
            const std::size_t left = ::ZSTD_decompressStream(context_.get(), &out, &in);
            if (::ZSTD_isError(left) != 0) {
                return failed(left, bytes_in_ + in.pos);
            }
            complete_ = left == 0;
            full = out.pos == out.size && !complete_;
            if (out.pos > 0) {
                ASK_PASS(sink({text_.get(), out.pos}));
            }
        }
        bytes_in_ += bytes.size();
        return {};
    }
    [[nodiscard]] bool complete() const override { return complete_; }
    [[nodiscard]] const char* format() const override { return "zstd"; }

 private:
    struct Free {
        void operator()(ZSTD_DCtx* context) const { ::ZSTD_freeDCtx(context); }
    };

    [[nodiscard]] Error failed(std::size_t code, std::uint64_t offset) const {
        if (::ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge) {
            return {Errc::kInput,
                    "needs more than 128 MiB to decompress: zstd -dc --long=31 FILE | ask-send ... can"};
        }
        return damaged(format(), offset, ::ZSTD_getErrorName(code));
    }

    std::unique_ptr<char[]> text_;
    std::unique_ptr<ZSTD_DCtx, Free> context_;
    bool complete_ = false;
    std::uint64_t bytes_in_ = 0;
};

}  // namespace

std::unique_ptr<Decompressor> make_gzip() {
    return std::make_unique<Gzip>();
}

std::unique_ptr<Decompressor> make_zstd() {
    return std::make_unique<Zstd>();
}

}  // namespace ask::cli
