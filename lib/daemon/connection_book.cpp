// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/connection_book.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

namespace ask {
namespace {

// 0: none is open there.
ino_t socket_at(int fd) {
    struct stat info{};
    return ::fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode) ? info.st_ino : 0;
}

}  // namespace

ConnectionBook::Bounds connection_bounds(std::size_t descriptors) {
    constexpr std::size_t kMost = 4096;
    // An agent needs one to each switch and agent, whatever it does there.
    constexpr std::size_t kPeerMost = 64;
    const std::size_t all = std::clamp<std::size_t>(descriptors / 4, 16, kMost);
    return {.all = all, .per_peer = std::min(kPeerMost, all / 4)};
}

ConnectionBook::Verdict ConnectionBook::judge(const std::string& peer) {
    const auto verdict = [&] {
        const auto held = by_peer_.find(peer);
        return held != by_peer_.end() && held->second >= bounds_.per_peer ? Verdict::kPeerHasEnough
               : entries_.size() >= bounds_.all                           ? Verdict::kAllTaken
                                                                          : Verdict::kWelcome;
    };
    if (verdict() != Verdict::kWelcome) {
        forget_closed();
    }
    return verdict();
}

void ConnectionBook::note(int fd, const std::string& peer) {
    if (const auto former = entries_.find(fd); former != entries_.end()) {
        forget(former);
    }
    entries_.emplace(fd, Entry{.socket = socket_at(fd), .peer = peer});
    ++by_peer_[peer];
}

void ConnectionBook::forget_closed() {
    for (auto entry = entries_.begin(); entry != entries_.end();) {
        const auto next = std::next(entry);
        if (socket_at(entry->first) != entry->second.socket) {
            forget(entry);
        }
        entry = next;
    }
}

void ConnectionBook::forget(std::map<int, Entry>::iterator entry) {
    if (const auto held = by_peer_.find(entry->second.peer); held != by_peer_.end() && --held->second == 0) {
        by_peer_.erase(held);
    }
    entries_.erase(entry);
}

}  // namespace ask
