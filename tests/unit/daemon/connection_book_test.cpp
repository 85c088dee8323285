// SPDX-License-Identifier: Apache-2.0
//
// Which connections a server has: by descriptors that others close.
#include "lib/daemon/connection_book.h"

#include <sys/socket.h>

#include <vector>

#include <doctest/doctest.h>

#include "lib/base/unique_fd.h"

using ask::ConnectionBook;
using ask::UniqueFd;
using Verdict = ask::ConnectionBook::Verdict;

namespace {

UniqueFd make_socket() {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(fd);
    return fd;
}

}  // namespace

TEST_CASE("a peer has its share, all together have theirs, and what is closed counts no more") {
    ConnectionBook book({.all = 5, .per_peer = 3});
    std::vector<UniqueFd> open;
    const auto take = [&](const char* peer) {
        REQUIRE(book.judge(peer) == Verdict::kWelcome);
        open.push_back(make_socket());
        book.note(open.back().get(), peer);
    };
    for (int i = 0; i < 3; ++i) {
        take("a");
    }
    CHECK(book.judge("a") == Verdict::kPeerHasEnough);
    take("b");
    take("b");
    CHECK(book.judge("c") == Verdict::kAllTaken);
    CHECK(book.judge("a") == Verdict::kPeerHasEnough);
    open.front().reset();
    CHECK(book.judge("c") == Verdict::kWelcome);
    CHECK(book.judge("a") == Verdict::kWelcome);
    CHECK(book.size() == 4);
}

TEST_CASE("a number that is used again is another connection") {
    ConnectionBook book({.all = 2, .per_peer = 1});
    UniqueFd first = make_socket();
    const int number = first.get();
    book.note(number, "a");
    CHECK(book.judge("a") == Verdict::kPeerHasEnough);
    first.reset();
    const UniqueFd other = make_socket();
    REQUIRE(other.get() == number);
    CHECK(book.judge("a") == Verdict::kWelcome);
    book.note(number, "b");
    CHECK(book.size() == 1);
    CHECK(book.judge("b") == Verdict::kPeerHasEnough);
}

TEST_CASE("connections get a quarter of the descriptors") {
    CHECK(ask::connection_bounds(1024).all == 256);
    CHECK(ask::connection_bounds(1024).per_peer == 64);
    CHECK(ask::connection_bounds(1U << 20U).all == 4096);
    CHECK(ask::connection_bounds(64).per_peer == 4);
}
