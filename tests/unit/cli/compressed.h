// SPDX-License-Identifier: Apache-2.0
//
// Text, compressed for tests.
#pragma once

#include <zlib.h>
#include <zstd.h>

#include <string>

#include <doctest/doctest.h>

namespace ask::cli {

inline std::string gzipped(const std::string& text) {
    z_stream stream{};
    REQUIRE(::deflateInit2(&stream, 6, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    std::string out(::deflateBound(&stream, text.size()) + 64, '\0');
    std::string in = text;
    stream.next_in = reinterpret_cast<Bytef*>(in.data());
    stream.avail_in = static_cast<uInt>(in.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    REQUIRE(::deflate(&stream, Z_FINISH) == Z_STREAM_END);
    out.resize(stream.total_out);
    ::deflateEnd(&stream);
    return out;
}

inline std::string zstandard(const std::string& text, int window_log = 0) {
    ZSTD_CCtx* const context = ::ZSTD_createCCtx();
    ::ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    ::ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
    // Without the text's size known, the frame names its window.
    ::ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
    std::string out(::ZSTD_compressBound(text.size()), '\0');
    ZSTD_inBuffer in{text.data(), text.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    REQUIRE(::ZSTD_compressStream2(context, &to, &in, ZSTD_e_continue) != static_cast<std::size_t>(-1));
    REQUIRE(::ZSTD_compressStream2(context, &to, &in, ZSTD_e_end) == 0);
    out.resize(to.pos);
    ::ZSTD_freeCCtx(context);
    return out;
}

}  // namespace ask::cli
