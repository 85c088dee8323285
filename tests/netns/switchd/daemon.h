// SPDX-License-Identifier: Apache-2.0
//
// ask-switchd as a process, and calls to it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/tuples/types.h"
#include "proto/switch.grpc.pb.h"
#include "tests/netns/switchd/environment.h"

namespace ask::test {

// Flags that every run needs: where bpffs is, and the ports.
std::string base_flags(const std::string& ports = "p1,p2");
// Runs the daemon until it ends by itself.
CommandResult run_daemon(const std::string& flags);

class Daemon {
 public:
    // Starts it, by way of the command `wrapper`, and waits until it answers.
    explicit Daemon(const std::string& flags = "", const std::string& ports = "p1,p2",
                    const std::string& wrapper = "");
    // Stops it, and unloads the switch, so that tests do not meet.
    ~Daemon();
    Daemon(const Daemon&) = delete;
    Daemon& operator=(const Daemon&) = delete;

    // Ends the process by a signal; returns its exit status, or 128 + signal.
    int end(int signal);
    // Sends a signal that does not end it.
    void signal(int signal) const;
    // What it logged so far.
    [[nodiscard]] std::string log() const;
    [[nodiscard]] v1::Switch::Stub& stub() { return *stub_; }
    // Calls come from that address, of a host in 198.18.0.0/15.
    [[nodiscard]] v1::Switch::Stub& stub_at(std::uint32_t host);
    // Who opens tasks, and uses them: the receiver of task_request(), unless told otherwise.
    void call_as(std::uint32_t host) { receiver_ = host; }

    // Calls of channels come from the channel's host. Calls with a deadline; each returns the status and
    // leaves the reply in `*reply`, if given.
    grpc::Status register_channel(const ChannelId& channel, std::uint32_t incarnation,
                                  v1::RegisterChannelReply* reply = nullptr, std::uint32_t replaces = 0);
    grpc::Status unregister_channel(const ChannelId& channel, std::uint32_t incarnation);
    grpc::Status open_task(const v1::OpenTaskRequest& request, v1::OpenTaskReply* reply = nullptr);
    grpc::Status join_flow(std::uint64_t instance, const ChannelId& channel, std::uint32_t incarnation,
                           const CheckSecret& secret);
    grpc::Status close_task(std::uint64_t instance);
    v1::RenewTasksReply renew(const std::vector<std::uint64_t>& instances);
    v1::SwitchStatus status();
    // Of the task's region, as an operator sees it; 0: no such task is open.
    std::uint64_t nonce_of(std::uint64_t instance);
    // All entries of a copy, and the last chunk in `*last`, if given.
    struct Entry {
        std::string key;
        std::int64_t value = 0;
        bool operator==(const Entry&) const = default;
    };
    grpc::Status fetch(std::uint64_t instance, std::uint64_t epoch, std::vector<Entry>* entries,
                       v1::FetchChunk* last = nullptr);
    // The same, and closes the epoch first: swaps.
    grpc::Status swap(std::uint64_t instance, std::uint64_t epoch, std::vector<Entry>* entries,
                      v1::FetchChunk* last = nullptr);
    grpc::Status confirm(std::uint64_t instance, std::uint64_t epoch);

 private:
    grpc::Status fetch(const v1::FetchCopyRequest& request, std::vector<Entry>* entries,
                       v1::FetchChunk* last);

    std::string log_path_;
    pid_t pid_ = -1;
    std::unique_ptr<v1::Switch::Stub> stub_;
    std::mutex stubs_mutex_;
    std::map<std::uint32_t, std::unique_ptr<v1::Switch::Stub>> stubs_;  // under it; none goes
    std::uint32_t receiver_ = kHost2;
};

// A request for a task at the paper's geometry and policy with a small region.
v1::OpenTaskRequest task_request(const std::string& id, std::uint64_t instance);
// Value of a counter in a status; the test fails if there is none of the name.
std::uint64_t counter(const v1::SwitchStatus& status, const std::string& name);

}  // namespace ask::test
