// SPDX-License-Identifier: Apache-2.0
//
// A member of a stream against an agent that plays the stream: windows open, end and fail as a test says.
#include "lib/client/stream_send.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "lib/abi/consts.h"
#include "lib/base/event_fd.h"
#include "lib/client/stream_follower.h"
#include "lib/client/tuple_ring.h"
#include "tests/unit/client/fake_agent.h"

namespace ask {
namespace {

using namespace std::chrono_literals;
using namespace client;
using Sums = std::map<std::string, std::int64_t>;

constexpr Milliseconds kLong{20'000};

std::uint64_t wall_ms() {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                          std::chrono::system_clock::now().time_since_epoch())
                                          .count());
}

// Both ends of a stream: what its member's agent would say, and what has come in runs of its windows.
class FakeStream {
 public:
    FakeStream() {
        dir_ = std::filesystem::temp_directory_path() / "ask-stream-XXXXXX";
        REQUIRE(::mkdtemp(dir_.data()) != nullptr);
        auto made = LocalListener::listen(dir_ + "/agent.sock", ::getgid());
        REQUIRE(made.ok());
        state_.set_nonce(5);
        state_.set_op(v1::OPERATOR_SUM);
        accepting_ = std::thread([this, listener = *std::move(made)]() mutable { accept(listener); });
    }
    FakeStream(const FakeStream&) = delete;
    FakeStream& operator=(const FakeStream&) = delete;
    ~FakeStream() {
        stop_.notify();
        accepting_.join();
        for (std::thread& each : connections_) {
            each.join();
        }
        std::filesystem::remove_all(dir_);
    }

    [[nodiscard]] StreamSendOptions options() const {
        StreamSendOptions options;
        options.agent = dir_ + "/agent.sock";
        options.name = "web";
        options.to = "h4";
        options.deadline = kLong;
        return options;
    }
    // Says a changed state to the member.
    template <typename Change>
    void say(Change&& change) {
        const std::lock_guard lock(mutex_);
        change(state_);
        ++version_;
    }
    void open(std::uint64_t number, std::uint64_t begins_ms, std::uint64_t instance) {
        say([&](v1::StreamState& state) {
            v1::OpenWindow& window = *state.add_windows();
            window.set_number(number);
            window.set_begins_ms(begins_ms);
            window.set_task_id("web-w" + std::to_string(number));
            window.set_instance(instance);
        });
    }
    // All of a window's run has come, and is where it stays.
    void commit(std::uint64_t number) {
        wait([&] { return ended_.contains(number); });
        say([&](v1::StreamState& state) {
            state.set_committed(number);
            auto& windows = *state.mutable_windows();
            const auto gone =
                std::remove_if(windows.begin(), windows.end(),
                               [number](const v1::OpenWindow& window) { return window.number() == number; });
            windows.erase(gone, windows.end());
            done_.insert(number);
        });
    }
    // Its run is over, and the next one is `instance`.
    void fail(std::uint64_t number, std::uint64_t instance) {
        say([&](v1::StreamState& state) {
            failing_.insert(number);
            for (v1::OpenWindow& window : *state.mutable_windows()) {
                if (window.number() == number) {
                    window.set_instance(instance);
                }
            }
        });
    }
    // A run's session hears that all is well, while the stream says nothing of its window.
    void tell_done(std::uint64_t number) {
        wait([&] { return ended_.contains(number); });
        {
            const std::lock_guard lock(mutex_);
            done_.insert(number);
        }
        wait([&] { return told_.contains(number); });
        const std::lock_guard lock(mutex_);
        done_.erase(number);
        ended_.erase(number);
    }
    [[nodiscard]] bool has_ended(std::uint64_t number) {
        const std::lock_guard lock(mutex_);
        return ended_.contains(number);
    }
    template <typename Is>
    void wait(Is&& is, const std::function<void()>& meanwhile = [] {}) {
        const auto until = std::chrono::steady_clock::now() + kLong;
        for (;;) {
            {
                const std::lock_guard lock(mutex_);
                if (is()) {
                    return;
                }
            }
            REQUIRE(std::chrono::steady_clock::now() < until);
            meanwhile();
            std::this_thread::sleep_for(2ms);  // between two looks
        }
    }
    // Under wait()'s lock.
    std::map<std::uint64_t, Sums> sums_;  // of each window's last run
    std::map<std::uint64_t, int> runs_;
    std::vector<std::uint64_t> keeps_;
    bool leaves_ = false;
    std::uint64_t member_ = 0;
    std::uint64_t committed_ = 0;  // as the member says

