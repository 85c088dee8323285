// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <variant>

#include <doctest/doctest.h>

#include "lib/client/stream_receive.h"
#include "lib/client/stream_send.h"
#include "lib/client/stream_view.h"
#include "lib/client/trouble.h"
#include "tests/unit/client/fake_agent.h"

namespace ask {
namespace {

using namespace std::chrono_literals;
using namespace client;
using std::chrono::milliseconds;
using std::chrono::system_clock;
using test::FakeAgent;

system_clock::time_point at_ms(std::int64_t ms) {
    return system_clock::time_point(milliseconds(ms));
}

TEST_CASE("a window begins by the receiver's clock, whatever the sender's says") {
    const OpenStreamWindow window{.number = 5, .begins_ms = 50'000, .task_id = {}, .instance = 0};
    CHECK(until(window, 0, at_ms(49'999)) == 1ms);
    CHECK(until(window, 0, at_ms(50'000)) == 0ms);
    CHECK(until(window, 0, at_ms(60'000)) == 0ms);
    // An hour behind, and an hour ahead.
    CHECK(until(window, 3'600'000, at_ms(50'000 - 3'600'000)) == 0ms);
    CHECK(until(window, 3'600'000, at_ms(49'000 - 3'600'000)) == 1s);
    CHECK(until(window, -3'600'000, at_ms(50'000 + 3'600'000 - 1)) == 1ms);
    // Parts of a millisecond do not make it early.
    CHECK(until(window, 0, at_ms(49'999) + 999us) == 1ms);
}

TEST_CASE("the next window is the first open one behind, if numbers were skipped, too") {
    v1::StreamState state;
    state.set_op(v1::OPERATOR_SUM);
    for (const std::uint64_t number : {std::uint64_t{9}, std::uint64_t{5}}) {
        v1::OpenWindow& window = *state.add_windows();
        window.set_number(number);
        window.set_begins_ms(number * 1000);
    }
    const auto view = view_from_proto(state);
    REQUIRE(view.ok());
    CHECK(view->next(0)->number == 5);
    CHECK(view->next(5)->number == 9);
    CHECK(view->next(9) == nullptr);
    CHECK(view->find(9)->begins_ms == 9000);
    CHECK(view->find(7) == nullptr);
}

TEST_CASE("what lasts is said, once a deadline, and that it is over") {
    Trouble trouble(30s);
    const auto begin = Trouble::Clock::now();
    CHECK_FALSE(trouble.note("", begin));
    CHECK_FALSE(trouble.note("h3 is away", begin));
    CHECK_FALSE(trouble.note("h3 is away", begin + 4s));
    CHECK_FALSE(trouble.note("", begin + 4s));
    CHECK_FALSE(trouble.note("h3 is away", begin + 5s));
    CHECK(trouble.note("h3 is away", begin + 10s) == "h3 is away");
    CHECK_FALSE(trouble.note("h3 is away", begin + 39s));
    CHECK(trouble.note("h3 is away", begin + 40s) == "h3 is away");
    CHECK(trouble.note("", begin + 41s) == "the stream goes on");
    CHECK_FALSE(trouble.note("", begin + 42s));
}

v1::LocalReply window_due(std::uint64_t number, bool empty) {
    v1::LocalReply reply;
    v1::WindowDue& due = *reply.mutable_window_due();
    due.set_number(number);
    due.set_begins_ms(number * 1000);
    due.set_empty(empty);
    due.set_task_id("web-w" + std::to_string(number));
    return reply;
}

TEST_CASE("a receiver says what it has, and hears what is due") {
    const FakeAgent agent([](LocalSocket& client, const v1::LocalRequest& opening) {
        const v1::OpenStream& open = opening.open_stream();
        CHECK(open.name() == "web");
        CHECK(open.every_ms() == 60'000);
        CHECK(open.nonce() == 17);
        CHECK(open.committed() == 41);
        REQUIRE(open.members_size() == 1);
        CHECK(open.members(0).member() == 7);
        CHECK(open.members(0).last() == 50);
        CHECK(open.token() == "secret");
        CHECK(open.window().op() == v1::OPERATOR_MAX);
        v1::LocalReply reply;
        reply.mutable_stream_open();
        test::say(client, reply);
        v1::LocalReply comes;
        comes.mutable_member_comes()->mutable_member()->set_member(8);
        comes.mutable_member_comes()->mutable_member()->set_first(42);
        test::say(client, comes);
        const auto noted = test::hear(client);
        CHECK(noted.member_noted().member() == 8);
        CHECK(noted.member_noted().first() == 42);
        test::say_progress(client, 0);
        test::say(client, window_due(42, true));
        CHECK(test::hear(client).empty_taken().number() == 42);
        CHECK(test::hear(client).has_finish_stream());
        v1::LocalReply ended;
        ended.mutable_stream_ended();
        test::say(client, ended);
        CHECK(test::hears_the_end(client));
    });
    StreamReceiveOptions options;
    options.agent = agent.socket();
    options.name = "web";
    options.every = 60s;
    options.nonce = 17;
    options.committed = 41;
    options.members = {{.member = 7, .name = "h1", .first = 40, .last = 50, .lost = false}};
    options.window.op = TaskOp::kMax;
    options.window.token = "secret";
    auto stream = StreamReceiver::open(options);
    REQUIRE(stream.ok());
    auto event = stream->next_or(-1);
    REQUIRE(event.ok());
    const auto* const member = std::get_if<StreamMember>(&**event);
    REQUIRE(member != nullptr);
    CHECK(stream->noted(*member).ok());
    event = stream->next_or(-1);
    REQUIRE(event.ok());
    const auto* const window = std::get_if<StreamWindow>(&**event);
    REQUIRE(window != nullptr);
    CHECK(window->number == 42);
    CHECK(window->begins_ms == 42'000);
    CHECK(window->empty);
    CHECK(stream->empty_taken(42).ok());
    // What else the caller waits for comes first while nothing is said.
    const UniqueFd other(::eventfd(1, EFD_CLOEXEC));
    event = stream->next_or(other.get());
    REQUIRE(event.ok());
    CHECK_FALSE(event->has_value());
    CHECK(stream->finish().ok());
    event = stream->next_or(-1);
    REQUIRE(event.ok());
    CHECK(std::holds_alternative<StreamEnded>(**event));
}

TEST_CASE("names of streams leave room for their windows'") {
    CHECK(StreamReceiver::open({.name = "no/name"}).error().code() == Errc::kUsage);
    CHECK(StreamReceiver::open({.name = std::string(41, 'x')}).error().code() == Errc::kUsage);
    CHECK(StreamSender::open({.name = std::string(41, 'x'), .to = "h4"}).error().code() == Errc::kUsage);
    CHECK(StreamSender::open({.name = "web"}).error().code() == Errc::kUsage);
}

}  // namespace
}  // namespace ask
