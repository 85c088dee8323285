// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/window_receive.h"

#include <utility>

namespace ask::cli {

void WindowResults::add(WindowResult result) {
    {
        const Guard lock(mutex_);
        results_.push_back(std::move(result));
    }
    event_.notify();
}

std::vector<WindowResult> WindowResults::take() {
    event_.drain();
    const Guard lock(mutex_);
    return std::exchange(results_, {});
}

WindowReceive::WindowReceive(client::ReceiveOptions options, WindowResults& results)
    : options_(std::move(options)) {
    options_.cancel_fd = cancel_.fd();
    thread_ = Thread([this, &results] { run(results); });
}

WindowReceive::~WindowReceive() {
    cancel_.notify();
    thread_.join();
}

void WindowReceive::run(WindowResults& results) {
    WindowResult window;
    window.number = options_.window;
    options_.on_lost = [&window](const std::vector<std::string>& relays,
                                 const std::vector<std::string>& switches) {
        window.lost_relays = relays;
        window.lost_switches = switches;
    };
    auto session = client::ReceiveSession::open(options_);
    if (!session) {
        window.error = session.error().text();
        results.add(std::move(window));
        return;
    }
    auto result = session->wait();
    if (result) {
        window.session = *std::move(session);
        window.result = *std::move(result);
    } else {
        window.error = result.error().text();
    }
    results.add(std::move(window));
}

}  // namespace ask::cli
