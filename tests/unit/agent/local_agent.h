// SPDX-License-Identifier: Apache-2.0
//
// Workers without sockets: all that an agent does between applications of one host, without any rights.
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "agent/workers.h"
#include "lib/client/tuple_ring.h"
#include "lib/control/member/mailbox.h"
#include "lib/rpc/credentials.h"

namespace ask::test {

inline constexpr std::uint32_t kHost = 0xC6120102;
inline constexpr std::chrono::seconds kPatience{20};

// For servers of a test's own.
inline std::shared_ptr<RpcCredentials> plain_text() {
    return *RpcCredentials::create({.plain_text = PlainText::kLoopback, .files = {}});
}

struct LocalAgent {
    explicit LocalAgent(unsigned count, Nanos busy_poll = 0)
        : workers({.workers = count, .own_address = kHost, .sender = {}, .busy_poll = busy_poll}, {}) {
        REQUIRE(workers.start().ok());
    }
    Workers workers;
};

// Waits for an event of this kind; fails the test if it does not come.
inline SessionEvent await(Mailbox& mailbox, SessionEvent::Kind kind) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
        mailbox.wait(deadline);
        for (SessionEvent& event : mailbox.take()) {
            if (event.kind == kind) {
                return event;
            }
        }
    }
    FAIL("the event did not come");
    return {};
}

inline TupleRingProducer producer_of(const TupleIntake& intake) {
    const auto fds = intake.descriptors();
    auto producer =
        TupleRingProducer::open(UniqueFd(::dup(fds[0])), UniqueFd(::dup(fds[1])), UniqueFd(::dup(fds[2])));
    REQUIRE_MESSAGE(producer.ok(), producer.error().text());
    return std::move(*producer);
}

}  // namespace ask::test
