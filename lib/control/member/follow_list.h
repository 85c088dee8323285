// SPDX-License-Identifier: Apache-2.0
//
// The streams that applications of this host are members of, for status and for who wants one ended.
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/runtime.h"
#include "lib/control/member/mailbox.h"
#include "lib/rpc/owner.h"
#include "proto/agent.pb.h"

namespace ask {

class FollowList {
 public:
    void put(std::uint64_t session, v1::AgentStream stream, std::shared_ptr<Mailbox> mailbox) {
        const Guard lock(mutex_);
        streams_[session] = {std::move(stream), std::move(mailbox)};
    }
    // Tells the sessions that follow a stream of that name to end, if the caller may end them; how many.
    std::uint32_t cancel(const Caller& caller, const std::string& name) {
        const Guard lock(mutex_);
        std::uint32_t told = 0;
        for (const auto& [session, entry] : streams_) {
            if (entry.stream.name() == name && may_use(caller, entry.stream.user())) {
                entry.mailbox->post(SessionEvent::Kind::kCancelled);
                ++told;
            }
        }
        return told;
    }
    void remove(std::uint64_t session) {
        const Guard lock(mutex_);
        streams_.erase(session);
    }
    [[nodiscard]] std::vector<v1::AgentStream> list() const {
        const Guard lock(mutex_);
        std::vector<v1::AgentStream> all;
        all.reserve(streams_.size());
        for (const auto& [session, entry] : streams_) {
            all.push_back(entry.stream);
        }
        return all;
    }

 private:
    struct Entry {
        v1::AgentStream stream;
        std::shared_ptr<Mailbox> mailbox;
    };
    mutable Mutex mutex_;
    std::map<std::uint64_t, Entry> streams_;
};

}  // namespace ask
