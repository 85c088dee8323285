// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <map>
#include <random>

#include <doctest/doctest.h>

#include "lib/client/mean.h"
#include "lib/client/receive_session.h"
#include "lib/client/send_session.h"
#include "tests/unit/client/fake_agent.h"

namespace ask {
namespace {

using namespace std::chrono_literals;
using namespace client;
using test::FakeAgent;

constexpr int kSealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
constexpr int kWaitMs = 20'000;

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

void say_send_ready(LocalSocket& client, const TupleRingConsumer& ring, v1::Operator op) {
    v1::LocalReply reply;
    reply.mutable_send_ready()->set_op(op);
    reply.mutable_send_ready()->set_ring_bytes(ring.bytes());
    test::say(client, reply, ring.application_fds());
}

TupleRingConsumer make_ring() {
    auto ring = TupleRingConsumer::create(256 * 1024);
    REQUIRE(ring.ok());
    return *std::move(ring);
}

// Takes tuples out of the ring until `client` says something.
std::map<std::string, std::int64_t> take_until_request(TupleRingConsumer& ring, const LocalSocket& client) {
    std::map<std::string, std::int64_t> sums;
    for (;;) {
        std::string_view key;
        std::int64_t value = 0;
        auto got = ring.peek(key, value);
        REQUIRE(got.ok());
        if (*got) {
            sums[std::string(key)] += value;
            ring.pop();
            continue;
        }
        ring.release();
        std::array<pollfd, 2> polls{pollfd{ring.data_event(), POLLIN, 0}, pollfd{client.fd(), POLLIN, 0}};
        if (!ring.arm() && ::poll(polls.data(), polls.size(), kWaitMs) > 0 && polls[1].revents != 0 &&
            !ring.has_data()) {
            return sums;
        }
    }
}

SendOptions send_options(const FakeAgent& agent) {
    return {.agent = agent.socket(), .task = "wordcount", .to = "h4", .deadline = 20s};
}
ReceiveOptions receive_options(const FakeAgent& agent) {
    ReceiveOptions options;
    options.agent = "unix:" + agent.socket();
    options.task = "wordcount";
    options.senders = 2;
    options.deadline = 20s;
    return options;
}

TEST_CASE("a send hands over every tuple and reports what became of them") {
    std::map<std::string, std::int64_t> seen;
    v1::LocalRequest opened;
    {
        FakeAgent agent([&](LocalSocket& client, const v1::LocalRequest& opening) {
            opened = opening;
            auto ring = make_ring();
            test::say_progress(client, 0);
            say_send_ready(client, ring, v1::OPERATOR_SUM);
            seen = take_until_request(ring, client);
            CHECK(test::hear(client).has_finish_send());
            test::say_progress(client, 7);
            v1::LocalReply done;
            done.mutable_done()->set_seconds(1.5);
            v1::FlowStats& stats = *done.mutable_done()->mutable_stats();
            stats.set_tuples_in(300'000);
            stats.set_tuples_merged(100'000);
            stats.set_tuples_sent(200'000);
            stats.set_tuples_switch(150'000);
            stats.set_tuples_collision(10'000);
            stats.set_tuples_data(30'000);
            stats.set_tuples_long(20'000);
            test::say(client, done);
            CHECK(test::hears_the_end(client));
        });
        SendOptions options = send_options(agent);
        options.merge_window = 0;
        options.max_rate = 2'500'000;
        std::uint64_t reported = 0;
        options.on_progress = [&reported](const TaskProgress& now) { reported = now.stats.tuples_in; };
        auto session = SendSession::open(options);
        REQUIRE(session.ok());
        CHECK(session->op() == TaskOp::kSum);
        // Several times what the ring holds.
        for (int i = 0; i < 300'000; ++i) {
            REQUIRE(session->send("key" + std::to_string(i % 100), i).ok());
        }
        auto stats = session->finish();
        REQUIRE(stats.ok());
        CHECK(reported == 7);
        CHECK(stats->seconds == 1.5);
        CHECK(stats->tuples_receiver.collision == 10'000);
        CHECK(stats->tuples_receiver.no_region == 20'000);
        CHECK(stats->tuples_receiver.long_key == 20'000);
        CHECK(stats->tuples_in == stats->tuples_merged + stats->tuples_sent);
        CHECK(stats->tuples_sent == stats->tuples_switch + stats->tuples_receiver.total());
    }
    CHECK(opened.open_send().task_id() == "wordcount");
    CHECK(opened.open_send().to() == "h4");
    CHECK(opened.open_send().max_rate() == 2'500'000);
    CHECK(opened.open_send().deadline_ms() == 20'000);
    REQUIRE(seen.size() == 100);
    CHECK(seen["key7"] == 3000 * 7 + 100LL * 3000 * 2999 / 2);
}

TEST_CASE("counting makes every value 1, by flag or by the task's operator") {
    bool by_flag = false;
    SUBCASE("by flag") {
        by_flag = true;
    }
    SUBCASE("by operator") {
        by_flag = false;
    }
    std::map<std::string, std::int64_t> seen;
    {
        FakeAgent agent([&](LocalSocket& client, const v1::LocalRequest& opening) {
            CHECK(opening.open_send().as_count() == by_flag);
            auto ring = make_ring();
            say_send_ready(client, ring, by_flag ? v1::OPERATOR_SUM : v1::OPERATOR_COUNT);
            seen = take_until_request(ring, client);
            static_cast<void>(test::hear(client));
            v1::LocalReply done;
            done.mutable_done();
            test::say(client, done);
        });
        SendOptions options = send_options(agent);
        options.as_count = by_flag;
        auto session = SendSession::open(options);
        REQUIRE(session.ok());
        REQUIRE(session->send("a", 1000).ok());
        REQUIRE(session->send("a", -5).ok());
        REQUIRE(session->finish().ok());
    }
    CHECK(seen["a"] == 2);
}

TEST_CASE("of a mean a sum and a count of each tuple are handed in, whatever the key ends in") {
    bool by_flag = false;
    bool partial = false;
    std::map<std::string, std::int64_t> want;
    SUBCASE("as they are") {
        want = {{"a", 995}, {"a#", 2}, {"", 3}, {"#", 1}, {"a#+", 4}, {"a##", 1}, {"++", 5}, {"+#", 1}};
    }
    SUBCASE("as ones") {
        by_flag = true;
        want = {{"a", 2}, {"a#", 2}, {"", 1}, {"#", 1}, {"a#+", 1}, {"a##", 1}, {"++", 1}, {"+#", 1}};
    }
    SUBCASE("but of what is partial, which has both already") {
        partial = true;
        want = {{"a", 995}, {"", 3}, {"a#", 4}, {"+", 5}};
    }
    std::map<std::string, std::int64_t> seen;
    {
        FakeAgent agent([&](LocalSocket& client, const v1::LocalRequest&) {
            auto ring = make_ring();
            say_send_ready(client, ring, v1::OPERATOR_MEAN);
            seen = take_until_request(ring, client);
            static_cast<void>(test::hear(client));
            v1::LocalReply done;
            done.mutable_done();
            test::say(client, done);
        });
        SendOptions options = send_options(agent);
        options.as_count = by_flag;
        options.partial = partial;
        auto session = SendSession::open(options);
        REQUIRE(session.ok());
        const std::vector<Tuple> tuples{{"a", 1000}, {"", 3}, {"a#", 4}, {"+", 5}};
        REQUIRE(session->send(tuples).ok());
        REQUIRE(session->send("a", -5).ok());
        const std::string longest(kMaxMeanKey + 1, 'x');
        CHECK(session->send(longest, 1).ok() == partial);
        if (partial) {
            want[longest] = 1;
        } else {
            CHECK(session->send(longest, 1).error().text() ==
                  "a key of 65535 bytes; the limit is 65534 in a task of means");
        }
        REQUIRE(session->finish().ok());
    }
    CHECK(seen == want);
}

TEST_CASE("the keys of sums and counts lead back to theirs, and no two are the same") {
    std::map<std::string, std::string> from;
    std::vector<std::string> keys{""};
    for (std::size_t at = 0; at < keys.size() && keys[at].size() < 4; ++at) {
        for (const char c : {'a', '#', '+'}) {
            keys.push_back(keys[at] + c);
        }
    }
    for (const std::string& key : keys) {
        for (const MeanPart part : {MeanPart::kSum, MeanPart::kCount}) {
            const std::string of = mean_key(key, part);
            CHECK(from.emplace(of, key).second);
            CHECK(mean_key(of).key == key);
            CHECK(mean_key(of).part == part);
        }
    }
}

TEST_CASE("what the agent reports as failed is the error, with its class") {
    SUBCASE("when opening") {
        FakeAgent agent([](LocalSocket& client, const v1::LocalRequest&) {
            test::say_failed(client, Errc::kUnknown, "no task wordcount at h4");
        });
        auto session = SendSession::open(send_options(agent));
        REQUIRE_FALSE(session.ok());
        CHECK(session.error().code() == Errc::kUnknown);
        CHECK(session.error().text() == "no task wordcount at h4");
    }
    SUBCASE("while the ring is full") {
        FakeAgent agent([](LocalSocket& client, const v1::LocalRequest&) {
            auto ring = make_ring();
            say_send_ready(client, ring, v1::OPERATOR_SUM);
            // Full once the producer waits for space.
            pollfd data{ring.data_event(), POLLIN, 0};
            CHECK((ring.arm() || ::poll(&data, 1, kWaitMs) == 1));
            test::say_failed(client, Errc::kAborted, "receiver h4: task wordcount was cancelled");
            CHECK(test::hears_the_end(client));
        });
        auto session = SendSession::open(send_options(agent));
        REQUIRE(session.ok());
        Result<> sent;
        for (int i = 0; i < 10'000'000 && sent.ok(); ++i) {
            sent = session->send("some key", i);
        }
        REQUIRE_FALSE(sent.ok());
        CHECK(sent.error().code() == Errc::kAborted);
        CHECK(has(sent.error().text(), "was cancelled"));
        session = Error(Errc::kAborted, "closed");
    }
    SUBCASE("a class that does not exist") {
        FakeAgent agent([](LocalSocket& client, const v1::LocalRequest&) {
            v1::LocalReply reply;
            reply.mutable_failed()->set_code(0);
            reply.mutable_failed()->set_error("odd\x1b[2J\nask-send: sent");
            test::say(client, reply);
        });
        auto session = ReceiveSession::open(receive_options(agent));
        REQUIRE_FALSE(session.ok());
        CHECK(session.error().code() == Errc::kInternal);
        CHECK(has(session.error().text(), "odd\\x1b[2J\\x0aask-send: sent"));
    }
}

TEST_CASE("an agent that dies is named, whenever it dies") {
    SUBCASE("before it answers") {
        FakeAgent agent([](LocalSocket&, const v1::LocalRequest&) {});
        auto session = SendSession::open(send_options(agent));
        REQUIRE_FALSE(session.ok());
        CHECK(session.error().code() == Errc::kUnavailable);
        CHECK(has(session.error().text(), agent.socket()));
    }
    SUBCASE("while tuples stream") {
        FakeAgent agent([](LocalSocket& client, const v1::LocalRequest&) {
            auto ring = make_ring();
            say_send_ready(client, ring, v1::OPERATOR_SUM);
        });
        auto session = SendSession::open(send_options(agent));
        REQUIRE(session.ok());
        Result<> sent;
        for (int i = 0; i < 10'000'000 && sent.ok(); ++i) {
            sent = session->send("some key", i);
        }
        REQUIRE_FALSE(sent.ok());
        CHECK(sent.error().code() == Errc::kUnavailable);
        CHECK(has(sent.error().text(), "went away"));
    }
    SUBCASE("while a receiver waits") {
        FakeAgent agent([](LocalSocket& client, const v1::LocalRequest&) {
            v1::LocalReply reply;
            reply.mutable_receive_ready();
            test::say(client, reply);
        });
        auto session = ReceiveSession::open(receive_options(agent));
        REQUIRE(session.ok());
        auto result = session->wait();
        REQUIRE_FALSE(result.ok());
        CHECK(result.error().code() == Errc::kUnavailable);
    }
}

TEST_CASE("no agent and no permission say what to do") {
    SendOptions options{.agent = "/nonexistent/agent.sock", .task = "t", .to = "h"};
    auto session = SendSession::open(options);
    REQUIRE_FALSE(session.ok());
    CHECK(session.error().code() == Errc::kUnavailable);
    CHECK(has(session.error().text(), "/nonexistent/agent.sock"));
    CHECK(has(session.error().text(), "start ask-agentd"));
}

TEST_CASE("a cancel descriptor ends waits, and the agent sees the connection close") {
    const UniqueFd cancel(::eventfd(0, EFD_CLOEXEC));
    FakeAgent agent([&cancel](LocalSocket& client, const v1::LocalRequest&) {
        v1::LocalReply reply;
        reply.mutable_receive_ready();
        test::say(client, reply);
        CHECK(::eventfd_write(cancel.get(), 1) == 0);
        CHECK(test::hears_the_end(client));
    });
    ReceiveOptions options = receive_options(agent);
    options.cancel_fd = cancel.get();
    auto session = ReceiveSession::open(options);
    // The descriptor may already be readable while open() waits.
    auto result = session.ok() ? session->wait() : Result<ReceiveResult>(std::move(session).error());
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().code() == Errc::kAborted);
}

TEST_CASE(
    "a session's end waits until the agent has let go, if it is told to, and no longer than it is told") {
    std::atomic<bool> over = false;
    const UniqueFd may_end(::eventfd(0, EFD_CLOEXEC));
    FakeAgent agent(
        [&](LocalSocket& client, const v1::LocalRequest& opening) {
            v1::LocalReply reply;
            reply.mutable_receive_ready();
            test::say(client, reply);
            CHECK(test::hears_the_end(client));
            // Whatever it says of it is nobody's concern.
            test::say_failed(client, Errc::kAborted, "its application has gone");
            if (opening.open_receive().task_id() == "held") {
                CHECK(wait_fd(may_end.get(), POLLIN, std::chrono::seconds(60)).ok());
            }
            over = true;
        },
        2);
    ReceiveOptions options = receive_options(agent);
    options.let_go = std::chrono::seconds(60);
    {
        auto session = ReceiveSession::open(options);
        REQUIRE(session.ok());
        auto other = *std::move(session);  // one end, not two
        CHECK_FALSE(over);
    }
    CHECK(over);
    over = false;
    options.task = "held";
    options.let_go = std::chrono::milliseconds(20);
    REQUIRE(ReceiveSession::open(options).ok());
    CHECK_FALSE(over);
    CHECK(::eventfd_write(may_end.get(), 1) == 0);
}

TEST_CASE("waiting for input ends when the task fails meanwhile") {
    std::array<int, 2> silent{-1, -1};
    REQUIRE(::pipe2(silent.data(), O_CLOEXEC) == 0);
    const UniqueFd read_end(silent[0]);
    const UniqueFd write_end(silent[1]);
    std::int64_t seen = 0;
    {
        FakeAgent agent([&seen](LocalSocket& client, const v1::LocalRequest&) {
            auto ring = make_ring();
            say_send_ready(client, ring, v1::OPERATOR_SUM);
            pollfd data{ring.data_event(), POLLIN, 0};
            CHECK((ring.arm() || ::poll(&data, 1, kWaitMs) == 1));
            std::string_view key;
            CHECK(ring.peek(key, seen).ok());
            test::say_failed(client, Errc::kDeadline, "only 1 of 2 senders joined");
            CHECK(test::hears_the_end(client));
        });
        auto session = SendSession::open(send_options(agent));
        REQUIRE(session.ok());
        REQUIRE(session->send("a", 41).ok());
        auto ready = session->wait_for_input(read_end.get());
        REQUIRE_FALSE(ready.ok());
        CHECK(ready.error().code() == Errc::kDeadline);
    }
    CHECK(seen == 41);
}

TEST_CASE("bad requests never reach an agent") {
    CHECK(SendSession::open({.task = "a/b", .to = "h"}).error().code() == Errc::kUsage);
    CHECK(SendSession::open({.task = "", .to = "h"}).error().code() == Errc::kUsage);
    CHECK(SendSession::open({.task = std::string(64, 'a'), .to = "h"}).error().code() == Errc::kUsage);
    CHECK(SendSession::open({.task = "t", .to = ""}).error().code() == Errc::kUsage);
    CHECK(SendSession::open({.task = "t", .to = "h", .deadline = 0ms}).error().code() == Errc::kUsage);
    ReceiveOptions options;
    options.task = "t";
    options.senders = 0;
    CHECK(ReceiveSession::open(options).error().code() == Errc::kUsage);
    options.senders = 1;
    options.no_switch = options.require_region = true;
    CHECK(ReceiveSession::open(options).error().code() == Errc::kUsage);
    options.require_region = false;
    options.geometry = Geometry{33, 0, 0, 1};
    CHECK_FALSE(ReceiveSession::open(options).ok());
}

// Random keys of awkward lengths, some with zero bytes, many sharing their first eight bytes.
std::map<std::string, std::int64_t> random_tuples(std::size_t count) {
    std::mt19937_64 random(3);
    std::map<std::string, std::int64_t> tuples = {
        {"", 1}, {std::string("a\0", 2), 2}, {"a", 3}, {"\xff", -4}};
    while (tuples.size() < count) {
        std::string key = random() % 2 == 0 ? "prefix--" : "";
        for (std::uint64_t i = random() % 12; i > 0; --i) {
            key += static_cast<char>(random() % 3 == 0 ? 0 : random());
        }
        tuples[key] = static_cast<std::int64_t>(random());
    }
    return tuples;
}

TEST_CASE("a receive takes the whole table, sorted by the keys' bytes") {
    const auto want = random_tuples(20'000);
    v1::LocalRequest opened;
    {
        FakeAgent agent([&](LocalSocket& client, const v1::LocalRequest& opening) {
            opened = opening;
            v1::LocalReply ready;
            ready.mutable_receive_ready()->set_instance(9);
            ready.mutable_receive_ready()->set_aggregators(1024);
            ready.mutable_receive_ready()->set_note("a note");
            test::say(client, ready);
            test::say_progress(client, 1);
            const auto table = test::share_table({want.begin(), want.end()}, kSealed);
            v1::LocalReply done;
            done.mutable_done()->set_fetched(5);
            done.mutable_done()->add_sender_names("h1");
            done.mutable_done()->add_per_sender()->set_tuples_in(17);
            const std::array<int, 2> fds{table.slots.get(), table.keys.get()};
            test::say(client, done, fds);
        });
        ReceiveOptions options = receive_options(agent);
        options.op = TaskOp::kMax;
        options.geometry = Geometry{8, 4, 4, 2};
        options.aggregators = 4096;
        auto session = ReceiveSession::open(options);
        REQUIRE(session.ok());
        CHECK(session->info().instance == 9);
        CHECK(session->info().aggregators == 1024);
        CHECK(session->info().note == "a note");
        auto result = session->wait();
        REQUIRE(result.ok());
        CHECK(result->report.fetched == 5);
        REQUIRE(result->report.senders.size() == 1);
        CHECK(result->report.senders[0].name == "h1");
        CHECK(result->report.senders[0].stats.tuples_in == 17);
        CHECK(result->table.size() == want.size());
        auto expected = want.begin();
        auto walked = result->table.each_sorted([&](std::string_view key, std::int64_t value) {
            const bool same = expected != want.end() && key == expected->first && value == expected->second;
            ++expected;
            return same ? Result<>() : Result<>(Error(Errc::kInternal, "differs"));
        });
        CHECK(walked.ok());
        CHECK(expected == want.end());
    }
    CHECK(opened.open_receive().op() == v1::OPERATOR_MAX);
    CHECK(opened.open_receive().senders() == 2);
    CHECK(opened.open_receive().geometry().m() == 4);
    CHECK(opened.open_receive().aggregators() == 4096);
}

// An agent that has handed out a result.
void say_result(LocalSocket& client) {
    v1::LocalReply ready;
    ready.mutable_receive_ready();
    test::say(client, ready);
    const auto table = test::share_table({{"a", 1}}, kSealed);
    v1::LocalReply done;
    done.mutable_done()->set_keep_seconds(60);
    const std::array<int, 2> fds{table.slots.get(), table.keys.get()};
    test::say(client, done, fds);
}

TEST_CASE("a result is confirmed when its application says so, and not before") {
    SUBCASE("confirmed") {
        FakeAgent agent([](LocalSocket& client, const v1::LocalRequest&) {
            say_result(client);
            CHECK(test::hear(client).has_taking());
            CHECK(test::hear(client).has_taken());
            v1::LocalReply confirmed;
            confirmed.mutable_confirmed();
            test::say(client, confirmed);
            CHECK(test::hears_the_end(client));
        });
        auto session = ReceiveSession::open(receive_options(agent));
        REQUIRE(session.ok());
        auto result = session->wait();
        REQUIRE(result.ok());
        CHECK(result->report.kept_for == 60s);
        // However often, it is not said more than now and then.
        session->taking();
        session->taking();
        CHECK(session->confirm().ok());
        session = Error(Errc::kAborted, "closed");
    }
    SUBCASE("not confirmed") {
        FakeAgent agent([](LocalSocket& client, const v1::LocalRequest&) {
            say_result(client);
            CHECK(test::hears_the_end(client));
        });
        auto session = ReceiveSession::open(receive_options(agent));
        REQUIRE(session.ok());
        REQUIRE(session->wait().ok());
        session = Error(Errc::kAborted, "closed");
    }
    SUBCASE("too late") {
        FakeAgent agent([](LocalSocket& client, const v1::LocalRequest&) {
            say_result(client);
            test::say_failed(client, Errc::kNotTaken, "kept at h4");
        });
        auto session = ReceiveSession::open(receive_options(agent));
        REQUIRE(session.ok());
        REQUIRE(session->wait().ok());
        CHECK(session->confirm().error().code() == Errc::kNotTaken);
    }
    SUBCASE("the agent has died") {
        FakeAgent agent([](LocalSocket& client, const v1::LocalRequest&) { say_result(client); });
        auto session = ReceiveSession::open(receive_options(agent));
        REQUIRE(session.ok());
        REQUIRE(session->wait().ok());
        CHECK(session->confirm().error().code() == Errc::kUnavailable);
    }
}

TEST_CASE("a kept result is asked for by its id alone") {
    v1::LocalRequest opened;
    {
        FakeAgent agent([&opened](LocalSocket& client, const v1::LocalRequest& opening) {
            opened = opening;
            say_result(client);
        });
        ReceiveOptions options = receive_options(agent);
        options.again = true;
        auto session = ReceiveSession::open(options);
        REQUIRE(session.ok());
        CHECK(session->wait().ok());
    }
    REQUIRE(opened.has_open_again());
    CHECK(opened.open_again().task_id() == "wordcount");
    CHECK(opened.open_again().deadline_ms() == 20'000);
}

TEST_CASE("a receive is open before it is known what it gets, and that is said once it is") {
    v1::LocalRequest opened;
    bool geometry_given = false;
    SUBCASE("by default") {}
    SUBCASE("the default geometry") {
        geometry_given = true;
    }
    std::uint64_t told = 0;
    {
        FakeAgent agent([&](LocalSocket& client, const v1::LocalRequest& opening) {
            opened = opening;
            v1::LocalReply accepted;
            accepted.mutable_receive_accepted();
            test::say(client, accepted);
            test::say_progress(client, 1);
            v1::LocalReply ready;
            ready.mutable_receive_ready()->set_instance(9);
            ready.mutable_receive_ready()->set_no_memory(true);
            test::say(client, ready);
            const auto table = test::share_table({{"a", 1}}, kSealed);
            v1::LocalReply done;
            done.mutable_done();
            const std::array<int, 2> fds{table.slots.get(), table.keys.get()};
            test::say(client, done, fds);
        });
        ReceiveOptions options = receive_options(agent);
        options.default_geometry = geometry_given;
        options.on_open = [&told](const ReceiveInfo& info) { told = info.instance; };
        auto session = ReceiveSession::open(options);
        REQUIRE(session.ok());
        CHECK(session->info().instance == 0);
        CHECK(told == 0);
        REQUIRE(session->wait().ok());
        CHECK(session->info().no_memory);
        CHECK(told == 9);
    }
    CHECK(opened.open_receive().auto_geometry() == !geometry_given);
    CHECK_FALSE(opened.open_receive().has_geometry());
}

TEST_CASE("a receive begins again whatever it has heard of its task before") {
    bool accepted = false;
    SUBCASE("nothing") {}
    SUBCASE("that it is taken") {
        accepted = true;
    }
    std::vector<std::size_t> relays;
    std::vector<std::string> reasons;
    {
        FakeAgent agent(
            [&](LocalSocket& client, const v1::LocalRequest& opening) {
                v1::LocalReply reply;
                if (accepted) {
                    reply.mutable_receive_accepted();
                    test::say(client, reply);
                }
                relays.push_back(static_cast<std::size_t>(opening.open_receive().placement().relays_size()));
                if (relays.back() > 0) {
                    const std::string first = opening.open_receive().placement().relays(0).name();
                    reply.mutable_failed()->set_code(static_cast<int>(Errc::kRunAgain));
                    reply.mutable_failed()->set_error(first + " has no room");
                    reply.mutable_failed()->add_lost_relays(first);
                } else {
                    CHECK(opening.open_receive().no_switch());
                    reply.mutable_receive_ready();
                }
                test::say(client, reply);
            },
            3);
        ReceiveOptions options = receive_options(agent);
        options.placement =
            Placement{.relays = {{.name = "s1", .address = "192.0.2.1:4793", .parent = ""},
                                 {.name = "s2", .address = "192.0.2.2:4793", .parent = ""},
                                 {.name = "s3", .address = "192.0.2.3:4793", .parent = ""}},
                      .hosts = {{.name = "h1", .address = "192.0.2.4", .sends = 2, .entry = "s1"}}};
        options.on_run_again = [&reasons](const Error& why) { reasons.push_back(why.text()); };
        auto session = ReceiveSession::open(options);
        REQUIRE(session.ok());
        // The agent of the last run goes away.
        CHECK(session->wait().error().code() == Errc::kUnavailable);
    }
    CHECK(relays == std::vector<std::size_t>{3, 2, 0});
    CHECK(reasons == std::vector<std::string>{"s1 has no room", "s2 has no room"});
}

TEST_CASE("a table that may still change, or is none, is refused") {
    int seals = kSealed;
    bool break_it = false;
    SUBCASE("not sealed against writing") {
        seals = F_SEAL_SHRINK | F_SEAL_GROW;
    }
    SUBCASE("not sealed against shrinking") {
        seals = F_SEAL_GROW | F_SEAL_WRITE;
    }
    SUBCASE("not a table") {
        break_it = true;
    }
    FakeAgent agent([&](LocalSocket& client, const v1::LocalRequest&) {
        v1::LocalReply ready;
        ready.mutable_receive_ready();
        test::say(client, ready);
        const auto table = test::share_table({{"a", 1}}, seals);
        v1::LocalReply done;
        done.mutable_done();
        const int second = break_it ? table.slots.get() : table.keys.get();
        const std::array<int, 2> fds{break_it ? table.keys.get() : table.slots.get(), second};
        test::say(client, done, fds);
    });
    auto session = ReceiveSession::open(receive_options(agent));
    REQUIRE(session.ok());
    auto result = session->wait();
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().code() == Errc::kInput);
}

TEST_CASE("an empty result is a result") {
    FakeAgent agent([](LocalSocket& client, const v1::LocalRequest&) {
        v1::LocalReply ready;
        ready.mutable_receive_ready();
        test::say(client, ready);
        const auto table = test::share_table({}, kSealed);
        v1::LocalReply done;
        done.mutable_done();
        const std::array<int, 2> fds{table.slots.get(), table.keys.get()};
        test::say(client, done, fds);
    });
    auto session = ReceiveSession::open(receive_options(agent));
    REQUIRE(session.ok());
    auto result = session->wait();
    REQUIRE(result.ok());
    CHECK(result->table.size() == 0);
    CHECK(result->table
              .each_sorted([](std::string_view, std::int64_t) {
                  return Result<>(Error(Errc::kInternal, "no tuple was expected"));
              })
              .ok());
}

TEST_CASE("where the agent is") {
    ::unsetenv("ASK_AGENT");
    CHECK(agent_socket_path() == "/run/ask/agent.sock");
    ::setenv("ASK_AGENT", "unix:/tmp/x", 1);
    CHECK(agent_socket_path() == "/tmp/x");
    CHECK(agent_socket_path("/tmp/y") == "/tmp/y");
    ::unsetenv("ASK_AGENT");
}

TEST_CASE("operators have names") {
    for (const TaskOp op : {TaskOp::kSum, TaskOp::kCount, TaskOp::kMean, TaskOp::kMin, TaskOp::kMax}) {
        CHECK(parse_task_op(to_string(op)) == op);
    }
    CHECK_FALSE(parse_task_op("avg"));
}

}  // namespace
}  // namespace ask
