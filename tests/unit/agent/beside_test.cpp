// SPDX-License-Identifier: Apache-2.0
//
// Calls beside a session: it hears what comes meanwhile, and ends what nobody answers. And tasks that are
// left open.
#include "lib/control/member/beside.h"

#include <memory>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <grpcpp/grpcpp.h>

#include "agent/switch_client.h"
#include "lib/control/member/left_open.h"
#include "lib/control/member/session_io.h"
#include "proto/switch.grpc.pb.h"
#include "tests/unit/agent/local_agent.h"

using namespace ask;
using namespace ask::test;

namespace {

class Served : public v1::Switch::Service {
 public:
    Served() {
        grpc::ServerBuilder builder;
        builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
        builder.RegisterService(this);
        server_ = builder.BuildAndStart();
        REQUIRE(server_ != nullptr);
    }
    [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
    int port_ = 0;
    std::unique_ptr<grpc::Server> server_;
};

// Answers nobody; ends a call once its caller has gone.
class HangingSwitch final : public Served {
 public:
    grpc::Status GetInfo(grpc::ServerContext* context, const v1::GetSwitchInfoRequest* /*request*/,
                         v1::SwitchInfo* /*reply*/) override {
        while (!context->IsCancelled()) {
            std::this_thread::sleep_for(milliseconds(1));
        }
        return grpc::Status::CANCELLED;
    }
};

class ClosingSwitch final : public Served {
 public:
    grpc::Status CloseTask(grpc::ServerContext* /*context*/, const v1::CloseTaskRequest* request,
                           v1::CloseTaskReply* /*reply*/) override {
        ++calls;
        if (request->instance() == opening) {
            return {grpc::StatusCode::UNAVAILABLE, "it is still being opened: try again"};
        }
        closed.insert(request->instance());
        return grpc::Status::OK;
    }

