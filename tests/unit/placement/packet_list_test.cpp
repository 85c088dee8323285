// SPDX-License-Identifier: Apache-2.0
//
// Bytes of a list of words as lib/topology reckons them, against the frames that a packer makes of it.
#include "lib/topology/packet_list.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/abi/wire.h"
#include "lib/net/frame.h"
#include "lib/tuples/packer.h"

using namespace ask;
using namespace ask::topology;

namespace {

constexpr std::uint32_t kPayload = 1472;
constexpr std::size_t kHead = kFrameHeaderBytes + sizeof(ask_hdr);

// As a sender puts them into packets, and its FIN.
std::size_t packed(const std::vector<std::string>& words, const Geometry& geometry) {
    Packer packer(
        {.geometry = geometry, .hold = 4096, .payload_limit = kPayload, .slot_map = {}, .whole_keys = true});
    std::vector<std::byte> body(kPayload);
    std::size_t bytes = kHead + sizeof(std::uint64_t);
    const auto drain = [&] {
        while (packer.has_body()) {
            const auto made = packer.next(body);
            REQUIRE(made);
            bytes += kHead + std::size_t{made->rows} * sizeof(std::uint32_t) + made->bytes;
        }
    };
    for (const std::string& word : words) {
        packer.add(word, 1);
        drain();
    }
    packer.finish();
    drain();
    return bytes;
}

std::vector<std::string> words_of(std::size_t count, std::size_t shortest, std::size_t longest) {
    std::vector<std::string> words;
    for (std::size_t i = 0; i < count; ++i) {
        std::string word = std::to_string(i * 7919 % 100003);
        word.resize(shortest + i % (longest - shortest + 1), 'x');
        words.push_back(word + std::to_string(i));
        words.back().resize(std::min(words.back().size(), longest));
    }
    return words;
}

}  // namespace

TEST_CASE("a list of short words is as long as its frames") {
    for (const char* text : {"16*8", "13*8", "32*4", "16+8x2"}) {
        const Geometry geometry = parse_geometry(text, kPayload).value();
        for (const std::size_t count : {1U, 17U, 500U, 9000U}) {
            std::vector<std::string> words;
            PacketList list(geometry);
            list.add("gone");
            list.clear();
            for (std::size_t i = 0; i < count; ++i) {
                words.push_back(std::to_string(i));
                list.add(words.back());
            }
            INFO(text, ", ", count);
            CHECK(list.bytes() == static_cast<double>(packed(words, geometry)));
        }
    }
}

TEST_CASE("words that fit no slot are records, to a percent") {
    const Geometry geometry = parse_geometry("16*8", kPayload).value();
    const auto words = words_of(5000, 12, 20);
    PacketList list(geometry);
    for (const std::string& word : words) {
        list.add(word);
    }
    CHECK(list.bytes() == doctest::Approx(static_cast<double>(packed(words, geometry))).epsilon(0.01));
}
