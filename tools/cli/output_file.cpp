// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/output_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tools/cli/output.h"

namespace ask::cli {
namespace {

// As many as the kernel follows.
constexpr int kMaxLinks = 40;

// mkstemp() makes files for their owner only; what a user names should obey the umask.
mode_t wanted_mode() {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    return 0666 & ~mask;
}

std::string directory_of(const std::string& path) {
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// What a link under /proc leads to is a descriptor of a process, whatever it reads like.
bool is_in_proc(const std::string& path) {
    struct statfs info{};
    return ::statfs(directory_of(path).c_str(), &info) == 0 && info.f_type == PROC_SUPER_MAGIC;
}

// Where a path leads.
struct Target {
    std::string path;
    bool replace = true;  // else it is written to as it is
};

Result<Target> follow(std::string path) {
    for (int links = 0; links < kMaxLinks; ++links) {
        struct stat info{};
        if (::lstat(path.c_str(), &info) != 0) {
            return errno == ENOENT ? Result<Target>(Target{path}) : Error::from_errno(errno, path);
        }
        if (!S_ISLNK(info.st_mode)) {
            return Target{path, S_ISREG(info.st_mode)};
        }
        if (is_in_proc(path)) {
            return Target{path, false};
        }
        std::array<char, PATH_MAX> text{};
        const ssize_t length = ::readlink(path.c_str(), text.data(), text.size());
        if (length < 0) {
            return Error::from_errno(errno, path);
        }
        const std::string next(text.data(), static_cast<std::size_t>(length));
        path = next.starts_with('/') ? next : directory_of(path).append("/").append(next);
    }
    return Error::from_errno(ELOOP, path);
}

Result<> sync_directory(const std::string& path) {
    const UniqueFd directory(::open(directory_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory || ::fsync(directory.get()) != 0) {
        return Error::from_errno(errno, "its directory");
    }
    return {};
}

}  // namespace

Error OutputFile::error_of(int err) const {
    Error error = Error::from_errno(err, what_ + " " + path_);
    return err == ENOENT || err == ENOTDIR || err == EISDIR || err == ELOOP
               ? Error(Errc::kUsage, error.text())
               : std::move(error);
}

Result<> OutputFile::make_temporary() {
    temporary_ = target_ + ".XXXXXX";
    fd_.reset(::mkostemp(temporary_.data(), O_CLOEXEC));
    if (!fd_) {
        temporary_.clear();
        return error_of(errno);
    }
    return {};
}

Result<OutputFile> OutputFile::create(std::string what, const std::string& path) {
    OutputFile file;
    if (path.empty()) {
        return file;
    }
    file.what_ = std::move(what);
    file.path_ = path;
    const auto target = follow(path);
    if (!target) {
        return file.error_of(target.error().sys_errno());
    }
    file.target_ = target->path;
    if (target->replace) {
        ASK_PASS(file.make_temporary());
        return file;
    }
    // At its end, because a descriptor of ours may be writing to the same file.
    file.fd_.reset(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY));
    if (!file.fd_) {
        return file.error_of(errno);
    }
    return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : what_(std::move(other.what_)),
      path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::move(other.fd_)) {}

OutputFile::~OutputFile() {
    if (!temporary_.empty()) {
        ::unlink(temporary_.c_str());
    }
}

Result<> OutputFile::finish(bool durable) {
    if (temporary_.empty()) {
        return {};
    }
    if (::fchmod(fd_.get(), wanted_mode()) != 0 || (durable && ::fsync(fd_.get()) != 0)) {
        return error_of(errno);
    }
    // Somebody may have put something else there since.
    struct stat info{};
    if (::lstat(target_.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
        return Error(Errc::kExists, what_ + " " + path_ + ": " + target_ + " is no regular file any more");
    }
    if (std::rename(temporary_.c_str(), target_.c_str()) != 0) {
        return error_of(errno);
    }
    temporary_.clear();
    if (durable) {
        ASK_TRY(sync_directory(target_), what_ + " " + path_);
    }
    return {};
}

Result<> OutputFile::write(std::string_view content, bool durable) {
    if (!fd_) {
        return {};
    }
    ASK_TRY(write_all(fd_.get(), content), what_ + " " + path_);
    return finish(durable);
}

}  // namespace ask::cli
