// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/rotated.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

namespace ask::cli {
namespace {

constexpr std::array<std::string_view, 4> kCompressed{".gz", ".xz", ".zst", ".bz2"};

std::pair<std::string, std::string> folder_and_name(const std::string& path) {
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? std::pair<std::string, std::string>{".", path}
                                      : std::pair{path.substr(0, slash + 1), path.substr(slash + 1)};
}

// A number, a date, or "old": another program's log may begin with this one's name.
bool is_rotated_name(std::string_view name, std::string_view log) {
    if (!name.starts_with(log) || name.size() < log.size() + 2) {
        return false;
    }
    const std::string_view rest = name.substr(log.size() + 1);
    return (name[log.size()] == '.' || name[log.size()] == '-') &&
           ((rest.front() >= '0' && rest.front() <= '9') || rest == "old");
}

std::string_view uncompressed(std::string_view name) {
    for (const std::string_view end : kCompressed) {
        if (name.ends_with(end)) {
            return name.substr(0, name.size() - end.size());
        }
    }
    return name;
}

std::int64_t nanoseconds(const struct statx_timestamp& time) {
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

std::optional<LogFile> examine(int folder, const char* name, int flags) {
    struct statx info{};
    if (::statx(folder, name, flags, STATX_BASIC_STATS | STATX_BTIME, &info) != 0 ||
        !S_ISREG(info.stx_mode)) {
        return std::nullopt;
    }
    return LogFile{.name = name,
                   .device = ::makedev(info.stx_dev_major, info.stx_dev_minor),
                   .inode = info.stx_ino,
                   .written = nanoseconds(info.stx_mtime),
                   .changed = nanoseconds(info.stx_ctime),
                   .born = (info.stx_mask & STATX_BTIME) != 0 ? nanoseconds(info.stx_btime) : 0};
}

std::optional<std::vector<LogFile>> list(const std::string& path) {
    const auto [folder, log] = folder_and_name(path);
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder.c_str()), &::closedir);
    if (!listing) {
        return std::nullopt;
    }
    std::vector<LogFile> files;
    // One thread reads it.
    while (const dirent* const entry = ::readdir(listing.get())) {  // NOLINT(concurrency-mt-unsafe)
        const auto* const name = static_cast<const char*>(entry->d_name);
        if (!is_rotated_name(name, log)) {
            continue;
        }
        if (auto file = examine(::dirfd(listing.get()), name, AT_SYMLINK_NOFOLLOW)) {
            files.push_back(*std::move(file));
        }
    }
    std::ranges::sort(files, {}, &LogFile::name);
    return files;
}

// FILE.2 is older than FILE.1; of dates the later one is the larger.
int compare_names(const LogFile& one, const LogFile& other) {
    const auto number = [](std::string_view name) {
        name = uncompressed(name);
        const std::string_view digits = name.substr(name.find_last_of(".-") + 1);
        std::uint64_t value = 0;
        const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value);
        const bool whole = end.ec == std::errc() && end.ptr == digits.data() + digits.size();
        // Longer ones are dates.
        return whole && digits.size() < 6 ? std::optional(value) : std::nullopt;
    };
    if (one.name.empty() || other.name.empty()) {
        return 0;
    }
    const auto first = number(one.name);
    const auto second = number(other.name);
    if (first && second) {
        return *first == *second ? 0 : (*first > *second ? -1 : 1);
    }
    return one.name.compare(other.name);
}

// One that was there before may have been written to later, by who had it open still.
bool came_before(const LogFile& one, const LogFile& other) {
    const auto times = [](const LogFile& file) { return std::pair(file.written, file.born); };
    return times(one) != times(other) ? times(one) < times(other) : compare_names(one, other) < 0;
}

// The name by which it goes.
void name_it(LogFile& file, const RotatedFiles& files) {
    const auto found =
        std::ranges::find_if(files.whole, [&file](const LogFile& each) { return each.is(file); });
    file.name = found == files.whole.end() ? std::string() : found->name;
}

}  // namespace

std::optional<LogFile> log_file(int fd) {
    return examine(fd, "", AT_EMPTY_PATH);
}

std::optional<RotatedFiles> rotated_files(const std::string& path) {
    const auto names = [](const std::vector<LogFile>& files) {
        std::vector<std::pair<std::string, std::uint64_t>> all;
        all.reserve(files.size());
        for (const LogFile& file : files) {
            all.emplace_back(file.name, file.inode);
        }
        return all;
    };
    // A listing may lack a file that is renamed meanwhile: one that is right is so twice.
    const auto first = list(path);
    auto second = list(path);
    if (!first || !second || names(*first) != names(*second)) {
        return std::nullopt;
    }
    RotatedFiles files;
    for (LogFile& file : *second) {
        const bool packed = uncompressed(file.name) != file.name;
        (packed ? files.compressed : files.whole).push_back(std::move(file));
    }
    return files;
}

UniqueFd open_rotated(const std::string& path, const LogFile& file) {
    const auto [folder, log] = folder_and_name(path);
    const std::string name = (folder == "." ? "./" : folder) + file.name;
    UniqueFd opened(::open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
    const auto found = opened ? log_file(opened.get()) : std::nullopt;
    return found && found->is(file) ? std::move(opened) : UniqueFd();
}

std::optional<LogFile> rotated_after(const RotatedFiles& files, LogFile old, const LogFile& named,
                                     const std::function<bool(const LogFile&)>& done) {
    name_it(old, files);
    std::optional<LogFile> next;
    for (const LogFile& file : files.whole) {
        const bool later = came_before(old, file) && file.born >= old.born;
        if (!later || file.is(old) || file.is(named) || done(file)) {
            continue;
        }
        if (!next || came_before(file, *next)) {
            next = file;
        }
    }
    return next;
}

std::vector<LogFile> lost_after(const RotatedFiles& files, LogFile old) {
    name_it(old, files);
    std::vector<LogFile> lost;
    for (const LogFile& file : files.compressed) {
        // Whose original is there still is being compressed.
        const bool original = std::ranges::any_of(
            files.whole, [&file](const LogFile& each) { return each.name == uncompressed(file.name); });
        // As the one that was compressed; it is the old one itself where it has the same.
        if (!original && file.written > old.written && compare_names(old, file) <= 0) {
            lost.push_back(file);
        }
    }
    return lost;
}

}  // namespace ask::cli
