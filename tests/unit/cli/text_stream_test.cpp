// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/text_stream.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/cli/compressed.h"

namespace ask::cli {
namespace {

struct Outcome {
    std::string text;
    std::string error;
    std::size_t longest = 0;  // piece of text
};

Outcome read(std::string_view bytes, std::size_t step, ContentRules rules = {}) {
    Outcome outcome;
    const TextSink sink = [&outcome](std::string_view text) {
        outcome.text += text;
        outcome.longest = std::max(outcome.longest, text.size());
        return Result<>();
    };
    TextStream stream("in", rules);
    Result<> done;
    for (; done.ok() && !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
        done = stream.feed(bytes.substr(0, step), sink);
    }
    if (done.ok()) {
        done = stream.finish(sink);
    }
    if (!done.ok()) {
        CHECK(done.error().code() == Errc::kInput);
        outcome.error = done.error().text();
    }
    return outcome;
}

std::string some_text(unsigned lines) {
    std::string text;
    for (unsigned i = 0; i < lines; ++i) {
        text += "key" + std::to_string(i * 7919 % 1000) + "\t" + std::to_string(i) + "\n";
    }
    return text;
}

constexpr std::size_t kAll = std::size_t{1} << 30U;

TEST_CASE("text is handed on as it is, also what begins as if it were compressed") {
    for (const std::string text :
         {"", "\x1f", "\x1f\x8b", "(\xb5", "BZh", "BZh9 is a key\t1\n", "PK\x03", "P", "a\tb\n"}) {
        for (const std::size_t step : {std::size_t{1}, std::size_t{3}, kAll}) {
            const Outcome got = read(text, step, {.refuse_zeros = true});
            CHECK(got.error.empty());
            CHECK(got.text == text);
        }
    }
}

TEST_CASE("gzip and zstd are told by their content and decompressed, several one after another too") {
    const std::string text = some_text(30'000);
    const std::string skipped("\x50\x2a\x4d\x18\x02\x00\x00\x00xy", 10);  // a frame without text
    const std::vector<std::string> all = {gzipped(text) + gzipped("") + gzipped(text),
                                          zstandard(text) + zstandard("") + zstandard(text),
                                          skipped + zstandard(text) + skipped + zstandard(text)};
    for (const std::string& bytes : all) {
        for (const std::size_t step : {std::size_t{1}, std::size_t{1000}, kAll}) {
            const Outcome got = read(bytes, step);
            CHECK(got.error == "");
            CHECK(got.text == text + text);
        }
        CHECK(read(bytes, kAll, {.as_is = true}).text == bytes);
    }
}

TEST_CASE("data that is cut short or damaged is an error that says where") {
    const std::string text = some_text(30'000);
    for (const bool gzip : {true, false}) {
        const std::string format = gzip ? "gzip" : "zstd";
        const std::string whole = gzip ? gzipped(text) : zstandard(text);
        for (const std::size_t cut : {std::size_t{12}, whole.size() / 2, whole.size() - 1}) {
            const Outcome got = read(whole.substr(0, cut), 777);
            CHECK(got.error == "in: is cut short: its " + format + " data ends at byte " +
                                   std::to_string(cut) + ", in the middle");
        }
        std::string second = whole + whole.substr(0, 20);
        CHECK(read(second, kAll).error.find("is cut short") != std::string::npos);
        // Anywhere: by the checksum at the latest.
        for (std::size_t at = 40; at < whole.size(); at += whole.size() / 7) {
            std::string bad = whole;
            bad[at] = static_cast<char>(bad[at] ^ 0x10);
            const Outcome got = read(bad, 5000);
            CHECK(got.error.find("in: ") == 0);
            CHECK(got.error.find(format) != std::string::npos);
        }
        const Outcome rest = read(whole + "something else", kAll);
        CHECK(rest.text == text);
        CHECK(rest.error.starts_with("in: damaged " + format + " data at byte "));
    }
}

TEST_CASE("much text out of few bytes comes in pieces, and windows have a limit") {
    const std::string zeros(64U << 20U, '0');
    for (const std::string& bytes : {gzipped(zeros), zstandard(zeros)}) {
        const Outcome got = read(bytes, kAll);
        CHECK(got.text.size() == zeros.size());
        CHECK(got.longest <= 1U << 20U);
    }
    CHECK(read(zstandard("a\n", 27), kAll).text == "a\n");
    const Outcome large = read(zstandard("a\n", 28), kAll);
    CHECK(large.error.starts_with("in: needs more than 128 MiB to decompress: zstd -dc --long=31"));
}

TEST_CASE("what is compressed in other ways, or no text, is refused by name") {
    const std::string xz(
        "\xfd"
        "7zXZ\0\0\4",
        8);
    CHECK(read(xz, 1).error ==
          "in: is xz data, which ask-send does not decompress: xz -dc FILE | ask-send ...; --no-decompress "
          "takes the "
          "bytes");
    CHECK(read("BZh91AY&SYxyz", 4).error.find("bzip2 -dc FILE") != std::string::npos);
    CHECK(read("\x04\x22\x4d\x18rest", kAll).error.find("lz4 -dc FILE") != std::string::npos);
    CHECK(read("PK\x03\x04rest", kAll).error.find("unzip -p FILE") != std::string::npos);
    CHECK(read(xz, kAll, {.as_is = true}).text == xz);

    const std::string binary = "ELF\n" + std::string(3, '\0');
    const ContentRules text{.refuse_zeros = true};
    for (const std::size_t step : {std::size_t{1}, kAll}) {
        CHECK(read(binary, step, text).error ==
              "in: is no text: its byte 5 is zero; --no-decompress takes the bytes as they are");
        CHECK(read(gzipped(binary), step, text).error.find("in: is no text: its byte 5") == 0);
        CHECK(read(binary, step).text == binary);
        const std::string later = std::string(4096, 'a') + binary;
        CHECK(read(later, step, text).text == later);
    }
}

TEST_CASE("the sink's error ends it, and is not taken for the data's") {
    const std::string bytes = gzipped(some_text(1000));
    TextStream stream("in", {});
    const auto got =
        stream.feed(bytes, [](std::string_view) { return Result<>(Error(Errc::kAborted, "enough")); });
    REQUIRE_FALSE(got.ok());
    CHECK(got.error().text() == "enough");
    CHECK(got.error().code() == Errc::kAborted);
}

}  // namespace
}  // namespace ask::cli
