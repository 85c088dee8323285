// SPDX-License-Identifier: Apache-2.0
#include "loader/pin_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/bpf/object.h"

namespace ask {
namespace {

constexpr std::string_view kDot = "%2e";

Result<> make_directory(const std::filesystem::path& path, mode_t mode = 0755) {
    if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) {
        return Error::from_errno(errno, "create " + path.string());
    }
    return {};
}

Result<std::vector<std::string>> names_in(const std::filesystem::path& directory) {
    std::vector<std::string> names;
    std::error_code error;
    for (auto it = std::filesystem::directory_iterator(directory, error);
         !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
        names.push_back(it->path().filename().string());
    }
    if (error && error != std::errc::no_such_file_or_directory) {
        return Error::from_errno(error.value(), "list " + directory.string());
    }
    return names;
}

// Whoever may open the directory may hold a lock on it, and so keep every ask-switchd from starting: nobody
// but who runs it may. A directory of a former version is closed to others here.
Result<> close_to_others(int fd, const std::filesystem::path& path) {
    constexpr mode_t kOthers = S_IRWXG | S_IRWXO;
    struct stat info{};
    if (::fstat(fd, &info) != 0) {
        return Error::from_errno(errno, "look at " + path.string());
    }
    if (info.st_uid != ::geteuid()) {
        return Error(Errc::kDenied,
                     path.string() + " belongs to user " + std::to_string(info.st_uid) +
                         ", not to who runs ask-switchd: remove it, or choose another --pin-dir");
    }
    if ((info.st_mode & kOthers) != 0 && ::fchmod(fd, S_IRWXU) != 0) {
        return Error::from_errno(errno, "close " + path.string() + " to others");
    }
    return {};
}

// Whether `path` still is what `fd` was opened as: whoever had the lock before may have removed it.
bool is_same(int fd, const std::filesystem::path& path) {
    struct stat opened{};
    struct stat named{};
    return ::fstat(fd, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
           opened.st_dev == named.st_dev;
}

}  // namespace

Result<PinDir> PinDir::lock(const std::filesystem::path& bpffs, const std::string& name) {
    ASK_PASS(bpf::check_bpffs(bpffs));
    const std::filesystem::path root = bpffs / name;
    constexpr int kTries = 10;
    for (int i = 0; i < kTries; i++) {
        ASK_PASS(make_directory(root, S_IRWXU));
        // Not where a link leads: it could be anybody's, where users may write into the file system.
        UniqueFd fd(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!fd) {
            return errno == ENOTDIR || errno == ELOOP
                       ? Error(Errc::kDenied, root.string() +
                                                  " is no directory of its own: remove it, or choose "
                                                  "another --pin-dir")
                       : Error::from_errno(errno, "open " + root.string());
        }
        ASK_PASS(close_to_others(fd.get(), root));
        if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
            return errno == EWOULDBLOCK
                       ? Error(Errc::kExists, "another ask-switchd runs with the pins in " + root.string() +
                                                  ": stop it first, or choose another --pin-dir")
                       : Error::from_errno(errno, "lock " + root.string());
        }
        if (is_same(fd.get(), root)) {
            return PinDir(root, std::move(fd));
        }
    }
    return Error(Errc::kUnavailable,
                 root.string() + " is removed as fast as it is made: another ask-switchd?");
}

std::filesystem::path PinDir::link(std::string_view port) const {
    std::string name;
    for (const char c : port) {
        name += c == '.' ? std::string(kDot) : std::string(1, c);
    }
    return root_ / "links" / name;
}

Result<std::vector<std::string>> PinDir::linked_ports() const {
    auto names = names_in(root_ / "links");
    if (names.ok()) {
        for (std::string& name : *names) {
            for (std::size_t at = name.find(kDot); at != std::string::npos; at = name.find(kDot, at + 1)) {
                name.replace(at, kDot.size(), ".");
            }
        }
    }
    return names;
}

Result<std::vector<std::string>> PinDir::map_names() const {
    return names_in(root_ / "maps");
}

Result<std::vector<std::string>> PinDir::task_pins() const {
    auto names = names_in(root_ / "tasks");
    if (names.ok()) {
        std::erase(*names, kNames);
    }
    return names;
}

Result<> PinDir::make_directories() const {
    for (const char* name : {"progs", "links", "maps", "tasks"}) {
        ASK_PASS(make_directory(root_ / name));
    }
    return {};
}

Result<> PinDir::remove_contents() const {
    const auto ports = linked_ports();
    ASK_PASS(ports);
    for (const std::string& port : *ports) {
        ASK_PASS(bpf::detach_pinned(link(port)));
    }
    ASK_PASS(bpf::unpin_tree(root_ / "links"));
    ASK_PASS(bpf::unpin(map("meta")));
    for (const char* name : {"progs", "tasks", "maps"}) {
        ASK_PASS(bpf::unpin_tree(root_ / name));
    }
    return {};
}

Result<> PinDir::remove_all() const {
    ASK_PASS(remove_contents());
    return bpf::unpin_tree(root_);
}

}  // namespace ask
