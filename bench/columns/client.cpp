// SPDX-License-Identifier: Apache-2.0
//
// ask-bench-columns make DIR ROWS KEYS    writes DIR/columns and DIR/lines.tsv, the same tuples as columns of
//                                         a file to be mapped, and as lines for ask-send
// ask-bench-columns send DIR TASK HOST MERGE_WINDOW
//                                         sends the columns where they are mapped; -1: the agent's window
//
// Keys are k0, k1, ...: of KEYS, uniformly drawn; values 0 to 9.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "lib/ask/ask.h"

namespace {

// Of the file, before offsets, values and keys.
struct Head {
    std::uint64_t rows;
    std::uint64_t key_bytes;
};

std::uint64_t next_random(std::uint64_t& state) {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

template <typename T>
void write_all(std::ofstream& to, const T* from, std::size_t count) {
    to.write(reinterpret_cast<const char*>(from), static_cast<std::streamsize>(count * sizeof(T)));
}

int make(const std::string& dir, std::uint64_t rows, std::uint64_t keys) {
    std::vector<std::int64_t> offsets{0};
    std::vector<std::int64_t> values;
    std::string bytes;
    std::ofstream lines(dir + "/lines.tsv", std::ios::binary);
    std::uint64_t state = 1;
    for (std::uint64_t row = 0; row < rows; ++row) {
        const std::string key = "k" + std::to_string(next_random(state) % keys);
        values.push_back(static_cast<std::int64_t>(next_random(state) % 10));
        bytes += key;
        offsets.push_back(static_cast<std::int64_t>(bytes.size()));
        lines << key << '\t' << values.back() << '\n';
    }
    std::ofstream columns(dir + "/columns", std::ios::binary);
    const Head head{rows, bytes.size()};
    write_all(columns, &head, 1);
    write_all(columns, offsets.data(), offsets.size());
    write_all(columns, values.data(), values.size());
    write_all(columns, bytes.data(), bytes.size());
    return columns.flush() && lines.flush() ? ASK_OK : ASK_E_INTERNAL;
}

int send(const std::string& dir, const char* task, const char* host, long merge_window) {
    const int fd = ::open((dir + "/columns").c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info{};
    if (fd < 0 || ::fstat(fd, &info) != 0) {
        std::perror("columns");
        return ASK_E_INPUT;
    }
    void* const at = ::mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) {
        std::perror("columns");
        return ASK_E_INPUT;
    }
    Head head{};
    std::memcpy(&head, at, sizeof(head));
    const auto* const offsets =
        reinterpret_cast<const std::int64_t*>(static_cast<const char*>(at) + sizeof(head));
    ask_columns columns = ASK_COLUMNS_INIT;
    columns.rows = head.rows;
    columns.offsets = offsets;
    columns.values = offsets + head.rows + 1;
    columns.keys = columns.values + head.rows;
    columns.key_bytes = head.key_bytes;
    ask_sender_options options = ASK_SENDER_OPTIONS_INIT;
    options.task = task;
    options.to = host;
    options.merge_window = merge_window;
    const int code = ask_send(&options, &columns, nullptr);
    if (code != ASK_OK) {
        std::fprintf(stderr, "%s: %s\n", ask_code_name(code), ask_error());
    }
    return code;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string verb = argc > 1 ? argv[1] : "";
    if (verb == "make" && argc == 5) {
        return make(argv[2], std::strtoull(argv[3], nullptr, 10), std::strtoull(argv[4], nullptr, 10));
    }
    if (verb == "send" && argc == 6) {
        return send(argv[2], argv[3], argv[4], std::strtol(argv[5], nullptr, 10));
    }
    std::fputs("usage: ask-bench-columns make DIR ROWS KEYS | send DIR TASK HOST MERGE_WINDOW\n", stderr);
    return ASK_E_USAGE;
}
