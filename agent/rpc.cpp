// SPDX-License-Identifier: Apache-2.0
#include "agent/rpc.h"

#include <algorithm>
#include <utility>

#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

namespace ask {
namespace {

// How often the calls are looked at.
constexpr milliseconds kLookEvery{500};
// Channels that nobody uses and that are kept all the same: whoever is named in a message makes one.
constexpr std::size_t kSpareChannels = 64;

std::shared_ptr<grpc::Channel> make_rpc_channel(const std::string& address,
                                                const RpcCredentials& credentials) {
    constexpr int kFirstRetryMs = 50;
    constexpr int kLastRetryMs = 500;
    grpc::ChannelArguments arguments;
    // Peers start in any order: look again often. Addresses are on our own network: no proxy leads there.
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstRetryMs);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kLastRetryMs);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLastRetryMs);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    return grpc::CreateCustomChannel(address, credentials.of_channel(), arguments);
}

}  // namespace

RpcChannels::RpcChannels(std::shared_ptr<RpcCredentials> credentials)
    : credentials_(std::move(credentials)), watch_([this] { end_overdue_calls(); }) {}

RpcChannels::~RpcChannels() {
    {
        const Guard lock(mutex_);
        stop_ = true;
    }
    stopping_.notify_all();
    watch_.join();
}

void RpcChannels::end_overdue_calls() {
    Lock lock(mutex_);
    while (!stopping_.wait_for(lock, kLookEvery, [this] { return stop_; })) {
        for (const auto& [context, deadline] : calls_) {
            if (Clock::now() > deadline) {
                context->TryCancel();
            }
        }
    }
}

std::shared_ptr<grpc::Channel> RpcChannels::get(const std::string& address) {
    const Guard lock(mutex_);
    const std::uint64_t generation = credentials_->generation();
    Kept& kept = channels_[address];
    if (!kept.channel || kept.generation != generation) {
        kept.channel = make_rpc_channel(address, *credentials_);
        kept.generation = generation;
    }
    kept.used = ++uses_;
    auto channel = kept.channel;
    drop_unused();
    return channel;
}

void RpcChannels::drop_unused() {
    const auto unused = [](const auto& entry) { return entry.second.channel.use_count() == 1; };
    auto spare = static_cast<std::size_t>(std::ranges::count_if(channels_, unused));
    while (spare-- > kSpareChannels) {
        auto oldest = channels_.end();
        for (auto entry = channels_.begin(); entry != channels_.end(); ++entry) {
            if (unused(*entry) && (oldest == channels_.end() || entry->second.used < oldest->second.used)) {
                oldest = entry;
            }
        }
        channels_.erase(oldest);
    }
}

std::size_t RpcChannels::size() {
    const Guard lock(mutex_);
    return channels_.size();
}

void RpcChannels::learn_switch(const std::vector<std::string>& addresses) {
    constexpr std::size_t kMost = 1024;
    const Guard lock(mutex_);
    for (const std::string& address : addresses) {
        if (learned_.size() < kMost) {
            learned_.insert(address);
        }
    }
}

bool RpcChannels::is_learned(const std::string& address) {
    const Guard lock(mutex_);
    return learned_.contains(address);
}

void RpcChannels::cancel_calls() {
    const Guard lock(mutex_);
    for (const auto& [context, deadline] : calls_) {
        context->TryCancel();
    }
}

RpcCall::RpcCall(RpcChannels& channels, milliseconds wait, CallCancel* cancel, RpcWait kind)
    : channels_(channels),
      wait_(wait),
      deadline_(Clock::now() + wait),
      cancel_(cancel, [this] { context_.TryCancel(); }) {
    // The end of a stream that is under way is not known to gRPC; of other calls it is the first to know.
    const bool whole = kind == RpcWait::kWhole;
    if (whole) {
        set_deadline(context_, wait);
    }
    {
        const Guard lock(channels_.mutex_);
        channels_.calls_.emplace(&context_, whole ? deadline_ + kLookEvery : deadline_);
    }
}

void RpcCall::next_part() {
    deadline_ = Clock::now() + wait_;
    const Guard lock(channels_.mutex_);
    channels_.calls_[&context_] = deadline_;
}

grpc::Status RpcCall::verdict(const grpc::Status& status) const {
    const bool overdue = status.error_code() == grpc::StatusCode::CANCELLED && Clock::now() > deadline_;
    return overdue ? grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "no answer in time") : status;
}

RpcCall::~RpcCall() {
    const Guard lock(channels_.mutex_);
    channels_.calls_.erase(&context_);
}

}  // namespace ask
