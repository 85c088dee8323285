// SPDX-License-Identifier: Apache-2.0
//
// The tasks that applications of this host send to, for status and for who wants one ended. Thread-safe.
#pragma once

#include <cstddef>
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

class SendList {
 public:
    struct Entry {
        v1::AgentTask task;
        std::uint16_t port = 0;  // of its channel; 0: none yet
        std::shared_ptr<Mailbox> mailbox;
    };
    // Tells the sessions that send to a task of that id to end, if the caller may end them; how many.
    std::uint32_t cancel(const Caller& caller, const std::string& id) {
        const Guard lock(mutex_);
        std::uint32_t told = 0;
        for (const auto& [sender, entry] : tasks_) {
            if (entry.task.id() == id && may_use(caller, entry.task.user())) {
                entry.mailbox->post(SessionEvent::Kind::kCancelled);
                ++told;
            }
        }
        return told;
    }
    void put(std::uint64_t sender, Entry entry) {
        const Guard lock(mutex_);
        tasks_[sender] = std::move(entry);
    }
    void remove(std::uint64_t sender) {
        const Guard lock(mutex_);
        tasks_.erase(sender);
    }
    [[nodiscard]] std::size_t size() const {
        const Guard lock(mutex_);
        return tasks_.size();
    }
    [[nodiscard]] std::vector<Entry> list() const {
        const Guard lock(mutex_);
        std::vector<Entry> all;
        all.reserve(tasks_.size());
        for (const auto& [sender, entry] : tasks_) {
            all.push_back(entry);
        }
        return all;
    }

 private:
    mutable Mutex mutex_;
    std::map<std::uint64_t, Entry> tasks_;
};

}  // namespace ask
