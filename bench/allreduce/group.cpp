// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <utility>

#include "bench/allreduce/ways.h"
#include "lib/client/group_session.h"

namespace ask::bench {
namespace {

GroupType type_of(Dtype dtype) {
    switch (dtype) {
        case Dtype::kInt32:
            return GroupType::kInt32;
        case Dtype::kInt64:
            return GroupType::kInt64;
        case Dtype::kFloat32:
            return GroupType::kFloat32;
        case Dtype::kFloat64:
            return GroupType::kFloat64;
    }
    return GroupType::kInt32;
}

// The arena is two halves: what is summed, and behind it, at the same offsets, the sums.
class Group final : public Way {
 public:
    Group(const Work& work, GroupOp op, client::GroupSession session)
        : type_(type_of(work.dtype)), op_(op), session_(std::move(session)) {}

    Result<const std::byte*> reduce(std::byte* vector, std::size_t count) override {
        const auto in = static_cast<std::uint64_t>(vector - session_.arena().data());
        const std::uint64_t out = in + half();
        ASK_PASS(run(
            {.kind = GroupKind::kAllreduce, .type = type_, .op = op_, .in = in, .out = out, .count = count}));
        return session_.arena().data() + out;
    }
    Result<> barrier(std::byte* /*few*/) override { return run({.kind = GroupKind::kBarrier}); }
    std::byte* place(std::size_t bytes) override {
        return bytes <= half() ? session_.arena().data() : nullptr;
    }
    [[nodiscard]] std::string note() const override { return session_.note(); }
    Result<> leave() override { return session_.close(); }

 private:
    [[nodiscard]] std::uint64_t half() const {
        return session_.arena().size() / 2 / kGroupAlignment * kGroupAlignment;
    }
    Result<> run(const GroupDescriptor& descriptor) {
        const auto number = session_.submit(descriptor);
        ASK_PASS(number);
        return session_.wait(*number);
    }

    GroupType type_;
    GroupOp op_;
    client::GroupSession session_;
};

}  // namespace

Result<std::unique_ptr<Way>> join_group(const Work& work, const AskPeers& peers) {
    client::GroupOptions options;
    options.group = peers.group;
    options.root = peers.root;
    options.rank = work.rank;
    options.size = work.size;
    options.deadline = std::chrono::seconds(work.deadline_seconds);
    options.no_switch = peers.no_switch;
    options.arena_bytes = 2 * (work.room() + kGroupAlignment);
    auto session = client::GroupSession::open(options);
    ASK_PASS(session);
    return std::unique_ptr<Way>(
        std::make_unique<Group>(work, peers.sum32 ? GroupOp::kSum32 : GroupOp::kSum, std::move(*session)));
}

}  // namespace ask::bench
