// SPDX-License-Identifier: Apache-2.0
//
// Kernel BPF objects as values: descriptors with one owner, their names under bpffs, and what the kernel says
// of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace ask::bpf {

// Gives the object a name under bpffs. kExists if the path is taken.
Result<> pin(int fd, const std::filesystem::path& path);
// Opens what is pinned there. kUnknown if nothing is.
Result<UniqueFd> open_pinned(const std::filesystem::path& path);
// Removes a name; one that is not there is fine. A link without a name and without holder detaches.
Result<> unpin(const std::filesystem::path& path);
// The same of a link, once what it attaches is off, whoever else holds it: the kernel would do that in the
// background, after this has returned.
Result<> detach_pinned(const std::filesystem::path& path);
// Removes a directory and all below it; one that is not there is fine.
Result<> unpin_tree(const std::filesystem::path& path);

Result<bpf_map_info> map_info(int fd);
Result<bpf_prog_info> prog_info(int fd);
Result<bpf_link_info> link_info(int fd);

// Whether `path` lies on a mounted bpffs; the error says how to mount one.
Result<> check_bpffs(const std::filesystem::path& path);

// A skeleton (bpftool gen skeleton) with one owner.
template <typename T>
class Skeleton {
 public:
    Skeleton() = default;
    // Opens without loading: sizes and rodata may be set. errno says why it failed.
    static Result<Skeleton> open(const char* name) {
        T* raw = T::open(nullptr);
        if (raw == nullptr) {
            return Error::from_errno(errno, std::string("open BPF object ") + name);
        }
        return Skeleton(raw);
    }
    Skeleton(Skeleton&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    Skeleton& operator=(Skeleton&& other) noexcept {
        std::swap(raw_, other.raw_);
        return *this;
    }
    Skeleton(const Skeleton&) = delete;
    Skeleton& operator=(const Skeleton&) = delete;
    ~Skeleton() { T::destroy(raw_); }

    T* operator->() { return raw_; }
    [[nodiscard]] bpf_object* object() const { return *raw_->skeleton->obj; }

 private:
    explicit Skeleton(T* raw) : raw_(raw) {}

    T* raw_ = nullptr;
};

}  // namespace ask::bpf
