// SPDX-License-Identifier: Apache-2.0
//
// A worker's thread: commands and the rounds of its loop, and sleep until there is something to do.
#include <pthread.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <ctime>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/worker.h"
#include "agent/worker/now.h"

namespace ask {
namespace {

constexpr Nanos kRetrySend = kMillisecond;  // while the kernel takes no frames

}  // namespace

Worker::Worker(WorkerCore::Options options, std::vector<XskSocket> sockets)
    : index_(options.index),
      busy_poll_(options.busy_poll),
      core_(std::move(options), std::move(sockets)),
      inbox_(kMaxInbox) {}

Worker::~Worker() {
    stop();
}

Result<> Worker::start() {
    if (core_.epoll_fd() < 0 || !wake_.ok()) {
        return Error(Errc::kLimit, "worker " + std::to_string(index_) + ": no file descriptors left");
    }
    ASK_TRY(core_.watch(wake_.fd(), EPOLLIN), "worker");
    ASK_TRY(core_.watch_sockets(), "worker");
    thread_ = std::thread([this] { loop(); });
    ::pthread_setname_np(thread_.native_handle(), ("ask-worker-" + std::to_string(index_)).c_str());
    return {};
}

void Worker::stop() {
    stop_.store(true, std::memory_order_release);
    wake_.notify();
    if (thread_.joinable()) {
        thread_.join();
    }
}

Result<> Worker::post(std::shared_ptr<Posted> posted) {
    {
        const std::lock_guard lock(mutex_);
        if (stop_.load(std::memory_order_acquire)) {
            return Error(Errc::kAborted, "worker " + std::to_string(index_) + " has been stopped");
        }
        if (commands_.size() >= kMaxCommands) {
            return Error(Errc::kLimit, "worker " + std::to_string(index_) + ": too many commands wait");
        }
        commands_.push_back(std::move(posted));
    }
    wake_.notify();
    return {};
}

bool Worker::push(InboxPacket packet) {
    if (!inbox_.push(std::move(packet))) {
        return false;
    }
    wake_.notify();
    return true;
}

bool Worker::run_commands() {
    std::deque<std::shared_ptr<Posted>> commands;
    {
        const std::lock_guard lock(mutex_);
        commands.swap(commands_);
    }
    for (const auto& posted : commands) {
        if (!posted->taken.exchange(true)) {
            posted->run(core_);
        }
    }
    return !commands.empty();
}

void Worker::loop() {
    while (!stop_.load(std::memory_order_acquire)) {
        bool busy = run_commands();
        busy = core_.receive() || busy;
        busy = core_.take_inbox(inbox_) || busy;
        busy = core_.pump() || busy;
        const bool frames_wait = core_.kick();
        if (!stays_awake(busy) && core_.arm()) {
            sleep(frames_wait);
        }
    }
    // Callers that still wait get an answer.
    run_commands();
}

bool Worker::stays_awake(bool busy) {
    if (busy_poll_ == 0) {
        return busy;
    }
    const Nanos now = now_ns();
    if (busy) {
        last_busy_ = now;
    }
    return now - last_busy_ < busy_poll_;
}

// Until a socket, a ring, a command or a timer has something to do.
void Worker::sleep(bool frames_wait) {
    Nanos wait = core_.deadline();
    if (wait != kNever) {
        wait = std::max<Nanos>(wait - now_ns(), 0);
    }
    if (frames_wait) {
        wait = std::min(wait, kRetrySend);
    }
    timespec limit{.tv_sec = static_cast<time_t>(wait / kSecond),
                   .tv_nsec = static_cast<long>(wait % kSecond)};
    std::array<epoll_event, 8> events;
    const int n = ::epoll_pwait2(core_.epoll_fd(), events.data(), static_cast<int>(events.size()),
                                 wait == kNever ? nullptr : &limit, nullptr);
    for (int i = 0; i < n; ++i) {
        if (events[static_cast<std::size_t>(i)].data.fd == wake_.fd()) {
            wake_.drain();
        }
    }
}

}  // namespace ask