 private:
    void accept(LocalListener& listener) {
        for (;;) {
            const auto comes = wait_fd(listener.fd(), POLLIN, kLong, stop_.fd());
            if (!comes || !*comes) {
                return;
            }
            auto client = listener.accept();
            if (client.ok() && *client) {
                connections_.emplace_back(
                    [this, socket = *std::move(client)]() mutable { serve(std::move(socket)); });
            }
        }
    }
    void serve(LocalSocket client) {
        v1::LocalRequest opening;
        if (!client.receive(opening, nullptr, kLong, stop_.fd())) {
            return;
        }
        if (opening.has_follow_stream()) {
            follow(client, opening);
        } else if (opening.has_open_send()) {
            take(client, opening.open_send().window());
        }
    }
    void hear(const v1::LocalRequest& request) {
        const std::lock_guard lock(mutex_);
        const v1::FollowStream& follow = request.follow_stream();
        keeps_.assign(follow.keeps().begin(), follow.keeps().end());
        leaves_ = leaves_ || follow.leaves();
        member_ = follow.member();
        committed_ = follow.committed();
    }
    void follow(LocalSocket& client, const v1::LocalRequest& opening) {
        hear(opening);
        std::uint64_t said = 0;
        for (;;) {
            v1::LocalReply reply;
            {
                const std::lock_guard lock(mutex_);
                if (said != version_) {
                    *reply.mutable_stream_state() = state_;
                    said = version_;
                }
            }
            if (reply.has_stream_state() && !client.send(reply, {}, kLong)) {
                return;
            }
            v1::LocalRequest request;
            const auto got = client.receive(request, nullptr, Milliseconds(2), stop_.fd());
            if (got) {
                hear(request);
            } else if (got.error().code() != Errc::kDeadline) {
                return;
            }
        }
    }
    // A run's ring, to its end.
    void take(LocalSocket& client, std::uint64_t window) {
        auto ring = TupleRingConsumer::create(256 * 1024);
        if (!ring) {
            return;
        }
        {
            const std::lock_guard lock(mutex_);
            sums_[window].clear();
            ++runs_[window];
            failing_.erase(window);
        }
        v1::LocalReply ready;
        ready.mutable_send_ready()->set_op(v1::OPERATOR_SUM);
        if (!client.send(ready, ring->application_fds(), kLong)) {
            return;
        }
        bool finished = false;
        for (;;) {
            drain(*ring, window);
            v1::LocalRequest request;
            const auto got = client.receive(request, nullptr, Milliseconds(2), stop_.fd());
            if (got && request.has_finish_send()) {
                drain(*ring, window);
                finished = true;
            } else if (!got && got.error().code() != Errc::kDeadline) {
                return;
            }
            const std::lock_guard lock(mutex_);
            if (finished) {
                ended_.insert(window);
            }
            v1::LocalReply reply;
            if (failing_.contains(window)) {
                ended_.erase(window);
                reply.mutable_failed()->set_code(static_cast<int>(Errc::kSwitchLost));
                reply.mutable_failed()->set_error("the switch lost what it had");
            } else if (finished && done_.contains(window)) {
                reply.mutable_done();
                told_.insert(window);
            } else {
                continue;
            }
            static_cast<void>(client.send(reply, {}, kLong));
            return;
        }
    }
    void drain(TupleRingConsumer& ring, std::uint64_t window) {
        const std::lock_guard lock(mutex_);
        std::string_view key;
        std::int64_t value = 0;
        for (auto got = ring.peek(key, value); got.ok() && *got; got = ring.peek(key, value)) {
            sums_[window][std::string(key)] += value;
            ring.pop();
        }
        ring.release();
    }

