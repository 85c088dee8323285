// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/stream_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <memory>
#include <utility>

#include "lib/base/random.h"
#include "lib/text/escape.h"
#include "tools/cli/output.h"
#include "tools/cli/to_json.h"

namespace ask::cli {
namespace {

constexpr const char* kState = ".ask-stream";
constexpr const char* kStateNew = ".ask-stream.new";
constexpr const char* kLock = ".ask-stream.lock";
constexpr const char* kRows = "windows.tsv";
constexpr std::string_view kRowsHeader =
    "#number\tbegin\tcovered_until\tstate\tlate_ms\tkeys\ttuples\tmissing\n";
constexpr std::string_view kTemporary = ".window-";
constexpr int kStateVersion = 1;
// More than a row has, so that the end of the file shows the last one whole.
constexpr std::size_t kMostRow = 2048;
constexpr std::size_t kNameSize = std::string_view("20261128T053000Z").size();

std::tm utc(std::uint64_t ms) {
    const auto seconds = static_cast<std::time_t>(ms / 1000);
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    return parts;
}

std::string temporary_name(std::uint64_t number) {
    return std::string(kTemporary) + std::to_string(number);
}

std::string hex_text(std::uint64_t value) {
    std::array<char, 24> text{};
    std::snprintf(text.data(), text.size(), "0x%016llx", static_cast<unsigned long long>(value));
    return text.data();
}

std::uint64_t from_hex(const std::string& text) {
    std::uint64_t value = 0;
    if (text.starts_with("0x")) {
        std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
    }
    return value;
}

bool is_table_name(const std::string& name, const std::string& suffix) {
    return name.size() == kNameSize + suffix.size() && name.ends_with(suffix) && name[8] == 'T' &&
           name[kNameSize - 1] == 'Z' &&
           std::all_of(name.begin(), name.begin() + 8, [](char c) { return c >= '0' && c <= '9'; });
}

std::string identity_text(const StreamIdentity& is) {
    return "stream " + is.name + ", --every " + std::to_string(is.every.count()) + "s, --op " +
           std::string(client::to_string(is.op));
}

std::string row_text(const WindowRow& row) {
    std::string text = std::to_string(row.number);
    for (const std::string& column :
         {window_time(row.begins_ms), window_time(row.ends_ms), row.state, std::to_string(row.late_ms),
          std::to_string(row.keys), std::to_string(row.tuples), escaped(row.missing)}) {
        text += '\t';
        text += column;
    }
    text.resize(std::min(text.size(), kMostRow - 1));
    text += '\n';
    return text;
}

// Of a text's last line.
std::size_t begin_of_last(std::string_view text) {
    const auto newline = text.substr(0, text.size() - std::min<std::size_t>(text.size(), 1)).rfind('\n');
    return newline == std::string_view::npos ? 0 : newline + 1;
}

// 0: it has none.
std::uint64_t number_of(std::string_view row) {
    std::uint64_t number = 0;
    std::from_chars(row.data(), row.data() + row.size(), number);
    return number;
}

std::string rest_of(int fd) {
    std::string text;
    std::array<char, 4096> piece{};
    for (ssize_t count = 0; (count = ::read(fd, piece.data(), piece.size())) > 0;) {
        text.append(piece.data(), static_cast<std::size_t>(count));
    }
    return text;
}

Json json_of(const client::StreamMember& member) {
    return {{"member", hex_text(member.member)},
            {"name", member.name},
            {"first", member.first},
            {"last", member.last},
            {"lost", member.lost}};
}

client::StreamMember member_from(const Json& json) {
    return {.member = from_hex(json.at("member").get<std::string>()),
            .name = json.at("name").get<std::string>(),
            .first = json.at("first").get<std::uint64_t>(),
            .last = json.at("last").get<std::uint64_t>(),
            .lost = json.at("lost").get<bool>()};
}

}  // namespace

std::string window_name(std::uint64_t begins_ms) {
    const std::tm parts = utc(begins_ms);
    std::array<char, 32> text{};
    return {text.data(), std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &parts)};
}

std::string window_time(std::uint64_t begins_ms) {
    const std::tm parts = utc(begins_ms);
    std::array<char, 32> text{};
    return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

Error StreamDir::failed(int err, std::string_view what) const {
    return Error::from_errno(err, options_.path + ": " + std::string(what));
}

Result<> StreamDir::step() const {
    return options_.before_step ? options_.before_step() : Result<>();
}

Result<StreamDir> StreamDir::open(Options options) {
    StreamDir dir(std::move(options));
    const std::string& path = dir.options_.path;
    if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
        return Error(Errc::kUsage, dir.failed(errno, "make the directory").text());
    }
    dir.directory_.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir.directory_) {
        return Error(Errc::kUsage, dir.failed(errno, "open the directory").text());
    }
    ASK_PASS(dir.lock());
    ASK_PASS(dir.load());
    ASK_PASS(dir.recover());
    return dir;
}

