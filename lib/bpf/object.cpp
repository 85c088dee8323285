// SPDX-License-Identifier: Apache-2.0
#include "lib/bpf/object.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace ask::bpf {
namespace {

template <typename Info>
Result<Info> info_of(int fd, const char* what) {
    Info info{};
    __u32 size = sizeof(info);
    if (bpf_obj_get_info_by_fd(fd, &info, &size) != 0) {
        return Error::from_errno(errno, std::string("information about ") + what);
    }
    return info;
}

}  // namespace

Result<> pin(int fd, const std::filesystem::path& path) {
    if (bpf_obj_pin(fd, path.c_str()) != 0) {
        return Error::from_errno(errno, "pin " + path.string());
    }
    return {};
}

Result<UniqueFd> open_pinned(const std::filesystem::path& path) {
    UniqueFd fd(bpf_obj_get(path.c_str()));
    if (!fd) {
        return Error::from_errno(errno, "open pinned " + path.string());
    }
    return fd;
}

Result<> unpin(const std::filesystem::path& path) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
        return Error::from_errno(errno, "unpin " + path.string());
    }
    return {};
}

Result<> detach_pinned(const std::filesystem::path& path) {
    const UniqueFd link(bpf_obj_get(path.c_str()));
    // One that cannot be told so goes with its name, or stays with whoever else holds it.
    if (link) {
        bpf_link_detach(link.get());
    }
    return unpin(path);
}

Result<> unpin_tree(const std::filesystem::path& path) {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) {
        return Error::from_errno(error.value(), "remove " + path.string());
    }
    return {};
}

Result<bpf_map_info> map_info(int fd) {
    return info_of<bpf_map_info>(fd, "a map");
}

Result<bpf_prog_info> prog_info(int fd) {
    return info_of<bpf_prog_info>(fd, "a program");
}

Result<bpf_link_info> link_info(int fd) {
    return info_of<bpf_link_info>(fd, "a link");
}

Result<> check_bpffs(const std::filesystem::path& path) {
    struct statfs info{};
    if (::statfs(path.c_str(), &info) != 0) {
        return Error::from_errno(errno, "bpffs " + path.string());
    }
    if (static_cast<std::uint32_t>(info.f_type) != static_cast<std::uint32_t>(BPF_FS_MAGIC)) {
        return Error(Errc::kUnsupported, path.string() + " is not a bpffs: run mount -t bpf bpf " +
                                             path.string() + ", or name the mounted one by --bpffs");
    }
    return {};
}

}  // namespace ask::bpf
