// SPDX-License-Identifier: Apache-2.0
//
// The directory that a stream's windows are committed to: a file each, a line each in windows.tsv, and
// .ask-stream, which says how far it is and who its members are.
//
// A window is committed once .ask-stream names it, with the temporary file that its table is in: from then on
// that file has its name, or will have it when the directory is opened next. Whoever finds neither knows that
// somebody has taken it away, which is allowed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/client/stream_receive.h"
#include "lib/client/task.h"

namespace ask::cli {

// "20261128T053000Z".
[[nodiscard]] std::string window_name(std::uint64_t begins_ms);
// "2026-11-28T05:30:00Z".
[[nodiscard]] std::string window_time(std::uint64_t begins_ms);

struct StreamIdentity {
    std::string name;
    std::chrono::seconds every{60};
    client::TaskOp op = client::TaskOp::kSum;
};

// Its line in windows.tsv.
struct WindowRow {
    std::uint64_t number = 0;
    std::uint64_t begins_ms = 0;
    std::uint64_t ends_ms = 0;  // what it covers
    std::string state{};        // whole, incomplete, empty
    std::uint64_t late_ms = 0;  // committed so long after its end
    std::uint64_t keys = 0;
    std::uint64_t tuples = 0;
    std::string missing{};
};

class StreamDir {
 public:
    struct Options {
        std::string path{};
        StreamIdentity is{};
        std::string suffix{".tsv"};  // of tables' names
        // Before each thing that is done to the disk; an error breaks off there. For tests.
        std::function<Result<>()> before_step{};
    };
    // Makes the directory if there is none, and finishes what an earlier process has begun. kExists: another
    // process writes to it. kUsage: it is another stream's.
    static Result<StreamDir> open(Options options);

    [[nodiscard]] std::uint64_t nonce() const { return nonce_; }
    [[nodiscard]] std::uint64_t committed() const { return committed_; }
    [[nodiscard]] const std::vector<client::StreamMember>& members() const { return members_; }

    // What in windows.tsv was not as it was written; for people. Empty: nothing.
    [[nodiscard]] std::string take_mended() { return std::exchange(mended_, {}); }

    // On disk when it returns.
    Result<> note(const client::StreamMember& member);
    // A file for a window's table that nobody sees yet.
    Result<UniqueFd> begin(std::uint64_t number);
    // Table, if there is one, and line are on disk. After an error nothing has changed: it may be tried
    // again.
    Result<> prepare(const WindowRow& row, int table);
    // Commits what has been prepared. After an error whoever opens the directory next knows whether it is.
    Result<> commit(const WindowRow& row, bool with_table);
    // Removes the oldest tables but for so many.
    Result<> keep(std::size_t tables);

 private:
    explicit StreamDir(Options options) : options_(std::move(options)) {}
    [[nodiscard]] Error failed(int err, std::string_view what) const;
    Result<> step() const;
    Result<> lock();
    Result<> load();
    Result<> read(const std::string& text);
    [[nodiscard]] Error damaged(const std::string& text) const;
    Result<> check_identity(const StreamIdentity& found) const;
    Result<> recover();
    Result<> trim_rows();
    Result<> store(std::uint64_t committed, const std::string& temporary, const std::string& file,
                   const std::string& row);
    Result<> sync_directory() const;
    Result<> rename(const std::string& from, const std::string& to) const;
    [[nodiscard]] std::vector<std::string> names() const;

    Options options_;
    UniqueFd directory_;
    UniqueFd lock_;
    UniqueFd rows_;  // windows.tsv
    std::uint64_t nonce_ = 0;
    std::uint64_t committed_ = 0;
    std::string temporary_;  // of the last window that was committed
    std::string file_;       // the same
    // Its line in windows.tsv; empty: not known, or not to be had in JSON.
    std::string row_;
    std::string mended_;
    std::vector<client::StreamMember> members_;
};

}  // namespace ask::cli
