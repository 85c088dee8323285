// SPDX-License-Identifier: Apache-2.0
//
// SwitchAgg's switch by the rules of its sections 4.1, 4.2 and 5, as far as they go: what they leave open is
// for each trace to say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ask::test {

// Table 1, the aggregation packet. A value is a 32-bit integer (section 4.2.3).
struct PublishedPacket {
    std::vector<std::pair<std::string, std::int32_t>> pairs;
    bool eot = false;  // the last of its worker
};

class PublishedSwitch {
 public:
    // `places` of the front; with or without the back-end engine; `children` that end the task.
    PublishedSwitch(std::size_t places, bool two_levels, unsigned children)
        : front_(places), two_levels_(two_levels), children_(children) {}

    // What goes to the next hop: pairs that were evicted, and everything once all children have ended.
    std::vector<PublishedPacket> on_packet(const PublishedPacket& packet) {
        PublishedPacket out;
        for (const auto& [key, value] : packet.pairs) {
            offer(pad(key), value, out);
        }
        if (packet.eot && --children_ == 0) {
            flush(out);
            out.eot = true;
        }
        return out.pairs.empty() && !out.eot ? std::vector<PublishedPacket>() : std::vector{out};
    }

    // Another tree is configured: memory is divided evenly among all of them (section 4.2.2). What becomes of
    // pairs whose place is another's now, the paper does not say: they go on, at best.
    PublishedPacket share_with(std::size_t trees) {
        PublishedPacket out;
        std::vector<std::optional<Pair>> before(front_.size() / trees);
        before.swap(front_);
        for (const auto& place : before) {
            if (place) {
                offer(place->first, place->second, out);
            }
        }
        return out;
    }

    // Power is gone and back: the tables are empty; how many children are to end is configured anew.
    void restart(unsigned children) {
        front_.assign(front_.size(), std::nullopt);
        back_.clear();
        children_ = children;
    }

 private:
    using Pair = std::pair<std::string, std::int32_t>;

    // "a key has a length less than the hash slot will be padded with zero": slots are of 8, 16, ... 64
    // bytes.
    static std::string pad(std::string key) {
        key.resize((key.size() + 7) / 8 * 8, '\0');
        return key;
    }
    static std::int32_t sum(std::int32_t a, std::int32_t b) {
        return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
    }

    void offer(const std::string& key, std::int32_t value, PublishedPacket& out) {
        std::optional<Pair>& place = front_[std::hash<std::string>{}(key) % front_.size()];
        if (place && place->first == key) {
            place->second = sum(place->second, value);
            return;
        }
        if (place) {
            evict(*place, out);
        }
        place = Pair(key, value);
    }
    void evict(const Pair& pair, PublishedPacket& out) {
        if (!two_levels_) {
            out.pairs.push_back(pair);
            return;
        }
        const auto [at, fresh] = back_.try_emplace(pair.first, pair.second);
        if (!fresh) {
            at->second = sum(at->second, pair.second);
        }
    }
    void flush(PublishedPacket& out) {
        for (auto& place : front_) {
            if (place) {
                evict(*place, out);
                place.reset();
            }
        }
        out.pairs.insert(out.pairs.end(), back_.begin(), back_.end());
        back_.clear();
    }

    std::vector<std::optional<Pair>> front_;
    std::map<std::string, std::int32_t> back_;
    bool two_levels_;
    unsigned children_;
};

// The reducer adds up what comes.
class PublishedReducer {
 public:
    void on_packet(const PublishedPacket& packet) {
        for (const auto& [key, value] : packet.pairs) {
            answer_[key.substr(0, key.find('\0'))] += value;
        }
    }
    [[nodiscard]] const std::map<std::string, std::int64_t>& answer() const { return answer_; }

 private:
    std::map<std::string, std::int64_t> answer_;
};

}  // namespace ask::test
