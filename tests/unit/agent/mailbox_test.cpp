// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include <thread>

#include <doctest/doctest.h>

#include "agent/polled_mailbox.h"

using namespace ask;

namespace {

bool readable(const PolledMailbox& mailbox) {
    pollfd entry{.fd = mailbox.fd(), .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, 0) == 1;
}

}  // namespace

TEST_CASE("what is posted is taken once, in order") {
    PolledMailbox mailbox;
    CHECK_FALSE(readable(mailbox));
    mailbox.post(SessionEvent::Kind::kRenewed);
    mailbox.post(SessionEvent::Kind::kFinAcked);
    CHECK(readable(mailbox));
    const auto events = mailbox.take();
    REQUIRE(events.size() == 2);
    CHECK(events[0].kind == SessionEvent::Kind::kRenewed);
    CHECK(events[1].kind == SessionEvent::Kind::kFinAcked);
    CHECK_FALSE(readable(mailbox));
    CHECK(mailbox.take().empty());
}

TEST_CASE("an event that waits already is not posted again, but every FIN is") {
    PolledMailbox mailbox;
    for (int i = 0; i < 1000; ++i) {
        mailbox.post(SessionEvent::Kind::kChanged);
    }
    mailbox.post(SessionEvent{SessionEvent::Kind::kFin, {1, 2}, {}});
    mailbox.post(SessionEvent{SessionEvent::Kind::kFin, {1, 3}, {}});
    CHECK(mailbox.take().size() == 3);
    mailbox.post(SessionEvent::Kind::kChanged);
    CHECK(mailbox.take().size() == 1);
}

TEST_CASE("a sleeping session is woken from another thread") {
    PolledMailbox mailbox;
    std::thread poster([&] { mailbox.post(SessionEvent::Kind::kStop); });
    pollfd entry{.fd = mailbox.fd(), .events = POLLIN, .revents = 0};
    constexpr int kDeadlineMs = 10000;
    CHECK(::poll(&entry, 1, kDeadlineMs) == 1);
    poster.join();
    CHECK(mailbox.take().size() == 1);
}
