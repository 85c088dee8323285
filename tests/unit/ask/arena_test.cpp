// SPDX-License-Identifier: Apache-2.0
#include "lib/ask/arena.h"

#include <array>
#include <vector>

#include <doctest/doctest.h>

namespace ask {
namespace {

struct Memory {
    alignas(64) std::array<std::byte, 1024> bytes{};
};

TEST_CASE("what is released joins what is free beside it") {
    Memory memory;
    Arena arena(memory.bytes);
    std::vector<std::byte*> pieces;
    for (int i = 0; i < 16; ++i) {
        pieces.push_back(arena.allocate(64));
        REQUIRE(pieces.back() != nullptr);
    }
    CHECK(arena.allocate(1) == nullptr);
    CHECK(arena.largest() == 0);
    for (const int i : {3, 5, 4}) {
        CHECK(arena.release(pieces[static_cast<std::size_t>(i)]));
    }
    CHECK(arena.largest() == 192);
    CHECK(arena.allocate(192) == pieces[3]);
}

TEST_CASE("only what was given is taken back, once") {
    Memory memory;
    Arena arena(memory.bytes);
    std::byte* const piece = arena.allocate(100);
    CHECK(!arena.release(piece + 64));
    CHECK(!arena.release(memory.bytes.data() + 512));
    CHECK(arena.release(piece));
    CHECK(!arena.release(piece));
    CHECK(arena.release(nullptr));
    CHECK(arena.largest() == 1024);
    CHECK(arena.allocate(1025) == nullptr);
    CHECK(arena.allocate(~std::size_t{0}) == nullptr);
}

TEST_CASE("the agent can use what is aligned and in one piece") {
    Memory memory;
    Arena arena(memory.bytes);
    std::byte* const piece = arena.allocate(256);
    CHECK(arena.usable(piece, 256));
    CHECK(arena.usable(piece + 64, 192));
    CHECK(!arena.usable(piece + 64, 193));
    CHECK(!arena.usable(piece + 8, 8));
    CHECK(!arena.usable(piece + 256, 1));
    CHECK(!arena.usable(nullptr, 0));
    CHECK(arena.same_piece(piece, piece + 255));
    CHECK(!arena.same_piece(piece, arena.allocate(1)));
}

}  // namespace
}  // namespace ask
