// SPDX-License-Identifier: Apache-2.0
#include "lib/control/switch/back_pool.h"

#include <algorithm>
#include <utility>

#include "lib/tuples/back.h"

namespace ask {
namespace {

std::uint64_t bytes_of(const PooledBack& table) {
    return std::uint64_t{table.buckets} * kBackBucketBytes[table.group];
}

}  // namespace

void BackPool::put(unsigned group, std::uint32_t buckets, OwnMapPtr map) {
    auto table = std::make_shared<PooledBack>();
    table->group = group;
    table->buckets = buckets;
    table->map = std::move(map);
    bytes_ += bytes_of(*table);
    tables_.push_back(std::move(table));
}

std::list<PooledBackPtr>::iterator BackPool::erase(std::list<PooledBackPtr>::iterator at) {
    bytes_ -= bytes_of(**at);
    return tables_.erase(at);
}

PooledBackPtr BackPool::take(unsigned group, std::uint32_t buckets) {
    auto found = tables_.end();
    for (auto at = tables_.begin(); at != tables_.end(); ++at) {
        const PooledBack& table = **at;
        if (table.group == group && table.buckets == buckets && table.state != PooledBack::State::kFailed &&
            (found == tables_.end() || table.state == PooledBack::State::kBlank)) {
            found = at;
        }
    }
    if (found == tables_.end()) {
        return nullptr;
    }
    PooledBackPtr taken = *found;
    erase(found);
    return taken;
}

void BackPool::keep_within(std::uint64_t bytes) {
    for (auto at = tables_.begin(); at != tables_.end();) {
        if ((*at)->state == PooledBack::State::kFailed || bytes_ > bytes || tables_.size() > kMost) {
            (*at)->dropped = true;
            at = erase(at);
        } else {
            ++at;
        }
    }
}

PooledBackPtr BackPool::next_to_blank() {
    const auto at = std::ranges::find_if(
        tables_, [](const PooledBackPtr& table) { return table->state == PooledBack::State::kDirty; });
    if (at == tables_.end()) {
        return nullptr;
    }
    (*at)->state = PooledBack::State::kBlanking;
    return *at;
}

bool BackPool::has_dirty() const {
    return std::ranges::any_of(
        tables_, [](const PooledBackPtr& table) { return table->state == PooledBack::State::kDirty; });
}

}  // namespace ask