Result<> StreamDir::lock() {
    lock_.reset(::openat(directory_.get(), kLock, O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!lock_) {
        return failed(errno, kLock);
    }
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
        const std::string pid = rest_of(lock_.get());
        return Error(Errc::kExists, options_.path + ": ask-recv with pid " + (pid.empty() ? "?" : pid) +
                                        " writes to it: end that one, or name another directory");
    }
    const std::string pid = std::to_string(::getpid());
    if (::ftruncate(lock_.get(), 0) != 0) {
        return failed(errno, kLock);
    }
    ASK_TRY(write_all(lock_.get(), pid), options_.path + ": " + kLock);
    return {};
}

Result<> StreamDir::load() {
    const UniqueFd state(::openat(directory_.get(), kState, O_RDONLY | O_CLOEXEC));
    if (!state && errno != ENOENT) {
        return failed(errno, kState);
    }
    if (state) {
        return read(rest_of(state.get()));
    }
    nonce_ = random_u64();
    return store(0, "", "", "");
}

Result<> StreamDir::read(const std::string& text) {
    const Json json = Json::parse(text, nullptr, false);
    try {
        if (json.at("version").get<int>() != kStateVersion) {
            return Error(Errc::kUnsupported, options_.path + ": " + kState +
                                                 " is of another release: version " +
                                                 json.at("version").dump());
        }
        if (!is_sealed(json)) {
            return damaged(text);
        }
        const auto op = client::parse_task_op(json.at("op").get<std::string>());
        ASK_PASS(check_identity({.name = json.at("name").get<std::string>(),
                                 .every = std::chrono::seconds(json.at("every_seconds").get<std::uint32_t>()),
                                 .op = op.value_or(client::TaskOp::kSum)}));
        nonce_ = from_hex(json.at("nonce").get<std::string>());
        committed_ = json.at("committed").get<std::uint64_t>();
        temporary_ = json.at("temporary").get<std::string>();
        file_ = json.at("file").get<std::string>();
        row_ = json.value("row", "");
        for (const Json& member : json.at("members")) {
            members_.push_back(member_from(member));
        }
    } catch (const Json::exception&) {
        return damaged(text);
    }
    return nonce_ == 0 ? Result<>(damaged(text)) : Result<>();
}

// What it has is whole; what its senders keep is not known to belong there.
Error StreamDir::damaged(const std::string& text) const {
    return {Errc::kInput,
            options_.path + "/" + kState + " is damaged: it " + damage_of(text) +
                ". The tables beside it are whole. Put a copy of it back that is as new as the last "
                "line of " +
                kRows + ", or begin the stream again in another directory, with senders anew"};
}

Result<> StreamDir::check_identity(const StreamIdentity& found) const {
    const StreamIdentity& is = options_.is;
    if (found.name == is.name && found.every == is.every && found.op == is.op) {
        return {};
    }
    return Error(Errc::kUsage, options_.path + " is another stream's: it has " + identity_text(found) +
                                   ", not " + identity_text(is) +
                                   ": go on with the former, or name another directory");
}

// What an earlier process has not come to.
Result<> StreamDir::recover() {
    if (!temporary_.empty() && ::faccessat(directory_.get(), temporary_.c_str(), F_OK, 0) == 0) {
        ASK_PASS(rename(temporary_, file_));
        ASK_PASS(sync_directory());
    }
    for (const std::string& name : names()) {
        if (name.starts_with(kTemporary)) {
            ::unlinkat(directory_.get(), name.c_str(), 0);
        }
    }
    rows_.reset(::openat(directory_.get(), kRows, O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!rows_) {
        return failed(errno, kRows);
    }
    return trim_rows();
}

// No rows but those of committed windows, each of them whole, and the last one as it was written.
Result<> StreamDir::trim_rows() {
    struct stat info{};
    if (::fstat(rows_.get(), &info) != 0) {
        return failed(errno, kRows);
    }
    const off_t begin = std::max<off_t>(info.st_size - static_cast<off_t>(2 * kMostRow), 0);
    std::array<char, 2 * kMostRow> bytes{};
    const ssize_t count = ::pread(rows_.get(), bytes.data(), bytes.size(), begin);
    if (count < 0) {
        return failed(errno, kRows);
    }
    std::string_view tail(bytes.data(), static_cast<std::size_t>(count));
    const std::string_view was = tail.substr(begin_of_last(tail));
    while (!tail.empty()) {
        const std::size_t last = begin_of_last(tail);
        if (tail.ends_with('\n') && number_of(tail.substr(last)) <= committed_) {
            break;
        }
        tail = tail.substr(0, last);
    }
    const std::string_view last = tail.substr(begin_of_last(tail));
    // Rows that somebody has taken away stay away.
    const bool has_rows = !last.empty() && was != kRowsHeader;
    const bool is_damaged = has_rows && !row_.empty() && last != row_;
    if (is_damaged) {
        mended_ = options_.path + "/" + kRows +
                  ": its last line was not as it was written, and is so again; it was " + shown(was);
        tail.remove_suffix(number_of(last) == committed_ ? last.size() : 0);
    }
    const off_t end = begin + static_cast<off_t>(tail.size());
    ASK_PASS(step());
    if (::ftruncate(rows_.get(), end) != 0 || ::lseek(rows_.get(), end, SEEK_SET) < 0) {
        return failed(errno, kRows);
    }
    const std::string_view lacks = is_damaged ? std::string_view(row_) : end == 0 ? kRowsHeader : "";
    ASK_TRY(write_all(rows_.get(), lacks), options_.path + ": " + kRows);
    return {};
}

std::vector<std::string> StreamDir::names() const {
    std::vector<std::string> all;
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(options_.path.c_str()), &::closedir);
    if (listing) {
        // One thread reads it.
        while (const dirent* const entry = ::readdir(listing.get())) {  // NOLINT(concurrency-mt-unsafe)
            all.emplace_back(static_cast<const char*>(entry->d_name));
        }
    }
    return all;
}

