// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/token.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "lib/abi/limits.h"
#include "lib/base/unique_fd.h"

namespace ask::cli {
namespace {

Result<std::string> check_token(std::string token, const std::string& where) {
    if (token.size() < ASK_MIN_TOKEN || token.size() > ASK_MAX_TOKEN) {
        return Error(Errc::kUsage, where + ": a token is " + std::to_string(ASK_MIN_TOKEN) + " to " +
                                       std::to_string(ASK_MAX_TOKEN) +
                                       " bytes: head -c 24 /dev/urandom | base64 makes one");
    }
    return token;
}

}  // namespace

Result<std::string> read_token(const std::string& file) {
    if (file.empty()) {
        const char* const value =
            std::getenv("ASK_TOKEN");  // NOLINT(concurrency-mt-unsafe): before any thread
        return value == nullptr ? Result<std::string>(std::string()) : check_token(value, "ASK_TOKEN");
    }
    const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) {
        return Error::from_errno(errno, "token file " + file);
    }
    // A line break, and one byte by which it is too long.
    std::array<char, ASK_MAX_TOKEN + 2> bytes{};
    std::string token;
    for (;;) {
        const ssize_t got = ::read(fd.get(), bytes.data(), bytes.size() - token.size());
        if (got < 0) {
            return Error::from_errno(errno, "token file " + file);
        }
        if (got == 0) {
            break;
        }
        token.append(bytes.data(), static_cast<std::size_t>(got));
    }
    if (token.ends_with('\n')) {
        token.pop_back();
    }
    return check_token(std::move(token), "token file " + file);
}

}  // namespace ask::cli
