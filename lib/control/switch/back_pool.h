// SPDX-License-Identifier: Apache-2.0
//
// Tables of back levels that tasks have given back, for tasks to come: the kernel takes seconds to make a
// large one. They come in few sizes (lib/tuples/back.h), and are of use only once they are blank. Decides
// what is kept; whoever owns it blanks, and locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>

#include "lib/control/switch/store.h"

namespace ask {

struct PooledBack {
    // kDirty: has a former task's keys, and nobody blanks it yet. kFailed: could not be blanked.
    enum class State : std::uint8_t { kDirty, kBlanking, kBlank, kFailed };

    unsigned group = 0;
    std::uint32_t buckets = 0;
    OwnMapPtr map;
    State state = State::kDirty;
    bool dropped = false;  // nobody wants it any more
};
using PooledBackPtr = std::shared_ptr<PooledBack>;

class BackPool {
 public:
    // Tables; whatever their size.
    static constexpr std::size_t kMost = 64;

    // One that nobody else has: no program, no reader.
    void put(unsigned group, std::uint32_t buckets, OwnMapPtr map);
    // One of just that size, a blank one if there is one. Null: none. It is the caller's from now on, also
    // when it is still to be blanked, or somebody is just doing that.
    [[nodiscard]] PooledBackPtr take(unsigned group, std::uint32_t buckets);
    // Drops the oldest, whatever their state, until the rest has so many bytes at most.
    void keep_within(std::uint64_t bytes);
    // The oldest that is to be blanked, which is kBlanking from now on. It stays, but for being taken or
    // dropped.
    [[nodiscard]] PooledBackPtr next_to_blank();
    [[nodiscard]] bool has_dirty() const;

    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    [[nodiscard]] std::size_t count() const { return tables_.size(); }

 private:
    std::list<PooledBackPtr>::iterator erase(std::list<PooledBackPtr>::iterator at);

    std::list<PooledBackPtr> tables_;  // oldest first
    std::uint64_t bytes_ = 0;
};

}  // namespace ask
