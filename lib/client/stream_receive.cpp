// SPDX-License-Identifier: Apache-2.0
#include "lib/client/stream_receive.h"

#include <utility>

#include "lib/base/task_id.h"
#include "lib/client/agent_link.h"
#include "lib/client/receive_request.h"
#include "lib/client/stream_name.h"

namespace ask::client {
namespace {

v1::LocalRequest open_request(const StreamReceiveOptions& options) {
    v1::LocalRequest request;
    v1::OpenStream& open = *request.mutable_open_stream();
    open.set_name(options.name);
    open.set_every_ms(static_cast<std::uint32_t>(options.every.count()));
    open.set_senders(options.senders);
    open.set_deadline_ms(static_cast<std::uint32_t>(options.deadline.count()));
    open.set_allow_incomplete(options.allow_incomplete);
    open.set_nonce(options.nonce);
    open.set_committed(options.committed);
    for (const StreamMember& member : options.members) {
        v1::StreamMember& entry = *open.add_members();
        entry.set_member(member.member);
        entry.set_name(member.name);
        entry.set_first(member.first);
        entry.set_last(member.last);
        entry.set_lost(member.lost);
    }
    open.mutable_from()->Add(options.window.from.begin(), options.window.from.end());
    open.set_token(options.window.token);
    fill_open_receive(*open.mutable_window(), options.window, Again::kNo);
    return request;
}

std::optional<StreamEvent> event_of(const v1::LocalReply& reply) {
    switch (reply.kind_case()) {
        case v1::LocalReply::kWindowDue: {
            const v1::WindowDue& due = reply.window_due();
            return StreamWindow{.number = due.number(),
                                .begins_ms = due.begins_ms(),
                                .ends_ms = due.ends_ms(),
                                .empty = due.empty(),
                                .last = due.last(),
                                .again = due.again(),
                                .task_id = due.task_id()};
        }
        case v1::LocalReply::kMemberComes: {
            const v1::StreamMember& member = reply.member_comes().member();
            return StreamMember{.member = member.member(),
                                .name = member.name(),
                                .first = member.first(),
                                .last = member.last(),
                                .lost = member.lost()};
        }
        case v1::LocalReply::kStreamEnded:
            return StreamEnded{};
        default:
            return std::nullopt;
    }
}

}  // namespace

class StreamReceiver::Impl {
 public:
    explicit Impl(AgentLink link) : link_(std::move(link)) {}
    AgentLink link_;
};

StreamReceiver::StreamReceiver(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StreamReceiver::StreamReceiver(StreamReceiver&&) noexcept = default;
StreamReceiver& StreamReceiver::operator=(StreamReceiver&&) noexcept = default;
StreamReceiver::~StreamReceiver() = default;

Result<StreamReceiver> StreamReceiver::open(const StreamReceiveOptions& options) {
    ASK_PASS(check_stream_name(options.name));
    if (options.deadline.count() <= 0 || options.deadline.count() > UINT32_MAX) {
        return Error(Errc::kUsage, "stream " + options.name + ": the deadline must be from 1 ms to 49 days");
    }
    auto link = AgentLink::open({.agent = options.agent,
                                 .task = options.name,
                                 .deadline = options.deadline,
                                 .kind = "stream",
                                 .cancel_fd = options.cancel_fd,
                                 .on_progress = options.on_progress},
                                open_request(options));
    ASK_PASS(link);
    const auto reply = link->next();
    ASK_PASS(reply);
    if (reply->kind_case() != v1::LocalReply::kStreamOpen) {
        return link->unexpected("an open stream");
    }
    return StreamReceiver(std::make_unique<Impl>(*std::move(link)));
}

Result<std::optional<StreamEvent>> StreamReceiver::next_or(int fd) {
    const auto reply = impl_->link_.next_or(fd, AgentLink::Clock::time_point::max());
    ASK_PASS(reply);
    if (!reply->has_value()) {
        return std::optional<StreamEvent>();
    }
    auto event = event_of(**reply);
    return event ? Result<std::optional<StreamEvent>>(std::move(event))
                 : impl_->link_.unexpected("what becomes of a stream");
}

Result<> StreamReceiver::noted(const StreamMember& member) {
    v1::LocalRequest request;
    v1::MemberNoted& noted = *request.mutable_member_noted();
    noted.set_member(member.member);
    noted.set_first(member.first);
    noted.set_last(member.last);
    return impl_->link_.request(request);
}

Result<> StreamReceiver::empty_taken(std::uint64_t number) {
    v1::LocalRequest request;
    request.mutable_empty_taken()->set_number(number);
    return impl_->link_.request(request);
}

Result<> StreamReceiver::finish() {
    v1::LocalRequest request;
    request.mutable_finish_stream();
    return impl_->link_.request(request);
}

}  // namespace ask::client