Result<> StreamDir::sync_directory() const {
    ASK_PASS(step());
    return ::fsync(directory_.get()) == 0 ? Result<>() : failed(errno, "sync the directory");
}

Result<> StreamDir::rename(const std::string& from, const std::string& to) const {
    ASK_PASS(step());
    return ::renameat(directory_.get(), from.c_str(), directory_.get(), to.c_str()) == 0
               ? Result<>()
               : failed(errno, "give " + to + " its name");
}

// Replaces .ask-stream.
Result<> StreamDir::store(std::uint64_t committed, const std::string& temporary, const std::string& file,
                          const std::string& row) {
    Json members = Json::array();
    for (const client::StreamMember& member : members_) {
        members.push_back(json_of(member));
    }
    const Json json = {{"version", kStateVersion},
                       {"name", options_.is.name},
                       {"every_seconds", options_.is.every.count()},
                       {"op", client::to_string(options_.is.op)},
                       {"nonce", hex_text(nonce_)},
                       {"committed", committed},
                       {"temporary", temporary},
                       {"file", file},
                       {"row", row},
                       {"members", std::move(members)}};
    ASK_PASS(step());
    const UniqueFd state(
        ::openat(directory_.get(), kStateNew, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!state) {
        return failed(errno, kStateNew);
    }
    // Names of members come from other hosts and may be any bytes.
    ASK_TRY(write_all(state.get(), sealed(json)), options_.path + ": " + kStateNew);
    ASK_PASS(step());
    if (::fsync(state.get()) != 0) {
        return failed(errno, kStateNew);
    }
    ASK_PASS(rename(kStateNew, kState));
    ASK_PASS(sync_directory());
    committed_ = committed;
    temporary_ = temporary;
    file_ = file;
    row_ = row;
    return {};
}

Result<> StreamDir::note(const client::StreamMember& member) {
    const auto at = std::ranges::find(members_, member.member, &client::StreamMember::member);
    if (at == members_.end()) {
        members_.push_back(member);
    } else if (*at == member) {
        return {};
    } else {
        *at = member;
    }
    return store(committed_, temporary_, file_, row_);
}

Result<UniqueFd> StreamDir::begin(std::uint64_t number) {
    ASK_PASS(step());
    UniqueFd fd(::openat(directory_.get(), temporary_name(number).c_str(),
                         O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!fd) {
        return failed(errno, temporary_name(number));
    }
    return fd;
}

Result<> StreamDir::prepare(const WindowRow& row, int table) {
    ASK_PASS(step());
    if (table >= 0 && ::fsync(table) != 0) {
        return failed(errno, temporary_name(row.number));
    }
    // Of a try before this one there may be a row, or a part of one.
    ASK_PASS(trim_rows());
    ASK_PASS(step());
    ASK_TRY(write_all(rows_.get(), row_text(row)), options_.path + ": " + kRows);
    ASK_PASS(step());
    return ::fsync(rows_.get()) == 0 ? Result<>() : failed(errno, kRows);
}

Result<> StreamDir::commit(const WindowRow& row, bool with_table) {
    std::erase_if(members_, [&row](const client::StreamMember& member) {
        return member.last != 0 && member.last <= row.number;
    });
    const std::string temporary = with_table ? temporary_name(row.number) : "";
    const std::string file = with_table ? window_name(row.begins_ms) + options_.suffix : "";
    const std::string text = row_text(row);
    ASK_PASS(store(row.number, temporary, file, is_utf8(text) ? text : ""));
    if (!with_table) {
        return {};
    }
    ASK_PASS(rename(temporary, file));
    return sync_directory();
}

Result<> StreamDir::keep(std::size_t tables) {
    std::vector<std::string> all = names();
    std::erase_if(all, [this](const std::string& name) { return !is_table_name(name, options_.suffix); });
    std::ranges::sort(all);
    for (std::size_t i = 0; i + tables < all.size(); ++i) {
        if (::unlinkat(directory_.get(), all[i].c_str(), 0) != 0 && errno != ENOENT) {
            return failed(errno, "remove " + all[i]);
        }
    }
    return {};
}

}  // namespace ask::cli
