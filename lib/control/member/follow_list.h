// SPDX-License-Identifier: Apache-2.0
//
// The streams that applications of this host are members of, for status. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "lib/base/runtime.h"
#include "proto/agent.pb.h"

namespace ask {

class FollowList {
 public:
    void put(std::uint64_t session, v1::AgentStream stream) {
        const Guard lock(mutex_);
        streams_[session] = std::move(stream);
    }
    void remove(std::uint64_t session) {
        const Guard lock(mutex_);
        streams_.erase(session);
    }
    [[nodiscard]] std::vector<v1::AgentStream> list() const {
        const Guard lock(mutex_);
        std::vector<v1::AgentStream> all;
        all.reserve(streams_.size());
        for (const auto& [session, stream] : streams_) {
            all.push_back(stream);
        }
        return all;
    }

 private:
    mutable Mutex mutex_;
    std::map<std::uint64_t, v1::AgentStream> streams_;
};

}  // namespace ask
