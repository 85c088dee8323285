// SPDX-License-Identifier: Apache-2.0
//
// What a thread is at work on, for who reads its log by fields (journalctl TASK=...): a log of the daemons'
// (lib/daemon/log.h) takes it from here. The text of a line says the same for people.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ask {

struct LogFields {
    std::string task;  // id; empty: none
    std::string group;
    std::optional<int> code;  // how it has ended: 0, or an Errc
};

// Of this thread, now.
[[nodiscard]] inline LogFields& log_fields() {
    thread_local LogFields fields;
    return fields;
}

// What the thread logs is about this as long as one lives; then about what it was about before.
class LogAbout {
 public:
    static LogAbout task(std::string_view id) {
        return LogAbout({.task = std::string(id), .group = {}, .code = {}});
    }
    static LogAbout group(std::string_view id) {
        return LogAbout({.task = {}, .group = std::string(id), .code = {}});
    }
    // The same as before, and how it has ended.
    static LogAbout code(int code) {
        LogFields fields = log_fields();
        fields.code = code;
        return LogAbout(std::move(fields));
    }
    ~LogAbout() { log_fields() = std::move(before_); }
    LogAbout(const LogAbout&) = delete;
    LogAbout& operator=(const LogAbout&) = delete;

 private:
    explicit LogAbout(LogFields fields) : before_(std::exchange(log_fields(), std::move(fields))) {}

    LogFields before_;
};

}  // namespace ask
