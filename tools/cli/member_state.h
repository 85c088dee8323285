// SPDX-License-Identifier: Apache-2.0
//
// The file of ask-send --state: who this member of a stream is, and which lines of its input are in which
// window, so that a process that comes after it can send again what is not committed, and goes on where it
// was.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/client/stream_send.h"
#include "tools/cli/tail_input.h"

namespace ask::cli {

// Lines that went into a window that the member has left.
struct WindowLines {
    std::uint64_t number = 0;
    FilePlace from{};
    FilePlace to{};
    // Where files between the two were left, in their order: the next one's lines are from its beginning.
    std::vector<FilePlace> left{};
};

class MemberState {
 public:
    // `stream`: what it is a member of, for people. kExists: another process has it. kUsage: it is of another
    // stream, or of another input.
    static Result<MemberState> open(const std::string& path, const std::string& stream,
                                    const std::string& input);

    [[nodiscard]] std::uint64_t member() const { return member_; }
    [[nodiscard]] std::uint64_t nonce() const { return nonce_; }
    [[nodiscard]] std::uint64_t committed() const { return committed_; }
    [[nodiscard]] const std::vector<WindowLines>& windows() const { return windows_; }
    // The window that it is in, and where its lines begin; 0: none yet, and where they would.
    [[nodiscard]] std::uint64_t inside() const { return inside_; }
    [[nodiscard]] const FilePlace& place() const { return place_; }
    [[nodiscard]] bool is_new() const { return place_ == FilePlace{}; }

    // Where the first window's lines begin. On disk when it returns, as the others.
    Result<> begin(const FilePlace& place);
    // All lines before `place` are of windows up to the one that has ended; `left` as TailInput's.
    Result<> step(const client::StreamStep& step, const FilePlace& place, std::vector<FilePlace> left);
    // It has left, with all committed: who comes next is another member, and begins here.
    Result<> leave(const FilePlace& place);

 private:
    MemberState() = default;
    Result<> read(const std::string& text);
    [[nodiscard]] Error damaged(const std::string& text) const;
    Result<> store() const;

    std::string path_;
    std::string stream_;
    std::string input_;
    UniqueFd lock_;
    std::uint64_t member_ = 0;
    std::uint64_t nonce_ = 0;
    std::uint64_t committed_ = 0;
    std::uint64_t inside_ = 0;
    FilePlace place_{};
    std::vector<WindowLines> windows_;
};

}  // namespace ask::cli
