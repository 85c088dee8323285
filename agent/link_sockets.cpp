// SPDX-License-Identifier: Apache-2.0
#include "agent/link_sockets.h"

#include <algorithm>
#include <string>
#include <utility>

#include <spdlog/spdlog.h>

namespace ask {
namespace {

BindMode bind_mode_of(const std::string& text) {
    return text == "copy" ? BindMode::kCopy : text == "zerocopy" ? BindMode::kZeroCopy : BindMode::kAuto;
}

}  // namespace

Result<> open_sockets(const AgentConfig& config, LinkSockets& on) {
    while (on.sockets.size() < std::max(on.interface.rx_queues, 1U)) {
        XskOptions options;
        options.interface = on.interface.name;
        options.mac = on.mac;
        options.queue = static_cast<std::uint32_t>(on.sockets.size());
        options.frame_bytes = frame_bytes_for_mtu(on.mtu);
        options.bind = bind_mode_of(config.bind_mode);
        options.may_send = options.queue < on.sending;
        options.busy_poll_us = config.busy_poll_us;
        auto socket = XskSocket::open(options);
        if (!socket && !on.sockets.empty() && socket.error().code() == Errc::kUnknown) {
            // The device has queues that it does not use (ethtool -l); nothing arrives there.
            return {};
        }
        if (!socket) {
            return std::move(socket).error();
        }
        on.sockets.push_back(std::move(*socket));
    }
    return {};
}

Result<> steer(const LinkSockets& on, HostProgram& program, std::size_t first) {
    for (std::size_t i = first; i < on.sockets.size(); ++i) {
        ASK_PASS(program.add_socket(on.sockets[i]));
    }
    return {};
}

Result<> open_further_sockets(const AgentConfig& config, LinkSockets& on, HostProgram& program) {
    const std::size_t before = on.sockets.size();
    ASK_TRY(open_sockets(config, on), "queues of XDP");
    ASK_TRY(steer(on, program, before), "steering");
    if (on.sockets.size() < on.interface.rx_queues) {
        spdlog::info("{}: {} of {} receive queues are in use", on.interface.name, on.sockets.size(),
                     on.interface.rx_queues);
    }
    return {};
}

Result<> check_workers(const AgentConfig& config, const LinkSockets& on) {
    const auto senders = std::ranges::count_if(on.sockets, &XskSocket::may_send);
    if (std::cmp_less_equal(config.workers, senders)) {
        return {};
    }
    return Error(Errc::kUsage, "workers = " + std::to_string(config.workers) + ", but " + on.interface.name +
                                   " has " + std::to_string(senders) +
                                   " queues in use to send on, and each worker needs one: set workers to at "
                                   "most that");
}

}  // namespace ask