    // Not touched but between calls.
    std::set<std::uint64_t> closed;
    std::uint64_t opening = 0;
    int calls = 0;
};

Result<> wait_for_mailbox(Mailbox& mailbox, Clock::time_point until) {
    mailbox.wait(until);
    for (const SessionEvent& event : mailbox.take()) {
        if (event.kind == SessionEvent::Kind::kStop) {
            return stopping_error();
        }
    }
    return {};
}

}  // namespace

TEST_CASE("a call beside a session gives its answer, or its error") {
    const auto mailbox = std::make_shared<Mailbox>();
    const auto listen = [&](Clock::time_point until) { return wait_for_mailbox(*mailbox, until); };
    const auto run = [&](Result<int> answer) {
        return run_beside(mailbox, [answer](CallCancel* /*cancel*/) { return answer; }, listen, [] {});
    };
    const auto seven = run(7);
    REQUIRE((seven.ok() && seven->ok()));
    CHECK(**seven == 7);
    const auto refused = run(Error(Errc::kLimit, "full"));
    REQUIRE(refused.ok());
    CHECK(refused->error().code() == Errc::kLimit);
    // What it throws comes to the session, which knows what to do about it.
    const auto throwing = [](CallCancel* /*cancel*/) -> Result<int> { throw std::bad_alloc(); };
    CHECK_THROWS_AS(static_cast<void>(run_beside(mailbox, throwing, listen, [] {})), std::bad_alloc);
}

TEST_CASE(
    "a session that is to end does not wait for a switch that hangs, and shows meanwhile that it lives") {
    RpcChannels channels(plain_text());
    const HangingSwitch hanging;
    SwitchClient client(channels, hanging.address());
    const auto mailbox = std::make_shared<Mailbox>();
    int shown = 0;
    const auto answer = run_beside(
        mailbox, [&](CallCancel* cancel) { return client.info(std::chrono::hours(24), cancel); },
        [&](Clock::time_point until) { return wait_for_mailbox(*mailbox, until); },
        [&] {
            ++shown;
            mailbox->post(SessionEvent::Kind::kStop);
        });
    REQUIRE_FALSE(answer.ok());
    CHECK(answer.error().text() == stopping_error().text());
    CHECK(shown == 1);
}

TEST_CASE("who does not answer in time is named") {
    RpcChannels channels(plain_text());
    const HangingSwitch hanging;
    const auto info = SwitchClient(channels, hanging.address()).info(milliseconds(20));
    REQUIRE_FALSE(info.ok());
    CHECK(info.error().code() == Errc::kDeadline);
    CHECK(info.error().text().find("switch " + hanging.address() + " does not answer") == 0);
}

TEST_CASE("a wait is no longer than what is left, nor than it may be") {
    CHECK(at_most(milliseconds(5000), Clock::now() + std::chrono::hours(1)) == milliseconds(5000));
    CHECK(at_most(milliseconds(5000), Clock::now() + milliseconds(2000)) <= milliseconds(2000));
    CHECK(at_most(milliseconds(5000), Clock::now() - milliseconds(2000)) == milliseconds(1));
}

TEST_CASE("a deadline that cannot be kept is refused by name") {
    CHECK(*task_deadline(0, 30) == milliseconds(30000));
    CHECK(*task_deadline(1000, 30) == milliseconds(1000));
    CHECK(*task_deadline(86400000, 30) == milliseconds(86400000));
    for (const std::uint32_t asked : {1U, 100U, 999U, 86400001U}) {
        const auto refused = task_deadline(asked, 30);
        REQUIRE_FALSE(refused.ok());
        CHECK(refused.error().code() == Errc::kUsage);
        CHECK(refused.error().text().find("not " + std::to_string(asked) + " ms") != std::string::npos);
    }
}

TEST_CASE("what is left open is bounded in number and time") {
    LeftOpen left;
    const LeftOpen::Time start{};
    const auto of = [](std::uint64_t instance, std::string at = "198.18.1.1:4792") {
        return LeftOpen::Task{.instance = instance, .address = std::move(at), .id = "words"};
    };
    const LeftOpen::Task elsewhere = of(2, "198.18.2.1:4792");
    CHECK(left.add(of(1), start));
    CHECK(left.add(of(2), start));
    CHECK(left.add(elsewhere, start));
    // Once more: it is there for as long as if it had come now.
    CHECK(left.add(of(2), start + LeftOpen::kFor / 2));
    CHECK(left.list(start) == std::vector{of(1), elsewhere, of(2)});
    left.remove(elsewhere);
    CHECK(left.list(start + LeftOpen::kFor) == std::vector{of(2)});
    left.remove(of(2));
    CHECK(left.list(start).empty());
    for (std::uint64_t instance = 1; instance <= LeftOpen::kMost; ++instance) {
        CHECK(left.add(of(instance), start));
    }
    CHECK(left.add(of(LeftOpen::kMost), start));
    CHECK_FALSE(left.add(of(LeftOpen::kMost + 1), start));
    CHECK(left.list(start).size() == LeftOpen::kMost);
    CHECK(left.list(start).front().instance == 2);
}

TEST_CASE("who opens an id closes first what tasks of that id have left open at the switch") {
    RpcChannels channels(plain_text());
    ClosingSwitch closing;
    SwitchClient client(channels, closing.address());
    LeftOpen left;
    const std::string other = "198.18.2.1:4792";
    const std::vector<LeftOpen::Task> all{
        {.instance = 1, .address = closing.address(), .id = "words"},
        {.instance = 2, .address = closing.address(), .id = "others"},
        {.instance = 3, .address = other, .id = "words"},
        {.instance = 4, .address = closing.address(), .id = "words"},
    };
    for (const LeftOpen::Task& task : all) {
        CHECK(left.add(task, Clock::now()));
    }
    // One that is still being opened there, by a call that nobody waits for any more: it is asked again.
    closing.opening = 4;
    const auto busy = close_left_open(left, client, "words", kPatience, nullptr);
    REQUIRE_FALSE(busy.ok());
    CHECK(is_transient(busy.error()));
    CHECK(closing.closed == std::set<std::uint64_t>{1});
    CHECK(left.list(Clock::now()) == std::vector{all[1], all[2], all[3]});
    closing.opening = 0;
    CHECK(close_left_open(left, client, "words", kPatience, nullptr).ok());
    CHECK(closing.closed == std::set<std::uint64_t>{1, 4});
    CHECK(left.list(Clock::now()) == std::vector{all[1], all[2]});
    CHECK(close_left_open(left, client, "words", kPatience, nullptr).ok());
    CHECK(closing.calls == 3);
}
