// SPDX-License-Identifier: Apache-2.0
//
// The journal's own protocol (systemd's docs/JOURNAL_NATIVE_PROTOCOL.md): a datagram of named fields a line,
// which standard error cannot carry.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace ask {

// Whether standard error is the journal's, as systemd says in JOURNAL_STREAM: "DEVICE:INODE" of it. A child
// whose standard error is a file has the variable, too.
[[nodiscard]] bool is_journal_stream(const char* variable, int fd);

struct JournalField {
    std::string_view name;  // of A-Z, 0-9 and _
    std::string_view value;
};

// As the protocol has it: values of several lines among them.
[[nodiscard]] std::string journal_message(const std::vector<JournalField>& fields);

// May be used by several threads at once.
class JournalSocket {
 public:
    static Result<std::shared_ptr<JournalSocket>> connect(const std::string& path);
    explicit JournalSocket(UniqueFd fd) : fd_(std::move(fd)) {}
    // False: the journal did not take it, because it is away or the message is too long for a datagram.
    [[nodiscard]] bool send(std::string_view message) const;

 private:
    const UniqueFd fd_;
};

}  // namespace ask
