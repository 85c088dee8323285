// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/stats_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tools/cli/output.h"

namespace ask::cli {
namespace {

// mkstemp() makes files for their owner only; what a user names should obey the umask.
mode_t wanted_mode() {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    return 0666 & ~mask;
}

}  // namespace

Result<StatsFile> StatsFile::create(const std::string& path) {
    StatsFile file;
    if (path.empty()) {
        return file;
    }
    file.path_ = path;
    struct stat info{};
    if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
        file.fd_.reset(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    } else {
        file.temporary_ = path + ".XXXXXX";
        file.fd_.reset(::mkostemp(file.temporary_.data(), O_CLOEXEC));
    }
    if (!file.fd_) {
        const int err = errno;
        file.temporary_.clear();
        Error error = Error::from_errno(err, "statistics file " + path);
        return err == ENOENT || err == ENOTDIR ? Error(Errc::kUsage, error.text()) : std::move(error);
    }
    return file;
}

StatsFile::StatsFile(StatsFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::move(other.fd_)) {}

StatsFile::~StatsFile() {
    if (!temporary_.empty()) {
        ::unlink(temporary_.c_str());
    }
}

Result<> StatsFile::write(std::string_view content) {
    if (!fd_) {
        return {};
    }
    ASK_TRY(write_all(fd_.get(), content), "statistics file " + path_);
    if (temporary_.empty()) {
        return {};
    }
    if (::fchmod(fd_.get(), wanted_mode()) != 0 || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
        return Error::from_errno(errno, "statistics file " + path_);
    }
    temporary_.clear();
    return {};
}

}  // namespace ask::cli
