// SPDX-License-Identifier: Apache-2.0
#include "bench/job/combine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include <absl/container/flat_hash_map.h>
#include <absl/strings/string_view.h>

#include "lib/base/unique_fd.h"

namespace ask::bench {
namespace {

constexpr std::size_t kBatch = std::size_t{1} << 18U;

void append_number(std::uint64_t number, std::string& out) {
    for (; number >= 0x80; number >>= 7U) {
        out.push_back(static_cast<char>(number | 0x80U));
    }
    out.push_back(static_cast<char>(number));
}

// Takes a number off the front. None: there is more to come.
Result<std::optional<std::uint64_t>> take_number(std::string_view& bytes) {
    std::uint64_t number = 0;
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        const auto byte = static_cast<unsigned char>(bytes[at]);
        const std::uint64_t part = byte & 0x7fU;
        if (at == 9 && byte > 1) {
            return Error(Errc::kInput, "a number of a stream is longer than 64 bits");
        }
        number |= part << (7 * at);
        if ((byte & 0x80U) == 0) {
            bytes.remove_prefix(at + 1);
            return std::optional(number);
        }
    }
    return std::optional<std::uint64_t>();
}

struct Unmap {
    std::size_t bytes = 0;
    void operator()(void* memory) const { ::munmap(memory, bytes); }
};
using Mapping = std::unique_ptr<void, Unmap>;

Result<Mapping> map_file(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat found{};
    if (!file || ::fstat(file.get(), &found) != 0) {
        return Error::from_errno(errno, "open " + path);
    }
    const auto bytes = static_cast<std::size_t>(found.st_size);
    if (bytes == 0) {
        return Mapping();
    }
    void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (at == MAP_FAILED) {
        return Error::from_errno(errno, "map " + path);
    }
    ::madvise(at, bytes, MADV_SEQUENTIAL);
    return Mapping(at, Unmap{bytes});
}

using Views = absl::flat_hash_map<absl::string_view, std::uint64_t>;

Result<Views> count_views(std::string_view text, const std::string& path) {
    Views views;
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
        ++views[absl::string_view(text.data(), end)];
        text.remove_prefix(end + 1);
    }
    return text.empty() ? Result<Views>(std::move(views)) : Error(Errc::kInput, path + " ends in mid-line");
}

Result<> send_all(int socket, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0) {
            return Error::from_errno(errno, "send keys and counts");
        }
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return {};
}

}  // namespace

void append_record(std::string_view key, std::uint64_t count, std::string& out) {
    append_number(key.size(), out);
    out.append(key);
    append_number(count, out);
}

Result<std::optional<Record>> first_record(std::string_view bytes) {
    std::string_view rest = bytes;
    const auto length = take_number(rest);
    ASK_PASS(length);
    if (!*length || rest.size() < **length) {
        return std::optional<Record>();
    }
    const std::string_view key = rest.substr(0, **length);
    rest.remove_prefix(key.size());
    const auto count = take_number(rest);
    ASK_PASS(count);
    return *count ? std::optional(Record{key, **count, bytes.size() - rest.size()}) : std::optional<Record>();
}

Result<> send_combined(const std::string& file, int socket) {
    const auto mapping = map_file(file);
    ASK_PASS(mapping);
    const auto views =
        count_views({static_cast<const char*>(mapping->get()), mapping->get_deleter().bytes}, file);
    ASK_PASS(views);
    std::string batch;
    for (const auto& [key, count] : *views) {
        append_record(std::string_view(key.data(), key.size()), count, batch);
        if (batch.size() >= kBatch) {
            ASK_PASS(send_all(socket, batch));
            batch.clear();
        }
    }
    return send_all(socket, batch);
}

}  // namespace ask::bench
