// SPDX-License-Identifier: Apache-2.0
#include "bench/fetch/fill.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/fetch/keys.h"
#include "lib/abi/back.h"
#include "lib/abi/map_types.h"
#include "lib/base/bytes.h"
#include "lib/bpf/map.h"
#include "lib/bpf/object.h"

namespace ask::bench {
namespace {

namespace fs = std::filesystem;

// Of keys that are looked at together, so that the cache misses of one hide behind those of others.
constexpr std::uint32_t kTogether = 16;

template <typename M>
Result<M> open_map(const fs::path& path) {
    auto fd = bpf::open_pinned(path);
    ASK_PASS(fd);
    return M::adopt(std::move(*fd), path.filename());
}

// The directory of the one task that has a back level.
Result<fs::path> task_in(const fs::path& pins) {
    std::error_code error;
    fs::path found;
    for (const auto& entry : fs::directory_iterator(pins / "tasks", error)) {
        if (fs::exists(entry.path() / "back8", error)) {
            if (!found.empty()) {
                return Error(Errc::kInput, pins.string() + " has several tasks with a back level");
            }
            found = entry.path();
        }
    }
    return found.empty()
               ? Result<fs::path>(Error(Errc::kInput, pins.string() + " has no task with a back level for "
                                                                      "keys of up to 8 bytes"))
               : Result<fs::path>(found);
}

class Filling {
 public:
    Filling(std::span<ask_back8> table, std::uint64_t seed) : table_(table), seed_(seed) {}

    void start(std::uint32_t number) {
        const auto key = key_of(number);
        Place place{.number = number,
                    .key = load_raw<std::uint64_t>(key.data()),
                    .value = ASK_BACK_WORD(value_of(number))};
        place.hash = ask_back_hash8(seed_, place.key);
        __builtin_prefetch(&bucket(place.hash), 1);
        places_[used_++] = place;
    }
    void finish(std::vector<std::uint32_t>& without_place) {
        for (std::size_t i = 0; i < used_; ++i) {
            if (!put(places_[i])) {
                without_place.push_back(places_[i].number);
            }
        }
        used_ = 0;
    }

 private:
    struct Place {
        std::uint32_t number = 0;
        std::uint64_t key = 0;
        std::uint64_t value = 0;
        std::uint64_t hash = 0;
    };

    [[nodiscard]] ask_back8& bucket(std::uint64_t hash) const {
        return table_[ask_back_index(hash, static_cast<std::uint32_t>(table_.size()))];
    }
    // Into the first candidate that has a free entry; such keys come once.
    bool put(const Place& place) const {
        std::uint64_t hash = place.hash;
        for (unsigned candidate = 0; candidate < ASK_BACK_CANDIDATES; ++candidate) {
            ask_back8& at = bucket(hash);
            for (unsigned entry = 0; entry < ASK_BACK8_ENTRIES; ++entry) {
                if (at.key[entry] == 0) {
                    at.key[entry] = place.key;
                    at.value[entry] = place.value;
                    return true;
                }
            }
            hash = ask_back_next(seed_, hash);
        }
        return false;
    }

    std::span<ask_back8> table_;
    std::uint64_t seed_;
    std::array<Place, kTogether> places_{};
    std::size_t used_ = 0;
};

}  // namespace

Result<std::vector<std::uint32_t>> fill_back(const fs::path& pins, std::uint32_t keys) {
    const auto task = task_in(pins);
    ASK_PASS(task);
    const auto meta_map = open_map<bpf::Map<std::uint32_t, ask_task_meta>>(*task / "meta");
    ASK_PASS(meta_map);
    const auto meta = meta_map->find(0);
    ASK_PASS(meta);
    const auto backs = open_map<bpf::Map<std::uint32_t, ask_back>>(pins / "maps" / "backs");
    ASK_PASS(backs);
    const auto back = backs->find((*meta)->index);
    ASK_PASS(back);
    const auto fd = bpf::open_pinned(*task / "back8");
    ASK_PASS(fd);
    const auto view = bpf::ArrayView<ask_back8>::map(fd->get(), (*back)->buckets[ASK_BACK_8]);
    ASK_PASS(view);
    Filling filling(view->span(), (*back)->seed);
    std::vector<std::uint32_t> without_place;
    for (std::uint32_t number = 0; number < keys;) {
        const std::uint32_t end = number + std::min(kTogether, keys - number);
        for (; number < end; ++number) {
            filling.start(number);
        }
        filling.finish(without_place);
    }
    return without_place;
}

}  // namespace ask::bench
