// SPDX-License-Identifier: Apache-2.0
//
// One connection to the host's agent as sends and receives share it: requests, replies, signs of life.
// Internal to lib/client.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/runtime.h"
#include "lib/client/local_socket.h"
#include "lib/client/task.h"
#include "proto/local.pb.h"

namespace ask::client {

struct LinkOptions {
    std::string agent;          // socket path; empty: agent_socket_path()
    std::string task;           // id, for messages
    Milliseconds deadline;      // of the task; the agent is given a little more to report it
    const char* kind = "task";  // what `task` is the id of
    int cancel_fd = -1;         // readable: give up (kAborted)
    std::function<void(const TaskProgress&)> on_progress{};
    // How long the link's end waits at most until the agent has given back all that it had for it; 0: not at
    // all.
    Milliseconds let_go{0};
};

class AgentLink {
 public:
    AgentLink(AgentLink&&) noexcept = default;
    AgentLink& operator=(AgentLink&&) noexcept = default;
    ~AgentLink();
    [[nodiscard]] int fd() const { return socket_.fd(); }
    // Connects and sends the opening request.
    static Result<AgentLink> open(LinkOptions options, const v1::LocalRequest& request);

    Result<> request(const v1::LocalRequest& request);
    // The same without waiting, for an agent that may have gone or have no room for what it can do without.
    void hint(const v1::LocalRequest& request);
    // A sign of life, as the answer to a Progress that wants one or unasked.
    void alive();
    // Tells the agent why nothing comes of it, as far as there is room.
    void give_up(const Error& reason, const std::vector<std::string>& lost_relays = {});
    // Those that a task that begins again is to do without, as the agent's Failed said.
    [[nodiscard]] const std::vector<std::string>& lost_relays() const { return lost_relays_; }
    // The same of senders' own switches, by their addresses.
    [[nodiscard]] const std::vector<std::string>& lost_switches() const { return lost_switches_; }
    // The agent had nothing to say so far: its silence counts from now.
    void listen_anew() { last_heard_ = Clock::now(); }
    // Waits for the next reply that is no Progress. What the agent reports as Failed becomes the error.
    Result<v1::LocalReply> next(std::vector<UniqueFd>* fds = nullptr);
    // Takes in what has come, without waiting. Anything but Progress is an error.
    Result<> poll();
    using Clock = ask::Clock;
    // The next reply that is no Progress; none: `fd` was readable before it came, or the deadline has passed.
    // Fails like next().
    Result<std::optional<v1::LocalReply>> next_or(int fd, Clock::time_point deadline);

    // Waits until `fd` is readable, taking in what the agent says meanwhile. Fails like next().
    Result<> wait_readable(int fd);
    // The same with a limit. False: it was not until then.
    Result<bool> wait_until(int fd, Clock::time_point deadline);
    // The same for what the agent owes: kDeadline when it takes longer than the deadline allows.
    Result<> wait_owed(int fd);
    // The error for a reply that is not `wanted`.
    [[nodiscard]] Error unexpected(std::string_view wanted) const;

 private:
    AgentLink(LinkOptions options, LocalSocket socket);
    // What has come that is no Progress.
    Result<std::optional<v1::LocalReply>> take();
    // What there is once something is ready, or the time is over.
    struct Ready {
        bool link = false;
        bool fd = false;
    };
    Result<Ready> sleep(int fd, Clock::time_point deadline);
    // Handles Progress and Failed; true if `reply` was a Progress.
    Result<bool> handle(const v1::LocalReply& reply);
    [[nodiscard]] Milliseconds patience() const;
    // How much longer the agent may stay silent.
    [[nodiscard]] Milliseconds silence_left() const;
    // What it is about, as messages begin.
    [[nodiscard]] std::string about() const {
        return std::string(options_.kind) + " " + options_.task + ": ";
    }
    [[nodiscard]] Error cancelled() const;
    [[nodiscard]] Error gone() const;
    [[nodiscard]] Error silent() const;

    LinkOptions options_;
    LocalSocket socket_;
    Clock::time_point last_heard_;
    Clock::time_point last_waiting_{};  // for what the other side of the task waits for
    std::vector<std::string> lost_relays_;
    std::vector<std::string> lost_switches_;
};

}  // namespace ask::client
