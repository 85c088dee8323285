// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/ask/task_agent.h"

#include <fcntl.h>
#include <poll.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>

#include "lib/client/convert.h"
#include "tests/unit/client/fake_agent.h"

namespace ask::test {

struct TaskAgent::Impl {
    TaskAct act = TaskAct::kTakes;
    TaskTuples gives;
    client::TaskOp op = client::TaskOp::kSum;
    TaskTuples taken;
    std::optional<FakeAgent> agent;
    std::string socket;

    void serve_sender(LocalSocket& client);
    void serve_receiver(LocalSocket& client, v1::Operator result);
    void take_all(LocalSocket& client, TupleRingConsumer& ring);
};

namespace {

constexpr int kLongMs = 20'000;
constexpr std::size_t kRing = 256UL * 1024;

void say_late(LocalSocket& client) {
    say_failed(client, Errc::kDeadline, "task t: only 1 of 2 senders joined within 1 s");
}

}  // namespace

void TaskAgent::Impl::take_all(LocalSocket& client, TupleRingConsumer& ring) {
    for (bool asked = false; !asked;) {
        std::array<pollfd, 2> polls{pollfd{ring.data_event(), POLLIN, 0}, pollfd{client.fd(), POLLIN, 0}};
        asked = !ring.arm() && ::poll(polls.data(), polls.size(), kLongMs) > 0 && polls[1].revents != 0 &&
                !ring.has_data();
        std::string_view key;
        std::int64_t value = 0;
        for (auto got = ring.peek(key, value); got && *got; got = ring.peek(key, value)) {
            taken[std::string(key)] += value;
            ring.pop();
        }
        ring.release();
    }
}

void TaskAgent::Impl::serve_sender(LocalSocket& client) {
    auto ring = TupleRingConsumer::create(kRing);
    REQUIRE(ring.ok());
    v1::LocalReply ready;
    ready.mutable_send_ready()->set_op(client::op_to_proto(op));
    ready.mutable_send_ready()->set_ring_bytes(kRing);
    say(client, ready, ring->application_fds());
    if (act == TaskAct::kDies || act == TaskAct::kFails) {
        pollfd data{ring->data_event(), POLLIN, 0};
        CHECK((ring->arm() || ::poll(&data, 1, kLongMs) == 1));
        if (act == TaskAct::kFails) {
            say_late(client);
            CHECK(hears_the_end(client));
        }
        return;
    }
    if (act == TaskAct::kTakes) {
        take_all(client, *ring);
        v1::LocalRequest request;
        if (!client.receive(request, nullptr, Milliseconds(kLongMs)) || !request.has_finish_send()) {
            return;  // given up, or gone
        }
        v1::LocalReply done;
        done.mutable_done()->set_seconds(0.5);
        done.mutable_done()->mutable_stats()->set_tuples_in(7);
        done.mutable_done()->mutable_stats()->set_tuples_sent(7);
        done.mutable_done()->mutable_stats()->set_tuples_long(7);
        say(client, done);
    }
    CHECK(hears_the_end(client));
}

void TaskAgent::Impl::serve_receiver(LocalSocket& client, v1::Operator result) {
    v1::LocalReply ready;
    ready.mutable_receive_ready()->set_instance(9);
    say(client, ready);
    if (act == TaskAct::kDies) {
        return;
    }
    if (act == TaskAct::kFails) {
        say_late(client);
    }
    if (act == TaskAct::kGives || act == TaskAct::kGivesUp) {
        const auto table =
            share_table({gives.begin(), gives.end()}, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
        v1::LocalReply done;
        done.mutable_done()->set_op(result);
        done.mutable_done()->mutable_stats()->set_tuples_in(11);
        done.mutable_done()->add_sender_names("h1");
        done.mutable_done()->add_per_sender()->set_tuples_in(11);
        done.mutable_done()->add_missing()->set_reason("it died");
        done.mutable_done()->mutable_missing(0)->set_name("h2");
        const std::array<int, 2> fds{table.slots.get(), table.keys.get()};
        say(client, done, fds);
        v1::LocalRequest request;
        do {
            if (!client.receive(request, nullptr, Milliseconds(kLongMs))) {
                return;  // gone without a word
            }
        } while (request.has_taking());
        v1::LocalReply confirmed;
        confirmed.mutable_confirmed();
        if (act == TaskAct::kGives) {
            say(client, confirmed);
        } else {
            say_failed(client, Errc::kNotTaken, "task t: its result was not taken in time");
        }
    }
    CHECK(hears_the_end(client));
}

TaskAgent::TaskAgent(TaskAct act, TaskTuples gives, const std::string& op) : impl_(std::make_unique<Impl>()) {
    impl_->act = act;
    impl_->gives = std::move(gives);
    impl_->op = client::parse_task_op(op).value_or(client::TaskOp::kSum);
    impl_->agent.emplace([impl = impl_.get()](LocalSocket& client, const v1::LocalRequest& opening) {
        if (impl->act == TaskAct::kRefuses) {
            say_failed(client, Errc::kUnknown, "no task t at h3 within 1 s");
        } else if (impl->act == TaskAct::kSilent) {
            CHECK(hears_the_end(client));
        } else if (opening.has_open_send()) {
            impl->serve_sender(client);
        } else {
            // Of one that was kept it knows the operator, and the application does not.
            impl->serve_receiver(client, opening.has_open_again() ? client::op_to_proto(impl->op)
                                                                  : opening.open_receive().op());
        }
    });
    impl_->socket = impl_->agent->socket();
}

TaskAgent::~TaskAgent() = default;

const std::string& TaskAgent::socket() const {
    return impl_->socket;
}

const TaskTuples& TaskAgent::taken() {
    impl_->agent.reset();
    return impl_->taken;
}

}  // namespace ask::test
