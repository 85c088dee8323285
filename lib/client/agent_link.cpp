// SPDX-License-Identifier: Apache-2.0
#include "lib/client/agent_link.h"

#include <algorithm>
#include <utility>

#include "lib/base/waiting.h"
#include "lib/client/convert.h"
#include "lib/rpc/clean_message.h"

namespace ask::client {
namespace {

// What the agent needs on top of a task's deadline to say that it has passed.
constexpr Milliseconds kGrace{5'000};
// An agent that does not take a connection or a request that long hangs.
constexpr Milliseconds kAnswer{10'000};

std::string seconds(Milliseconds time) {
    return std::to_string((time.count() + 999) / 1000) + " s";
}

Error explain_connect(Error error, const std::string& path) {
    switch (error.code()) {
        case Errc::kUnavailable:
            return {Errc::kUnavailable,
                    "no agent listens at " + path + ": start ask-agentd on this host " +
                        "(systemctl start ask-agentd), or name its socket with --agent or ASK_AGENT"};
        case Errc::kDenied:
            return error;
        default:
            return std::move(error).with_context("agent");
    }
}

}  // namespace

AgentLink::AgentLink(LinkOptions options, LocalSocket socket)
    : options_(std::move(options)), socket_(std::move(socket)), last_heard_(Clock::now()) {}

// The agent closes its end of the socket last of all.
AgentLink::~AgentLink() {
    if (!socket_ || options_.let_go <= Milliseconds(0)) {
        return;
    }
    socket_.end_sending();
    const auto until = Clock::now() + options_.let_go;
    bool open = true;
    while (open && Clock::now() < until) {
        v1::LocalReply reply;
        std::vector<UniqueFd> fds;
        const auto left = std::chrono::ceil<Milliseconds>(until - Clock::now());
        const auto got = socket_.receive(reply, &fds, std::max(left, Milliseconds(0)));
        open = got.ok() || got.error().code() == Errc::kInput;
    }
}

Result<AgentLink> AgentLink::open(LinkOptions options, const v1::LocalRequest& request) {
    options.agent = agent_socket_path(options.agent);
    auto socket = LocalSocket::connect(options.agent, kAnswer);
    if (!socket) {
        return explain_connect(std::move(socket).error(), options.agent);
    }
    AgentLink link(std::move(options), *std::move(socket));
    if (auto sent = link.request(request); !sent) {
        return std::move(sent).error();
    }
    return link;
}

Milliseconds AgentLink::patience() const {
    return std::max(options_.deadline, kAnswer) + kGrace;
}

Milliseconds AgentLink::silence_left() const {
    const auto silent_for = std::chrono::duration_cast<Milliseconds>(Clock::now() - last_heard_);
    return std::max(patience() - silent_for, Milliseconds(0));
}

Error AgentLink::gone() const {
    return {Errc::kUnavailable, about() + "the agent at " + options_.agent + " went away, which ends the " +
                                    options_.kind + "; its log says why"};
}

Error AgentLink::cancelled() const {
    return {Errc::kAborted, about() + "cancelled: its cancel_fd is readable"};
}

Error AgentLink::silent() const {
    return {Errc::kUnavailable,
            about() + "the agent at " + options_.agent + " has been silent for " + seconds(patience())};
}

Error AgentLink::unexpected(std::string_view wanted) const {
    return {Errc::kInternal, about() + "the agent's reply is not " + std::string(wanted) +
                                 "; agent and application may be of different versions"};
}

Result<> AgentLink::request(const v1::LocalRequest& request) {
    auto sent = socket_.send(request, {}, kAnswer, options_.cancel_fd);
    if (sent) {
        return {};
    }
    if (sent.error().code() == Errc::kAborted) {
        return cancelled();
    }
    if (sent.error().code() != Errc::kUnavailable) {
        return std::move(sent).error().with_context("agent at " + options_.agent);
    }
    // Before it closed, the agent may have said why.
    auto last_words = next();
    return last_words ? gone() : std::move(last_words).error();
}

void AgentLink::hint(const v1::LocalRequest& request) {
    [[maybe_unused]] const auto sent = socket_.try_send(request);
}

void AgentLink::alive() {
    v1::LocalRequest request;
    request.mutable_alive();
    hint(request);
}

void AgentLink::give_up(const Error& reason, const std::vector<std::string>& lost_relays) {
    v1::LocalRequest request;
    request.mutable_give_up()->mutable_lost_relays()->Add(lost_relays.begin(), lost_relays.end());
    request.mutable_give_up()->set_reason(reason.text());
    request.mutable_give_up()->set_code(static_cast<std::int32_t>(reason.code()));
    hint(request);
}

Result<bool> AgentLink::handle(const v1::LocalReply& reply) {
    last_heard_ = Clock::now();
    if (reply.kind_case() == v1::LocalReply::kFailed) {
        lost_relays_.assign(reply.failed().lost_relays().begin(), reply.failed().lost_relays().end());
        lost_switches_.assign(reply.failed().lost_switches().begin(), reply.failed().lost_switches().end());
        return Error(errc_from_number(reply.failed().code(), Errc::kInternal), reply.failed().error());
    }
    if (reply.kind_case() != v1::LocalReply::kProgress) {
        return false;
    }
    if (reply.progress().wants_answer()) {
        alive();
    }
    if (options_.on_progress) {
        const v1::Progress& from = reply.progress();
        options_.on_progress({stats_from_proto(from.stats()), from.state(), from.senders_joined(),
                              from.senders_finished(), from.cannot_repeat(), from.waits_for(),
                              from.table_bytes_most()});
    }
    if (!reply.progress().waits_for().empty()) {
        last_waiting_ = last_heard_;
    }
    return true;
}

Result<v1::LocalReply> AgentLink::next(std::vector<UniqueFd>* fds) {
    for (;;) {
        v1::LocalReply reply;
        std::vector<UniqueFd> received;
        auto got = socket_.receive(reply, &received, silence_left(), options_.cancel_fd);
        if (!got) {
            const Errc code = got.error().code();
            return code == Errc::kUnavailable ? gone()
                   : code == Errc::kDeadline  ? silent()
                   : code == Errc::kAborted   ? cancelled()
                                              : std::move(got).error();
        }
        clean_strings(reply);
        auto progress = handle(reply);
        if (!progress) {
            return std::move(progress).error();
        }
        if (!*progress) {
            if (fds != nullptr) {
                *fds = std::move(received);
            }
            return reply;
        }
    }
}

Result<std::optional<v1::LocalReply>> AgentLink::take() {
    for (;;) {
        v1::LocalReply reply;
        auto io = socket_.try_receive(reply);
        if (!io) {
            return std::move(io).error().with_context("agent at " + options_.agent);
        }
        if (*io == LocalIo::kWouldBlock) {
            return std::optional<v1::LocalReply>();
        }
        if (*io == LocalIo::kClosed) {
            return gone();
        }
        clean_strings(reply);
        auto progress = handle(reply);
        if (!progress) {
            return std::move(progress).error();
        }
        if (!*progress) {
            return std::optional(std::move(reply));
        }
    }
}

Result<> AgentLink::poll() {
    const auto reply = take();
    ASK_PASS(reply);
    return reply->has_value()
               ? Error(Errc::kInternal, "the agent at " + options_.agent + " sent a reply to nothing")
               : Result<>();
}

Result<std::optional<v1::LocalReply>> AgentLink::next_or(int fd, Clock::time_point deadline) {
    for (;;) {
        auto reply = take();
        if (!reply || reply->has_value()) {
            return reply;
        }
        const auto ready = sleep(fd, deadline);
        ASK_PASS(ready);
        if (ready->fd || (!ready->link && Clock::now() >= deadline)) {
            return std::optional<v1::LocalReply>();
        }
    }
}

Result<> AgentLink::wait_readable(int fd) {
    const auto readable = wait_until(fd, Clock::time_point::max());
    return readable ? Result<>() : Result<>(readable.error());
}

Result<> AgentLink::wait_owed(int fd) {
    auto readable = wait_until(fd, Clock::now() + patience());
    // What the agent's receiver waits for is none of the agent's fault.
    while (readable && !*readable && Clock::now() < last_waiting_ + patience()) {
        readable = wait_until(fd, last_waiting_ + patience());
    }
    ASK_PASS(readable);
    if (!*readable) {
        return Error(Errc::kDeadline, about() + "the agent at " + options_.agent + " has taken nothing for " +
                                          seconds(patience()));
    }
    return {};
}

Result<AgentLink::Ready> AgentLink::sleep(int fd, Clock::time_point deadline) {
    using Nanoseconds = std::chrono::nanoseconds;
    const auto limit = std::clamp<Nanoseconds>(std::min<Nanoseconds>(deadline - Clock::now(), silence_left()),
                                               Nanoseconds(0), std::chrono::hours(1));
    const auto ready =
        ask::wait_readable({options_.cancel_fd, socket_.fd(), fd}, std::chrono::ceil<Milliseconds>(limit));
    ASK_TRY(ready, "wait for the agent");
    if ((*ready & 1U) != 0) {
        return cancelled();
    }
    const Ready is{.link = (*ready & 2U) != 0, .fd = (*ready & 4U) != 0};
    if (!is.link && !is.fd && silence_left() == Milliseconds(0)) {
        return silent();
    }
    return is;
}

Result<bool> AgentLink::wait_until(int fd, Clock::time_point deadline) {
    for (;;) {
        const auto ready = sleep(fd, deadline);
        ASK_PASS(ready);
        if (ready->link) {
            ASK_PASS(poll());
        }
        if (ready->fd) {
            return true;
        }
        if (Clock::now() >= deadline) {
            return false;
        }
    }
}

}  // namespace ask::client
