// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "bench/fetch/fetch.h"
#include "bench/fetch/keys.h"

namespace ask::bench {
namespace {

bool is_right(std::string_view line, std::uint32_t keys) {
    if (line.size() < kKeyBytes + 2 || line[kKeyBytes] != '\t') {
        return false;
    }
    const auto number = number_of(line.substr(0, kKeyBytes));
    std::int64_t value = 0;
    const auto read = std::from_chars(line.data() + kKeyBytes + 1, line.data() + line.size(), value);
    return number && *number < keys && read.ec == std::errc() && read.ptr == line.data() + line.size() &&
           value == value_of(*number);
}

struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

struct Child {
    pid_t pid = 0;
    File output;
};

Result<Child> start(const std::vector<std::string>& command) {
    std::vector<char*> arguments;
    arguments.reserve(command.size() + 1);
    for (const std::string& word : command) {
        arguments.push_back(const_cast<char*>(word.c_str()));  // as execvp has it
    }
    arguments.push_back(nullptr);
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) {
        return Error::from_errno(errno, "make a pipe");
    }
    const pid_t pid = ::fork();
    if (pid < 0) {
        return Error::from_errno(errno, "fork");
    }
    if (pid == 0) {
        ::dup2(ends[1], STDOUT_FILENO);
        ::close(ends[0]);
        ::close(ends[1]);
        ::execvp(arguments[0], arguments.data());
        ::_exit(127);
    }
    ::close(ends[1]);
    return Child{.pid = pid, .output = File(::fdopen(ends[0], "r"))};
}

// Sorted lines of different keys, as many as there are keys, are all of them.
Result<> check_lines(std::FILE* file, std::uint32_t keys) {
    std::string last;
    std::uint64_t lines = 0;
    char* line = nullptr;
    std::size_t room = 0;
    const auto free_line = [](char** at) { std::free(*at); };
    const std::unique_ptr<char*, decltype(free_line)> owner(&line, free_line);
    for (ssize_t size = 0; (size = ::getline(&line, &room, file)) > 0; ++lines) {
        const std::string_view text(line, static_cast<std::size_t>(size) - 1);
        const std::string_view key = text.substr(0, kKeyBytes);
        if (!is_right(text, keys) || key <= last) {
            return Error(Errc::kInput, "line " + std::to_string(lines + 1) + ": \"" + std::string(text) +
                                           "\" is not of the result");
        }
        last = key;
    }
    return lines == keys
               ? Result<>()
               : Error(Errc::kInput, std::to_string(lines) + " lines instead of " + std::to_string(keys));
}

}  // namespace

Result<> check_result(std::uint32_t keys, const std::vector<std::string>& command) {
    auto child = start(command);
    ASK_PASS(child);
    const auto right = check_lines(child->output.get(), keys);
    child->output.reset();
    int status = 0;
    rusage usage{};
    while (::wait4(child->pid, &status, 0, &usage) < 0) {
        if (errno != EINTR) {
            return Error::from_errno(errno, "wait for " + command.front());
        }
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return Error(Errc::kInternal, command.front() + " failed");
    }
    ASK_PASS(right);
    std::printf("{\"peak_kib\": %ld}\n", usage.ru_maxrss);
    return {};
}

}  // namespace ask::bench