    std::string dir_;
    EventFd stop_;
    std::mutex mutex_;
    v1::StreamState state_;
    std::uint64_t version_ = 0;
    std::set<std::uint64_t> ended_;
    std::set<std::uint64_t> done_;
    std::set<std::uint64_t> told_;  // whose session has heard that it is done
    std::set<std::uint64_t> failing_;
    std::thread accepting_;
    std::vector<std::thread> connections_;
};

Result<> send(StreamSender& stream, std::string_view key, std::int64_t value) {
    const Tuple tuple(key, value);
    return stream.send(std::span(&tuple, 1));
}

// A stream with a window that has begun, and its member.
StreamSender begin(FakeStream& fake, StreamSendOptions options) {
    fake.open(1, wall_ms() - 100, 11);
    fake.say([](v1::StreamState& state) { state.set_first(1); });
    auto stream = StreamSender::open(std::move(options));
    REQUIRE(stream.ok());
    return *std::move(stream);
}

// Until the stream's word has come, by another thread, and the member keeps these windows.
void keeps(FakeStream& fake, StreamSender& stream, const std::vector<std::uint64_t>& windows) {
    const UniqueFd input(::eventfd(1, EFD_CLOEXEC));
    fake.wait([&] { return fake.keeps_ == windows; },
              [&] { CHECK(stream.wait_for_input(input.get()).ok()); });
}

std::chrono::nanoseconds cpu_of_thread() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// Ends the member's part with window `last`, which is committed; of which it hears after `silence`.
void leave(FakeStream& fake, StreamSender& stream, std::uint64_t last, Milliseconds silence = 0ms) {
    std::thread receiver([&] {
        fake.wait([&] { return fake.leaves_; });
        std::this_thread::sleep_for(silence);  // what is looked at is what it does meanwhile
        fake.say([last](v1::StreamState& state) { state.set_last(last); });
        fake.commit(last);
    });
    const auto sent = stream.leave();
    receiver.join();
    CHECK(sent.ok());
}

TEST_CASE("each tuple is in the window that its sender was in") {
    FakeStream fake;
    auto stream = begin(fake, fake.options());
    CHECK(send(stream, "a", 1).ok());
    CHECK(send(stream, "a", 2).ok());
    // Open ahead: not before it begins, also by who has heard of it. Three seconds, in which this thread may
    // stand still before it sends the last tuple of the first window.
    fake.open(2, wall_ms() + 3000, 12);
    const UniqueFd more(::eventfd(1, EFD_CLOEXEC));
    for (const auto until = std::chrono::steady_clock::now() + 50ms;
         std::chrono::steady_clock::now() < until;) {
        CHECK(stream.wait_for_input(more.get()).ok());
    }
    CHECK(send(stream, "a", 4).ok());
    // While nothing comes, a window ends all the same.
    std::thread receiver([&] { fake.commit(1); });
    const UniqueFd never(::eventfd(0, EFD_CLOEXEC));
    std::thread input([&] {
        fake.wait([&] { return fake.keeps_ == std::vector<std::uint64_t>{2}; });
        const std::uint64_t one = 1;
        CHECK(::write(never.get(), &one, sizeof(one)) == sizeof(one));
    });
    const auto has = stream.wait_for_input(never.get());
    CHECK((has.ok() && *has));
    receiver.join();
    input.join();
    CHECK(send(stream, "a", 8).ok());
    leave(fake, stream, 2);
    CHECK(fake.sums_[1] == Sums{{"a", 7}});
    CHECK(fake.sums_[2] == Sums{{"a", 8}});
    CHECK(fake.runs_[1] == 1);
}

TEST_CASE("a window that begins again gets all of its tuples again, and no others") {
    FakeStream fake;
    auto options = fake.options();
    options.merge_window = 0;
    auto stream = begin(fake, options);
    CHECK(send(stream, "a", 1).ok());
    fake.wait([&] { return fake.sums_[1] == Sums{{"a", 1}}; });
    fake.fail(1, 21);
    CHECK(send(stream, "b", 1).ok());
    fake.wait([&] { return fake.runs_[1] == 2 && fake.sums_[1] == Sums{{"a", 1}, {"b", 1}}; });
    // Over, and in its next window: it begins again once more.
    fake.open(2, wall_ms() - 1, 12);
    keeps(fake, stream, {1, 2});
    CHECK(send(stream, "c", 1).ok());
    fake.wait([&] { return fake.sums_[2] == Sums{{"c", 1}}; });
    fake.fail(1, 22);
    fake.wait([&] { return fake.runs_[1] == 3; });
    fake.commit(1);
    leave(fake, stream, 2);
    CHECK(fake.sums_[1] == Sums{{"a", 1}, {"b", 1}});
    CHECK(fake.sums_[2] == Sums{{"c", 1}});
    CHECK(fake.runs_[2] == 1);
}

TEST_CASE("a window is kept until the stream says that it is committed, whatever its session says") {
    FakeStream fake;
    auto stream = begin(fake, fake.options());
    CHECK(send(stream, "a", 1).ok());
    fake.open(2, wall_ms() - 1, 12);
    keeps(fake, stream, {1, 2});
    fake.tell_done(1);
    fake.fail(1, 21);
    fake.wait([&] { return fake.runs_[1] == 2 && fake.sums_[1] == Sums{{"a", 1}}; });
    fake.commit(1);
    leave(fake, stream, 2);
}

TEST_CASE("what is committed stays so, whoever says it late") {
    FakeStream fake;
    auto stream = begin(fake, fake.options());
    fake.open(2, wall_ms() - 2, 12);
    keeps(fake, stream, {1, 2});
    fake.commit(1);
    keeps(fake, stream, {2});
    fake.say([](v1::StreamState& state) { state.set_committed(0); });
    fake.open(3, wall_ms() - 1, 13);
    keeps(fake, stream, {2, 3});
    fake.wait([&] { return fake.committed_ == 1; });
    fake.commit(2);
    leave(fake, stream, 3);
}

TEST_CASE("a receiver with another directory is not gone on with") {
    FakeStream fake;
    auto stream = begin(fake, fake.options());
    CHECK(send(stream, "a", 1).ok());
    fake.say([](v1::StreamState& state) { state.set_nonce(6); });
    Result<> sent;
    for (const auto until = std::chrono::steady_clock::now() + 5s;
         sent.ok() && std::chrono::steady_clock::now() < until;) {
        sent = send(stream, "b", 1);
    }
    REQUIRE_FALSE(sent.ok());
    CHECK(sent.error().code() == Errc::kExists);
    CHECK(sent.error().text().find("another directory") != std::string::npos);
}

TEST_CASE("a member goes on to no window that it could not say it knows of") {
    FakeStream fake;
    fake.say([](v1::StreamState& state) { state.set_first(1); });
    for (std::uint64_t number = 1; number <= 17; ++number) {
        fake.open(number, wall_ms() + number * 60'000, 0);
    }
    const auto options = fake.options();
    const StreamFollower follower(
        {.agent = options.agent, .name = options.name, .to = options.to, .member = 7, .deadline = kLong});
    const auto has = [&](std::uint64_t first, std::uint64_t last) {
        const auto until = std::chrono::steady_clock::now() + kLong;
        for (auto version = follower.version(); std::chrono::steady_clock::now() < until;
             version = follower.version()) {
            const StreamView view = follower.view();
            if (!view.windows.empty() && view.windows.front().number == first) {
                return view.windows.back().number == last;
            }
            follower.wait(version, kLong);
        }
        return false;
    };
    CHECK(has(1, 16));
    fake.say([](v1::StreamState& state) {
        state.set_committed(1);
        state.mutable_windows()->DeleteSubrange(0, 1);
    });
    CHECK(has(2, 17));
}

TEST_CASE("which lines a window has is on disk before the last of them may be sent") {
    FakeStream fake;
    auto options = fake.options();
    bool ended = false;
    options.on_step = [&](const StreamStep& step) {
        const auto until = std::chrono::steady_clock::now() + 50ms;
        while (step.ended != 0 && !ended && std::chrono::steady_clock::now() < until) {
            ended = fake.has_ended(step.ended);
            std::this_thread::sleep_for(1ms);  // between two looks
        }
        return Result<>();
    };
    auto stream = begin(fake, options);
    CHECK(send(stream, "a", 1).ok());
    fake.open(2, wall_ms() - 1, 12);
    keeps(fake, stream, {1, 2});
    fake.commit(1);
    leave(fake, stream, 2);
    CHECK_FALSE(ended);
}

TEST_CASE("no ninth window is entered before the first is committed") {
    FakeStream fake;
    auto stream = begin(fake, fake.options());
    std::vector<std::uint64_t> all{1};
    for (std::uint64_t number = 2; number <= 8; ++number) {
        all.push_back(number);
        fake.open(number, wall_ms() - 2, number < 3 ? 10 + number : 0);
        keeps(fake, stream, all);
        CHECK(send(stream, "b", 1).ok());
    }
    fake.open(9, wall_ms() - 1, 0);
    const UniqueFd input(::eventfd(1, EFD_CLOEXEC));
    const auto until = std::chrono::steady_clock::now() + 50ms;
    while (std::chrono::steady_clock::now() < until) {
        CHECK(stream.wait_for_input(input.get()).ok());
    }
    CHECK(send(stream, "b", 1).ok());
    keeps(fake, stream, all);
    fake.commit(1);
    all.erase(all.begin());
    all.push_back(9);
    keeps(fake, stream, all);
    const UniqueFd never(::eventfd(0, EFD_CLOEXEC));
    std::thread receiver([&] {
        for (std::uint64_t number = 2; number <= 8; ++number) {
            fake.fail(number, 10 + number);  // now it has a run, or another one
            fake.commit(number);
        }
        fake.say([](v1::StreamState& state) { state.set_last(9); });
        fake.fail(9, 19);
        fake.commit(9);
    });
    // The stream finishes: it takes no more once it is in its last window.
    const auto has = stream.wait_for_input(never.get());
    CHECK((has.ok() && !*has));
    CHECK(stream.over());
    CHECK(send(stream, "late", 1).ok());
    const auto sent = stream.leave();
    receiver.join();
    REQUIRE(sent.ok());
    CHECK(sent->windows == 9);
    CHECK(sent->tuples == 8);
    CHECK(sent->late == 1);
    CHECK(fake.sums_[8] == Sums{{"b", 2}});
    CHECK(fake.sums_[9].empty());
}

TEST_CASE("who leaves does so with the window that it is in, also if the next one is open") {
    FakeStream fake;
    auto stream = begin(fake, fake.options());
    fake.open(2, wall_ms() + 60'000, 12);
    CHECK(send(stream, "a", 1).ok());
    leave(fake, stream, 1);
    CHECK(fake.sums_[1] == Sums{{"a", 1}});
    CHECK(fake.runs_[2] == 0);
}

TEST_CASE("who leaves takes no CPU while the receiver is away and the next window begins") {
    FakeStream fake;
    auto stream = begin(fake, fake.options());
    fake.open(2, wall_ms() + 50, 0);
    const auto before = cpu_of_thread();
    leave(fake, stream, 1, 400ms);
    CHECK(cpu_of_thread() - before < 50ms);
}

TEST_CASE("a stream that is cut short ends its members, which say why") {
    FakeStream fake;
    auto stream = begin(fake, fake.options());
    CHECK(send(stream, "a", 1).ok());
    fake.say([](v1::StreamState& state) {
        state.set_ended(true);
        state.set_trouble("cancelled by askctl task cancel on h4");
    });
    const UniqueFd never(::eventfd(0, EFD_CLOEXEC));
    const auto waited = stream.wait_for_input(never.get());
    REQUIRE_FALSE(waited.ok());
    CHECK(waited.error().code() == Errc::kAborted);
    CHECK(waited.error().text() == "stream web: cancelled by askctl task cancel on h4");
}

TEST_CASE("a full spool holds its reader back until a window is committed") {
    FakeStream fake;
    auto options = fake.options();
    options.merge_window = 0;
    options.spool_bytes = 1;
    auto stream = begin(fake, options);
    CHECK(send(stream, "a", 1).ok());
    fake.open(2, wall_ms() + 50, 12);
    std::thread receiver([&] { fake.commit(1); });
    CHECK(send(stream, "b", 1).ok());
    receiver.join();
    leave(fake, stream, 2);
    CHECK(fake.sums_[1] == Sums{{"a", 1}});
    CHECK(fake.sums_[2] == Sums{{"b", 1}});
}

TEST_CASE("a key that is longer than any may be is refused by its length, merged or not") {
    const std::string longest(ASK_MAX_KEY, 'k');
    for (const std::uint32_t merge : {0U, 1U << 10U}) {
        FakeStream fake;
        auto options = fake.options();
        options.merge_window = merge;
        auto stream = begin(fake, options);
        CHECK(send(stream, longest, 1).ok());
        const auto refused = send(stream, longest + "k", 1);
        REQUIRE(!refused.ok());
        CHECK(refused.error().text() == "a key of 65536 bytes; the limit is 65535");
        leave(fake, stream, 1);
        CHECK(fake.sums_[1] == Sums{{longest, 1}});
    }
}

TEST_CASE("who was left out of a window says so, and goes on in one that is open") {
    FakeStream fake;
    std::vector<std::string> news;
    auto options = fake.options();
    options.on_news = [&news](const StreamNews& each) {
        CHECK(each.is_loss);
        news.push_back(each.text);
    };
    auto stream = begin(fake, options);
    CHECK(send(stream, "a", 1).ok());
    fake.open(3, wall_ms() - 1, 13);
    fake.say([](v1::StreamState& state) {
        state.set_committed(2);
        state.set_first(3);
        state.mutable_windows()->DeleteSubrange(0, 1);
        v1::LeftOut& left_out = *state.add_left_out();
        left_out.set_window(1);
        left_out.set_reason("not heard of for 30 s");
    });
    // The stream's word comes by another thread.
    const auto give_up_at = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (news.empty() && std::chrono::steady_clock::now() < give_up_at) {
        CHECK(send(stream, "b", 1).ok());
    }
    REQUIRE_FALSE(news.empty());
    CHECK(send(stream, "c", 1).ok());
    leave(fake, stream, 3);
    CHECK(news.front().find("window 1 was committed without") != std::string::npos);
    CHECK(fake.sums_[3].at("c") == 1);
}

TEST_CASE("a member that outlives its process hands in once more what is not committed, and goes on") {
    FakeStream fake;
    auto options = fake.options();
    options.in_pieces = true;
    std::vector<StreamStep> steps;
    options.on_step = [&steps](const StreamStep& step) {
        steps.push_back(step);
        return Result<>();
    };
    options.memory = {.member = 77, .nonce = 5, .committed = 1, .ended = {1, 2}, .inside = 3, .again = {}};
    options.memory.again = [](std::uint64_t window, const auto& sink) {
        const Tuple tuple(window == 2 ? "two" : "other", 1);
        return sink(std::span(&tuple, 1));
    };
    fake.say([](v1::StreamState& state) {
        state.set_committed(1);
        state.set_first(1);
    });
    fake.open(2, wall_ms() - 2, 12);
    fake.open(3, wall_ms() - 1, 13);
    auto stream = StreamSender::open(options);
    REQUIRE(stream.ok());
    keeps(fake, *stream, {2, 3});
    CHECK(fake.member_ == 77);
    CHECK(send(*stream, "three", 1).ok());
    fake.wait([&] { return fake.sums_[2] == Sums{{"two", 1}}; });
    CHECK(steps.empty());
    fake.open(4, wall_ms() - 1, 14);
    fake.commit(2);
    keeps(fake, *stream, {3, 4});
    REQUIRE(steps.size() == 1);
    CHECK(steps.front().ended == 3);
    CHECK(steps.front().entered == 4);
    CHECK(steps.front().committed == 2);
    CHECK(steps.front().nonce == 5);
    fake.commit(3);
    leave(fake, *stream, 4);
    CHECK(fake.sums_[3] == Sums{{"three", 1}});
    CHECK(fake.runs_[2] == 1);
    REQUIRE(steps.size() == 2);
    CHECK(steps.back().ended == 4);
    CHECK(steps.back().entered == 0);
}

TEST_CASE("a member that died as it left does not enter again the window that it has ended") {
    FakeStream fake;
    auto options = fake.options();
    options.memory = {.member = 77, .nonce = 5, .committed = 0, .ended = {1}, .inside = 0, .again = {}};
    options.memory.again = [](std::uint64_t /*window*/, const auto& sink) {
        const Tuple tuple("one", 1);
        return sink(std::span(&tuple, 1));
    };
    fake.say([](v1::StreamState& state) {
        state.set_first(1);
        state.set_last(1);
    });
    fake.open(1, wall_ms() - 1, 11);
    std::thread receiver([&fake] { fake.commit(1); });
    auto stream = StreamSender::open(options);
    receiver.join();
    REQUIRE(stream.ok());
    CHECK(stream->over());
    CHECK(stream->leave().ok());
    CHECK(fake.sums_[1] == Sums{{"one", 1}});
    CHECK(fake.runs_[1] == 1);
}

TEST_CASE(
    "what was committed while a member was away is not handed in again, and what is not known is an error") {
    FakeStream fake;
    auto options = fake.options();
    options.memory = {.member = 77, .nonce = 5, .committed = 1, .ended = {2}, .inside = 3, .again = {}};
    fake.say([](v1::StreamState& state) {
        state.set_committed(3);
        state.set_first(4);
    });
    const auto stream = StreamSender::open(options);
    REQUIRE_FALSE(stream.ok());
    CHECK(stream.error().code() == Errc::kSwitchLost);
}

}  // namespace
}  // namespace ask
