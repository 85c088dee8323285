// SPDX-License-Identifier: Apache-2.0
//
// Typed access to BPF maps: by system call, by memory mapping, and per possible CPU.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/bpf/object.h"

namespace ask::bpf {

// A map whose keys are K and values V, which are what the kernel holds, byte for byte. Owns its descriptor.
template <typename K, typename V>
class Map {
    static_assert(std::is_trivially_copyable_v<K> && std::is_trivially_copyable_v<V>);

 public:
    Map() = default;
    // Refuses a map of other sizes, since the kernel would read or write past K and V. `name` is for errors.
    static Result<Map> adopt(UniqueFd fd, std::string name) {
        auto info = map_info(fd.get());
        ASK_TRY(info, name);
        if (info->key_size != sizeof(K) || info->value_size != sizeof(V)) {
            return Error(Errc::kUnsupported,
                         "map " + name + " has keys of " + std::to_string(info->key_size) +
                             " and values of " + std::to_string(info->value_size) + " bytes, not " +
                             std::to_string(sizeof(K)) + " and " + std::to_string(sizeof(V)));
        }
        return Map(std::move(fd), std::move(name), info->max_entries);
    }

    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] std::uint32_t max_entries() const { return max_entries_; }

    Result<std::optional<V>> find(const K& key) const {
        V value{};
        if (bpf_map_lookup_elem(fd(), &key, &value) == 0) {
            return std::optional<V>(value);
        }
        if (errno == ENOENT) {
            return std::optional<V>();
        }
        return Error::from_errno(errno, "look up in map " + name_);
    }
    // flags: BPF_ANY, BPF_NOEXIST, BPF_EXIST.
    Result<> set(const K& key, const V& value, std::uint64_t flags = BPF_ANY) const {
        if (bpf_map_update_elem(fd(), &key, &value, flags) != 0) {
            return Error::from_errno(errno, "update map " + name_);
        }
        return {};
    }
    // A key that is not there is fine.
    Result<> erase(const K& key) const {
        if (bpf_map_delete_elem(fd(), &key) != 0 && errno != ENOENT) {
            return Error::from_errno(errno, "delete from map " + name_);
        }
        return {};
    }
    // All keys, at most max_entries: nobody else may change the map meanwhile.
    Result<std::vector<K>> keys() const {
        std::vector<K> all;
        K next{};
        const void* from = nullptr;
        while (all.size() < max_entries_ && bpf_map_get_next_key(fd(), from, &next) == 0) {
            all.push_back(next);
            from = &all.back();
        }
        if (all.size() < max_entries_ && errno != ENOENT) {
            return Error::from_errno(errno, "list map " + name_);
        }
        return all;
    }

 private:
    Map(UniqueFd fd, std::string name, std::uint32_t max_entries)
        : fd_(std::move(fd)), name_(std::move(name)), max_entries_(max_entries) {}

    UniqueFd fd_;
    std::string name_;
    std::uint32_t max_entries_ = 0;
};

// CPUs that the kernel may ever have, also those that are off: a per-CPU value has as many parts.
Result<unsigned> possible_cpus();

// A per-CPU array of V.
template <typename V>
class PerCpuArray {
    static_assert(std::is_trivially_copyable_v<V> && sizeof(V) % 8 == 0);

 public:
    PerCpuArray() = default;
    static Result<PerCpuArray> adopt(UniqueFd fd, std::string name) {
        const auto cpus = possible_cpus();
        ASK_TRY(cpus, name);
        auto map = Map<std::uint32_t, V>::adopt(std::move(fd), std::move(name));
        ASK_TRY(map, "per-CPU");
        return PerCpuArray(std::move(*map), *cpus);
    }
    [[nodiscard]] std::uint32_t max_entries() const { return map_.max_entries(); }
    [[nodiscard]] int fd() const { return map_.fd(); }

    // One value per possible CPU.
    Result<std::vector<V>> read(std::uint32_t index) const {
        std::vector<V> values(cpus_);
        if (bpf_map_lookup_elem(fd(), &index, values.data()) != 0) {
            return Error::from_errno(errno, "look up in a per-CPU map");
        }
        return values;
    }
    // Only while no program can come to the entry.
    Result<> zero(std::uint32_t index) const {
        const std::vector<V> values(cpus_);
        if (bpf_map_update_elem(fd(), &index, values.data(), BPF_ANY) != 0) {
            return Error::from_errno(errno, "zero an entry of a per-CPU map");
        }
        return {};
    }

 private:
    PerCpuArray(Map<std::uint32_t, V> map, unsigned cpus) : map_(std::move(map)), cpus_(cpus) {}

    Map<std::uint32_t, V> map_;
    unsigned cpus_ = 0;
};

// A BPF_F_MMAPABLE array in our memory, for reading only if V is const. Programs write to it at any time:
// whatever may change meanwhile is accessed atomically.
template <typename V>
class ArrayView {
    // The kernel rounds elements to 8 bytes.
    static_assert(std::is_trivially_copyable_v<V> && sizeof(V) % 8 == 0);

 public:
    ArrayView() = default;
    static Result<ArrayView> map(int fd, std::size_t entries) {
        const std::size_t bytes = entries * sizeof(V);
        const int access = std::is_const_v<V> ? PROT_READ : PROT_READ | PROT_WRITE;
        void* address = ::mmap(nullptr, bytes, access, MAP_SHARED, fd, 0);
        if (address == MAP_FAILED) {
            return Error::from_errno(errno, "map an array of " + std::to_string(bytes) + " bytes");
        }
        return ArrayView(static_cast<V*>(address), entries);
    }
    ArrayView(ArrayView&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), entries_(std::exchange(other.entries_, 0)) {}
    ArrayView& operator=(ArrayView&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(entries_, other.entries_);
        return *this;
    }
    ArrayView(const ArrayView&) = delete;
    ArrayView& operator=(const ArrayView&) = delete;
    ~ArrayView() {
        if (data_ != nullptr) {
            ::munmap(const_cast<std::remove_const_t<V>*>(data_), entries_ * sizeof(V));
        }
    }
    [[nodiscard]] std::span<V> span() const { return {data_, entries_}; }

 private:
    ArrayView(V* data, std::size_t entries) : data_(data), entries_(entries) {}

    V* data_ = nullptr;
    std::size_t entries_ = 0;
};

}  // namespace ask::bpf
