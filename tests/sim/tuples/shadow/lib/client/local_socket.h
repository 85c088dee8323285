// SPDX-License-Identifier: Apache-2.0
//
// The header of this name, for the simulator: an application's end of a session with its host's simulated
// agent (tests/sim/tuples/application.h). The agent's "socket" is the number of its host.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "proto/local.pb.h"
#include "tests/sim/tuples/application.h"
#include "tests/sim/tuples/descriptors.h"

namespace ask {

using Milliseconds = std::chrono::milliseconds;

enum class LocalIo { kDone, kWouldBlock, kClosed };

class LocalSocket {
 public:
    LocalSocket() = default;
    LocalSocket(LocalSocket&&) noexcept = default;
    LocalSocket& operator=(LocalSocket&&) noexcept = default;
    ~LocalSocket() { close(); }
    static Result<LocalSocket> connect(const std::string& path, Milliseconds timeout);

    [[nodiscard]] int fd() const { return descriptor_->number(); }
    explicit operator bool() const { return descriptor_ != nullptr; }
    void close();
    void end_sending() { close(); }
    // The first request is what opens the session.
    Result<LocalIo> try_send(const v1::LocalRequest& message);
    Result<LocalIo> try_receive(v1::LocalReply& message, std::vector<UniqueFd>* fds = nullptr);
    Result<> send(const v1::LocalRequest& message, std::span<const int> fds, Milliseconds timeout,
                  int cancel_fd = -1);
    Result<> receive(v1::LocalReply& message, std::vector<UniqueFd>* fds, Milliseconds timeout,
                     int cancel_fd = -1);

 private:
    std::uint32_t host_ = 0;
    // Where the descriptor finds it, wherever this is moved to.
    std::shared_ptr<std::shared_ptr<sim::Link>> link_;
    std::unique_ptr<sim::Descriptor> descriptor_;
};

}  // namespace ask
