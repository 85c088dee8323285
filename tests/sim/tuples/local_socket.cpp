// SPDX-License-Identifier: Apache-2.0
//
// What shadow/lib/client/local_socket.h declares.
#include "lib/client/local_socket.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <utility>

#include "tests/sim/tuples/agents.h"

namespace ask {
namespace {

// What the agent would hand over: memory that nobody changes any more.
UniqueFd sealed_memory(std::span<const std::byte> bytes) {
    UniqueFd fd(::memfd_create("ask-sim", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (::write(fd.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()) ||
        ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) {
        fd.reset();
    }
    return fd;
}

void add_table(const sim::SimSealed& sealed, std::vector<UniqueFd>& fds) {
    auto& table = const_cast<sim::SimSealed&>(sealed).table;
    const auto& memory = static_cast<const sim::ReadableMemory&>(table.memory());
    fds.push_back(sealed_memory(memory.slots));
    fds.push_back(sealed_memory(memory.keys));
}

Error away() {
    return {Errc::kUnavailable, "no agent listens there"};
}

}  // namespace

Result<LocalSocket> LocalSocket::connect(const std::string& path, Milliseconds timeout) {
    LocalSocket socket;
    std::from_chars(path.data(), path.data() + path.size(), socket.host_);
    if (!sim::await_agent(socket.host_, sim::sim_now() + timeout.count() * kMillisecond)) {
        return away();
    }
    socket.link_ = std::make_shared<std::shared_ptr<sim::Link>>();
    socket.descriptor_ = std::make_unique<sim::Descriptor>(
        [link = socket.link_] { return *link && (!(*link)->replies.empty() || (*link)->session_gone); });
    return socket;
}

void LocalSocket::close() {
    if (descriptor_ && *link_ && !std::exchange((*link_)->application_gone, true)) {
        sim::wake(*(*link_)->to_session);
    }
    if (descriptor_) {
        sim::forget_session(fd());
    }
    descriptor_.reset();
}

Result<LocalIo> LocalSocket::try_send(const v1::LocalRequest& message) {
    if (!*link_) {
        *link_ = sim::open_session(host_, message, descriptor_->ready());
        if (!*link_) {
            return away();
        }
        sim::note_session(fd(), *link_);
        return LocalIo::kDone;
    }
    if ((*link_)->session_gone) {
        return LocalIo::kClosed;
    }
    (*link_)->requests.push_back(message);
    sim::wake(*(*link_)->to_session);
    return LocalIo::kDone;
}

Result<> LocalSocket::send(const v1::LocalRequest& message, std::span<const int> /*fds*/,
                           Milliseconds /*timeout*/, int /*cancel_fd*/) {
    const auto sent = try_send(message);
    ASK_PASS(sent);
    return *sent == LocalIo::kDone ? Result<>() : Error(Errc::kUnavailable, "the agent has closed");
}

Result<LocalIo> LocalSocket::try_receive(v1::LocalReply& message, std::vector<UniqueFd>* fds) {
    sim::Link& link = **link_;
    if (link.replies.empty()) {
        return link.session_gone ? LocalIo::kClosed : LocalIo::kWouldBlock;
    }
    message = std::move(link.replies.front());
    link.replies.pop_front();
    sim::wake(*link.to_session);
    if (fds != nullptr && link.result && (message.has_done() || message.has_part())) {
        add_table(*link.result, *fds);
    }
    return LocalIo::kDone;
}

Result<> LocalSocket::receive(v1::LocalReply& message, std::vector<UniqueFd>* fds, Milliseconds timeout,
                              int cancel_fd) {
    const Nanos until = sim::sim_now() + timeout.count() * kMillisecond;
    for (;;) {
        const unsigned ready = sim::wait_for_descriptors({cancel_fd, fd()}, until);
        if ((ready & 1U) != 0) {
            return Error(Errc::kAborted, "cancelled");
        }
        const auto got = try_receive(message, fds);
        ASK_PASS(got);
        if (*got == LocalIo::kDone) {
            return {};
        }
        if (*got == LocalIo::kClosed) {
            return Error(Errc::kUnavailable, "the agent has closed");
        }
        if (sim::sim_now() >= until || sim::thrown()) {
            return Error(Errc::kDeadline, "the agent says nothing");
        }
    }
}

}  // namespace ask
