// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/ask/group_agent.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>

#include <doctest/doctest.h>

#include "lib/client/group_ring.h"
#include "lib/client/local_socket.h"
#include "lib/client/shared_memory.h"
#include "proto/local.pb.h"

namespace ask::test {

struct GroupAgent::Member {
    LocalSocket socket;
    GroupRing ring;
    UniqueFd arena_fd;
    SharedMapping arena;
    std::deque<GroupDescriptor> under_way;
};

namespace {

constexpr Milliseconds kPatience{10'000};
constexpr GroupOp kUnknownOp = GroupOp::kProduct;

template <typename T>
T* vector_at(std::byte* arena, std::uint64_t offset) {
    return reinterpret_cast<T*>(arena + offset);
}

// The sum, or what the root has, of values of one type.
template <typename T>
void combine(const std::vector<std::pair<std::byte*, GroupDescriptor>>& all) {
    const GroupDescriptor& first = all.front().second;
    std::vector<T> result(first.count);
    for (std::uint32_t rank = 0; rank < all.size(); ++rank) {
        const auto& [arena, descriptor] = all[rank];
        const T* const in = vector_at<T>(arena, descriptor.in);
        const bool counts = descriptor.kind != GroupKind::kBroadcast || descriptor.root == rank;
        for (std::uint64_t i = 0; i < descriptor.count && counts; ++i) {
            result[i] = descriptor.op == GroupOp::kMax ? std::max(result[i], in[i])
                                                       : static_cast<T>(result[i] + in[i]);
        }
    }
    for (std::uint32_t rank = 0; rank < all.size(); ++rank) {
        const auto& [arena, descriptor] = all[rank];
        // As a real one, which writes nothing where nothing is to come.
        if (descriptor.kind == GroupKind::kAllreduce ||
            (descriptor.kind == GroupKind::kReduce) == (descriptor.root == rank)) {
            std::ranges::copy(result, vector_at<T>(arena, descriptor.out));
        }
    }
}

}  // namespace

GroupAgent::GroupAgent(unsigned members, std::uint64_t fails_at, bool holds)
    : size_(members), fails_at_(fails_at), holds_(holds) {
    std::string pattern = "/tmp/ask-group.XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    dir_ = pattern;
    path_ = dir_ + "/agent.sock";
    auto listener = LocalListener::listen(path_, ::getgid());
    REQUIRE(listener);
    listener_ = std::make_unique<LocalListener>(*std::move(listener));
    thread_ = std::thread([this] { run(); });
}

GroupAgent::~GroupAgent() {
    thread_.join();
    listener_.reset();
    std::filesystem::remove_all(dir_);
}

// All members, by rank, before any is answered.
void GroupAgent::admit() {
    members_.resize(size_);
    std::vector<std::uint64_t> arenas(size_);
    for (unsigned joined = 0; joined < size_; ++joined) {
        REQUIRE(*wait_fd(listener_->fd(), POLLIN, kPatience));
        auto socket = listener_->accept();
        REQUIRE(socket);
        v1::LocalRequest request;
        REQUIRE(socket->receive(request, nullptr, kPatience));
        const v1::OpenGroup& open = request.open_group();
        REQUIRE(open.rank() < size_);
        auto ring = GroupRing::create();
        REQUIRE(ring);
        auto fd = make_shared_memory("ask-group-arena", open.arena_bytes());
        REQUIRE(fd);
        auto arena = SharedMapping::map(*fd, open.arena_bytes());
        REQUIRE(arena);
        arenas[open.rank()] = open.arena_bytes();
        members_[open.rank()] = std::make_unique<Member>(
            Member{*std::move(socket), *std::move(ring), *std::move(fd), *std::move(arena), {}});
    }
    for (unsigned rank = 0; rank < size_; ++rank) {
        Member& member = *members_[rank];
        v1::LocalReply reply;
        reply.mutable_group_ready()->set_instance(7);
        reply.mutable_group_ready()->set_arena_bytes(arenas[rank]);
        const auto [memory, wake, woken] = member.ring.application_fds();
        const std::array<int, 4> fds = {member.arena_fd.get(), memory, wake, woken};
        REQUIRE(member.socket.send(reply, fds, kPatience));
    }
}

// False: the member has gone.
bool GroupAgent::serve(Member& member) {
    v1::LocalRequest request;
    auto io = member.socket.try_receive(request);
    if (!io || *io == LocalIo::kClosed) {
        return false;
    }
    if (*io == LocalIo::kDone && request.kind_case() == v1::LocalRequest::kCloseGroup) {
        v1::LocalReply reply;
        reply.mutable_group_left();
        static_cast<void>(member.socket.send(reply, {}, kPatience));
    }
    for (;;) {
        auto next = member.ring.next();
        REQUIRE(next);
        if (*next) {
            member.under_way.push_back(**next);
        } else if (!member.ring.arm()) {
            return true;
        }
    }
}

void GroupAgent::reduce() {
    while (!holds_ &&
           std::ranges::all_of(members_, [](const auto& each) { return each && !each->under_way.empty(); })) {
        std::vector<std::pair<std::byte*, GroupDescriptor>> all;
        for (const auto& member : members_) {
            all.emplace_back(member->arena.data(), member->under_way.front());
            member->under_way.pop_front();
        }
        const GroupDescriptor& first = all.front().second;
        if (first.op == kUnknownOp) {
            for (const auto& member : members_) {
                member->ring.complete(first.number, static_cast<std::int32_t>(Errc::kUnsupported),
                                      "this agent knows no products");
            }
            continue;
        }
        if (first.number == fails_at_) {
            v1::LocalReply reply;
            reply.mutable_failed()->set_code(static_cast<int>(Errc::kAborted));
            reply.mutable_failed()->set_error("group g: rank 1 (h2) has died");
            for (const auto& member : members_) {
                static_cast<void>(member->socket.send(reply, {}, kPatience));
            }
            return;
        }
        switch (first.kind == GroupKind::kBarrier ? GroupType{} : first.type) {
            case GroupType::kInt32:
                combine<std::int32_t>(all);
                break;
            case GroupType::kInt64:
                combine<std::int64_t>(all);
                break;
            case GroupType::kFloat32:
                combine<float>(all);
                break;
            case GroupType::kFloat64:
                combine<double>(all);
                break;
            case GroupType::kBfloat16:
            case GroupType::kFloat16:
            case GroupType::kUint16:
                combine<std::uint16_t>(all);  // of floats: no sum that a test may look at
                break;
            case GroupType::kInt16:
                combine<std::int16_t>(all);
                break;
            case GroupType::kInt8:
                combine<std::int8_t>(all);
                break;
            case GroupType::kUint8:
                combine<std::uint8_t>(all);
                break;
            case GroupType::kUint32:
                combine<std::uint32_t>(all);
                break;
            case GroupType::kUint64:
                combine<std::uint64_t>(all);
                break;
        }
        for (const auto& member : members_) {
            member->ring.complete(first.number, 0);
        }
    }
}

void GroupAgent::refuse() {
    auto socket = listener_->accept();
    REQUIRE(socket);
    v1::LocalRequest request;
    REQUIRE(socket->receive(request, nullptr, kPatience));
    const v1::OpenGroup& open = request.open_group();
    v1::LocalReply reply;
    reply.mutable_failed()->set_code(static_cast<int>(Errc::kAborted));
    reply.mutable_failed()->set_error(
        "rank " + std::to_string(open.rank()) + " of " + std::to_string(open.size()) + ", shrink of " +
        std::to_string(open.shrink_of()) + " with " + std::to_string(open.operations()) + " operations");
    REQUIRE(socket->send(reply, {}, kPatience));
}

void GroupAgent::run() {
    admit();
    for (;;) {
        if (*wait_fd(listener_->fd(), POLLIN, Milliseconds(0))) {
            refuse();
        }
        for (auto& member : members_) {
            if (member && !serve(*member)) {
                member.reset();
            }
        }
        reduce();
        std::vector<pollfd> fds;
        for (const auto& member : members_) {
            if (member) {
                fds.push_back({member->socket.fd(), POLLIN, 0});
                fds.push_back({member->ring.event(), POLLIN, 0});
            }
        }
        if (fds.empty()) {
            return;
        }
        fds.push_back({listener_->fd(), POLLIN, 0});
        REQUIRE(::poll(fds.data(), fds.size(), static_cast<int>(kPatience.count())) > 0);
    }
}

}  // namespace ask::test
