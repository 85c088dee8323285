// SPDX-License-Identifier: Apache-2.0
#include "lib/client/result_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace ask::client {
namespace {

std::uint64_t prefix_of(std::string_view key) {
    std::uint64_t word = 0;
    std::memcpy(&word, key.data(), std::min(key.size(), sizeof(word)));
    return std::endian::native == std::endian::little ? __builtin_bswap64(word) : word;
}

// A number that is the smaller the larger the value.
std::uint64_t largest_first(std::int64_t value) {
    return ~(static_cast<std::uint64_t>(value) ^ (std::uint64_t{1} << 63U));
}

}  // namespace

Result<ReadMapping> ReadMapping::map(const UniqueFd& fd) {
    constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_WRITE;
    const int seals = ::fcntl(fd.get(), F_GET_SEALS);
    struct stat info{};
    if (seals < 0 || ::fstat(fd.get(), &info) != 0) {
        return Error::from_errno(errno, "look at shared memory");
    }
    if ((seals & kNeeded) != kNeeded) {
        return Error(Errc::kInput, "shared memory is not sealed: it may change while it is read");
    }
    ReadMapping mapping;
    const auto size = static_cast<std::size_t>(info.st_size);
    if (size == 0) {
        return mapping;
    }
    // Private: kernels before 6.7 refuse a shared mapping of write-sealed memory, even for reading.
    void* const base = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (base == MAP_FAILED) {
        return Error::from_errno(errno, "map " + std::to_string(size) + " bytes of shared memory");
    }
    mapping.bytes_ = {static_cast<const std::byte*>(base), size};
    return mapping;
}

ReadMapping& ReadMapping::operator=(ReadMapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
}

ReadMapping::~ReadMapping() {
    if (!bytes_.empty()) {
        ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    }
}

Result<ResultMap> ResultMap::open(UniqueFd slots, UniqueFd keys) {
    auto slot_memory = ReadMapping::map(slots);
    if (!slot_memory) {
        return std::move(slot_memory).error().with_context("result table");
    }
    auto key_memory = ReadMapping::map(keys);
    if (!key_memory) {
        return std::move(key_memory).error().with_context("result keys");
    }
    auto view = TableView::open(slot_memory->bytes(), key_memory->bytes());
    if (!view) {
        return std::move(view).error().with_context("result table");
    }
    return ResultMap(*std::move(slot_memory), *std::move(key_memory), *view);
}

Result<std::vector<ResultMap::Ref>> ResultMap::sorted(Order order, std::uint64_t most,
                                                      const std::function<void()>& pulse) const {
    constexpr std::uint64_t kPulseEvery = 1U << 20U;
    std::uint64_t steps = 0;
    const auto step = [&] {
        if (++steps % kPulseEvery == 0) {
            pulse();
        }
    };
    const auto key = [this](const Ref& ref) { return view_.at(ref.slot).value().key; };
    const auto before = [&](const Ref& a, const Ref& b) {
        step();
        return a.prefix != b.prefix ? a.prefix < b.prefix : key(a) < key(b);
    };
    std::vector<Ref> refs;
    // A damaged table may claim any number of keys.
    const std::uint64_t claimed = std::min(view_.size(), view_.slots());
    refs.reserve(std::min(claimed, most));
    std::uint64_t found = 0;
    for (std::uint64_t slot = 0; slot < view_.slots(); ++slot) {
        step();
        auto item = view_.at(slot);
        if (!item) {
            return std::move(item).error();
        }
        if (!item->used) {
            continue;
        }
        ++found;
        const Ref ref{order == Order::kKey ? prefix_of(item->key) : largest_first(item->value), slot};
        if (refs.size() < most) {
            refs.push_back(ref);
            if (refs.size() == most) {
                std::ranges::make_heap(refs, before);
            }
        } else if (most > 0 && before(ref, refs.front())) {
            // The last of those that are kept makes room.
            std::ranges::pop_heap(refs, before);
            refs.back() = ref;
            std::ranges::push_heap(refs, before);
        }
    }
    if (found != view_.size()) {
        return Error(Errc::kInput, "result table: " + std::to_string(found) + " keys instead of " +
                                       std::to_string(view_.size()) + "; the table is damaged");
    }
    // Every entry has just been read without error, so it can be again.
    std::ranges::sort(refs, before);
    return refs;
}

}  // namespace ask::client
