// SPDX-License-Identifier: Apache-2.0
//
// Which connections a server has, and who holds them: so that nobody takes them all.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace ask {

// The server that a connection is handed to closes it when it likes, and says nothing: an entry is good as
// long as its descriptor is still the same socket. For one thread.
class ConnectionBook {
 public:
    struct Bounds {
        std::size_t all = 0;
        std::size_t per_peer = 0;
    };
    enum class Verdict : std::uint8_t { kWelcome, kPeerHasEnough, kAllTaken };

    explicit ConnectionBook(Bounds bounds) : bounds_(bounds) {}

    // Whether `peer` may have one more.
    [[nodiscard]] Verdict judge(const std::string& peer);
    // Before the descriptor is handed over.
    void note(int fd, const std::string& peer);
    [[nodiscard]] std::size_t size() const { return entries_.size(); }
    [[nodiscard]] Bounds bounds() const { return bounds_; }

 private:
    struct Entry {
        ino_t socket = 0;
        std::string peer;
    };
    void forget_closed();
    void forget(std::map<int, Entry>::iterator entry);

    const Bounds bounds_;
    std::map<int, Entry> entries_;  // by descriptor
    std::map<std::string, std::size_t> by_peer_;
};

// What a process that may have `descriptors` lets into one server: a quarter of them, and of those a peer's
// share.
[[nodiscard]] ConnectionBook::Bounds connection_bounds(std::size_t descriptors);

}  // namespace ask
