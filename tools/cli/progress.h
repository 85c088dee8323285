// SPDX-License-Identifier: Apache-2.0
//
// What a command says on standard error: one line on a terminal that is written over as a task goes on, and
// what stays.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/client/task.h"

namespace ask::cli {

class ProgressLine {
 public:
    // Shows something only if standard error is a terminal; `quiet`: nothing but warnings.
    ProgressLine(std::string prefix, bool quiet);
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;
    ~ProgressLine() { clear(); }

    void show(const std::string& text);
    // Says something that stays, again only on a terminal.
    void note(const std::string& text);
    // Says something that stays, also where standard error is no terminal.
    void say(const std::string& text);
    // The same, and with --quiet too: something is lost, or not as it was asked for.
    void warn(const std::string& text);
    // Takes the line away, for what comes next to start at its place.
    void clear();

 private:
    std::string prefix_;
    bool terminal_;
    bool quiet_;
    bool shown_ = false;
};

// "12345678" as "12.3 M".
[[nodiscard]] std::string short_count(std::uint64_t count);
// " (12.3 M/s)"; nothing where it is not known.
[[nodiscard]] std::string rate_text(double rate);
// `rate`: tuples handed in a second; 0: not known. `share`: of the input that has been read, if its size is
// known.
[[nodiscard]] std::string describe_send(const client::TaskProgress& progress, double rate,
                                        std::optional<double> share);
[[nodiscard]] std::string describe_receive(const client::TaskProgress& progress, std::uint32_t senders,
                                           double rate);

}  // namespace ask::cli
