// SPDX-License-Identifier: Apache-2.0
#include "lib/control/receive/streaming_receive.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "lib/abi/limits.h"
#include "lib/base/random.h"
#include "lib/base/wall_clock.h"
#include "lib/control/member/beside.h"
#include "lib/control/member/convert.h"

namespace ask {
namespace {

constexpr std::uint32_t kShortestWindow = 100;
constexpr milliseconds kNameWait{2000};
constexpr milliseconds kNamePause{20};
constexpr std::uint32_t kLongestWindow = 86'400'000;

// Four hexadecimal digits.
std::string draw_opening() {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "%04x", random_u32() & 0xffffU);
    return text.data();
}

}  // namespace

StreamingReceive::StreamingReceive(Member& member, SessionIo& io, v1::OpenStream request)
    : member_(member), io_(io), request_(std::move(request)) {}

void StreamingReceive::run() {
    auto result = run_within_limits([this] { return run_steps(); });
    if (is_open_) {
        member_.registry.close_stream(here_);
    }
    const std::string name = clean_name(request_.name());
    if (!result) {
        spdlog::warn("stream {}: receive ended: {}", name, result.error().text());
        io_.fail(of_stream(io_, result.error()));
    } else {
        spdlog::info("stream {}: ended, committed through {}", name, here_->stream.committed());
    }
}

Result<> StreamingReceive::run_steps() {
    ASK_PASS(check_request());
    ASK_PASS(open());
    return serve();
}

Result<> StreamingReceive::check_request() const {
    if (!is_pin_name(request_.name()) || request_.name().size() > Stream::kLongestName) {
        return Error(Errc::kUsage, "a stream's name must be 1 to " + std::to_string(Stream::kLongestName) +
                                       " of A-Z a-z 0-9 _ -");
    }
    const std::string stream = "stream " + request_.name();
    if (request_.every_ms() < kShortestWindow || request_.every_ms() > kLongestWindow) {
        return Error(Errc::kUsage, stream + ": windows must be from 0.1 s to a day long, not " +
                                       std::to_string(request_.every_ms()) + " ms");
    }
    const auto most = static_cast<int>(ASK_MAX_SENDERS);
    if (request_.senders() > ASK_MAX_SENDERS || request_.members_size() > most ||
        request_.from_size() > most || request_.token().size() > ASK_MAX_TOKEN) {
        return Error(Errc::kUsage, stream + ": at most " + std::to_string(most) +
                                       " members may be waited for, known or named, and a token has " +
                                       std::to_string(ASK_MAX_TOKEN) + " bytes at most");
    }
    if (request_.nonce() == 0) {
        return Error(Errc::kInput, stream + ": its directory has no nonce");
    }
    return {};
}

Result<Membership> StreamingReceive::choose_members() {
    Membership members;
    members.tenant = member_.options.tenant;
    members.token = request_.token();
    for (const std::string& name : request_.from()) {
        auto found = run_beside(
            io_.mailbox(), [&](CallCancel* /*cancel*/) { return member_.network.resolve(name, io_.user()); },
            [this](Clock::time_point until) { return listen(until); }, [] {});
        ASK_PASS(found);
        ASK_TRY(*found, "--from");
        members.names.push_back(name);
        members.hosts.push_back((*found)->address);
    }
    return members;
}

Result<> StreamingReceive::open() {
    const std::string stream = "stream " + request_.name();
    ASK_TRY(wire_op(request_.window().op()), stream);
    const auto deadline = task_deadline(request_.deadline_ms(), member_.options.deadline_seconds);
    ASK_TRY(deadline, stream);
    auto members = choose_members();
    ASK_PASS(members);
    here_ = std::make_shared<StreamHere>(
        StreamTerms{.name = request_.name(),
                    .every = milliseconds(request_.every_ms()),
                    .op = request_.window().op(),
                    .senders = request_.senders(),
                    .deadline = *deadline,
                    .allow_incomplete = request_.allow_incomplete(),
                    .nonce = request_.nonce(),
                    .committed = request_.committed(),
                    .version = random_u64() >> 1U,
                    .finishing = request_.finishing(),
                    .opening = draw_opening()},
        std::vector<v1::StreamMember>(request_.members().begin(), request_.members().end()),
        StreamNow{Clock::now(), unix_ms()});
    here_->members = *std::move(members);
    here_->user = io_.user();
    here_->mailbox = io_.mailbox();
    ASK_PASS(take_name());
    spdlog::info("stream {}: open, a window each {} ms, committed through {}", request_.name(),
                 request_.every_ms(), request_.committed());
    v1::LocalReply reply;
    reply.mutable_stream_open()->set_agent(member_.options.control_address);
    return io_.reply(reply);
}

// An application that has died leaves its session a moment behind, and its successor is there already.
Result<> StreamingReceive::take_name() {
    const auto until = Clock::now() + kNameWait;
    for (;;) {
        auto opened = member_.registry.open_stream(here_);
        is_open_ = opened.ok();
        if (is_open_ || opened.error().code() != Errc::kExists || Clock::now() >= until) {
            return opened;
        }
        ASK_PASS(listen(Clock::now() + kNamePause));
    }
}

Result<> StreamingReceive::serve() {
    Clock::time_point next_tick = Clock::now();
    for (;;) {
        const Stream::News news = member_.registry.advance(*here_);
        ASK_PASS(tell(news));
        if (news.failure) {
            return *news.failure;
        }
        if (news.ended) {
            return {};
        }
        if (Clock::now() >= next_tick) {
            next_tick = Clock::now() + kSessionTick;
            v1::Progress progress;
            progress.set_state(news.trouble);
            io_.progress(progress);
        }
        ASK_PASS(listen(std::min(news.next, next_tick)));
    }
}

Result<> StreamingReceive::tell(const Stream::News& news) {
    for (const std::string& said : news.said) {
        spdlog::warn("stream {}: {}", request_.name(), said);
    }
    for (const v1::StreamMember& member : news.comes) {
        v1::LocalReply reply;
        *reply.mutable_member_comes()->mutable_member() = member;
        ASK_PASS(io_.reply(reply));
    }
    for (const v1::WindowDue& due : news.due) {
        v1::LocalReply reply;
        *reply.mutable_window_due() = due;
        ASK_PASS(io_.reply(reply));
    }
    if (news.ended) {
        v1::LocalReply reply;
        reply.mutable_stream_ended();
        ASK_PASS(io_.reply(reply));
    }
    return {};
}

Result<> StreamingReceive::listen(Clock::time_point until) {
    auto wake = io_.wait(until);
    if (!wake) {
        return std::move(wake).error();
    }
    return wake->request ? handle(*wake->request) : Result<>();
}

Result<> StreamingReceive::handle(const v1::LocalRequest& request) {
    if (!is_open_) {
        return Error(Errc::kInput, "the application sent a request before its stream was open");
    }
    if (request.has_member_noted()) {
        member_.registry.note_member(*here_, request.member_noted());
    } else if (request.has_empty_taken()) {
        member_.registry.take_empty(*here_, request.empty_taken().number());
    } else if (request.has_finish_stream()) {
        member_.registry.finish(*here_);
    } else {
        return Error(Errc::kInput, "the application sent a request that does not fit a stream");
    }
    return {};
}

}  // namespace ask
