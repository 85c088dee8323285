// SPDX-License-Identifier: Apache-2.0
//
// What of lib/client and tools/cli the simulator has in its own way: a send's ring is a list of tuples, and
// what commands say goes among the lines of the history.
#include <string>
#include <utility>

#include "lib/client/agent_link.h"
#include "lib/client/convert.h"
#include "lib/client/send_session.h"
#include "tests/sim/tuples/agents.h"
#include "tests/sim/tuples/descriptors.h"
#include "tools/cli/cli.h"
#include "tools/cli/progress.h"

namespace ask::client {

class SendSession::Impl {
 public:
    Impl(AgentLink of, std::shared_ptr<sim::SimIntake> with) : link(std::move(of)), intake(std::move(with)) {
        intake->tuples = tuples;
    }
    Result<> send(std::span<const Tuple> some) {
        for (const Tuple& tuple : some) {
            tuples->emplace_back(std::string(tuple.key), tuple.value);
        }
        intake->handed_in = tuples->size();
        if (intake->has_more) {
            intake->has_more();
        }
        return link.poll();
    }

    AgentLink link;
    std::shared_ptr<sim::SimIntake> intake;
    std::shared_ptr<sim::Tuples> tuples = std::make_shared<sim::Tuples>();
};

SendSession::SendSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SendSession::SendSession(SendSession&&) noexcept = default;
SendSession& SendSession::operator=(SendSession&&) noexcept = default;
SendSession::~SendSession() = default;

Result<SendSession> SendSession::open(SendOptions options) {
    v1::LocalRequest request;
    v1::OpenSend& open = *request.mutable_open_send();
    open.set_task_id(options.task);
    open.set_to(options.to);
    open.set_deadline_ms(static_cast<std::uint32_t>(options.deadline.count()));
    open.set_can_repeat(options.can_repeat);
    open.set_stream_member(options.stream_member);
    open.set_window(options.window);
    auto link = AgentLink::open({.agent = options.agent,
                                 .task = options.task,
                                 .deadline = options.deadline,
                                 .cancel_fd = options.cancel_fd},
                                request);
    ASK_PASS(link);
    const auto reply = link->next();
    ASK_PASS(reply);
    const auto session = sim::session_of(link->fd());
    if (!reply->has_send_ready() || !session || !session->intake) {
        return link->unexpected("a tuple ring");
    }
    return SendSession(std::make_unique<Impl>(*std::move(link), session->intake));
}

Result<> SendSession::send(std::span<const Tuple> tuples) {
    return impl_->send(tuples);
}

Result<> SendSession::wait_for_input(int fd) {
    ASK_PASS(impl_->link.poll());
    return impl_->link.wait_readable(fd);
}

void SendSession::note_merged(std::uint64_t /*tuples*/) {}

Result<TaskStats> SendSession::finish() {
    v1::LocalRequest request;
    request.mutable_finish_send();
    ASK_PASS(impl_->link.request(request));
    const auto reply = impl_->link.next();
    ASK_PASS(reply);
    return reply->has_done() ? stats_from_proto(reply->done().stats())
                             : Result<TaskStats>(impl_->link.unexpected("the end of the task"));
}

}  // namespace ask::client

namespace ask::cli {

ProgressLine::ProgressLine(std::string prefix, bool quiet)
    : prefix_(std::move(prefix)), terminal_(false), quiet_(quiet) {}
void ProgressLine::show(const std::string& text) {
    warn(text);
}
void ProgressLine::note(const std::string& text) {
    warn(text);
}
void ProgressLine::say(const std::string& text) {
    warn(text);
}
void ProgressLine::warn(const std::string& text) {
    sim::say(prefix_, text);
}
void ProgressLine::clear() {}

std::string short_count(std::uint64_t count) {
    return std::to_string(count);
}

int fail(const std::string& command, const Error& error) {
    sim::say(command, error.text());
    return static_cast<int>(error.code());
}

}  // namespace ask::cli
