// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "lib/text/escape.h"

namespace ask::cli {
namespace {

// A longer line would wrap, and then not be written over.
std::size_t terminal_columns() {
    winsize size{};
    const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : 80;
}

}  // namespace

ProgressLine::ProgressLine(std::string prefix, bool quiet)
    : prefix_(std::move(prefix)), terminal_(!quiet && ::isatty(STDERR_FILENO) == 1), quiet_(quiet) {}

void ProgressLine::show(const std::string& text) {
    if (!terminal_) {
        return;
    }
    // Part of the text comes from other hosts and must not steer the terminal.
    const std::string line = (prefix_ + ": " + escaped(text)).substr(0, terminal_columns() - 1);
    std::fprintf(stderr, "\r\033[K%s", line.c_str());
    std::fflush(stderr);
    shown_ = true;
}

void ProgressLine::note(const std::string& text) {
    if (terminal_) {
        say(text);
    }
}

void ProgressLine::say(const std::string& text) {
    if (!quiet_) {
        warn(text);
    }
}

void ProgressLine::warn(const std::string& text) {
    clear();
    std::fprintf(stderr, "%s: %s\n", prefix_.c_str(), escaped(text).c_str());
}

void ProgressLine::clear() {
    if (shown_) {
        std::fputs("\r\033[K", stderr);
        std::fflush(stderr);
        shown_ = false;
    }
}

std::string rate_text(double rate) {
    return rate > 0 ? " (" + short_count(static_cast<std::uint64_t>(rate)) + "/s)" : "";
}

std::string short_count(std::uint64_t count) {
    constexpr std::array<const char*, 6> kUnits = {" k", " M", " G", " T", " P", " E"};
    if (count < 10'000) {
        return std::to_string(count);
    }
    double scaled = static_cast<double>(count) / 1000;
    std::size_t unit = 0;
    while (scaled >= 1000 && unit + 1 < kUnits.size()) {
        scaled /= 1000;
        ++unit;
    }
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f%s", scaled, kUnits[unit]);
    return text.data();
}

std::string describe_send(const client::TaskProgress& progress, double rate, std::optional<double> share) {
    const client::TaskStats& stats = progress.stats;
    std::string text = progress.state + ", " +
                       (share ? std::to_string(static_cast<int>(*share * 100)) + " % read, " : "") +
                       short_count(stats.tuples_in) + " tuples in" + rate_text(rate);
    if (stats.packets_sent > 0) {
        text += ", " + short_count(stats.tuples_merged) + " merged, " + short_count(stats.packets_sent) +
                " packets sent, " + short_count(stats.packets_acked_by_switch) + " ended at the switch";
    }
    return text;
}

std::string describe_receive(const client::TaskProgress& progress, std::uint32_t senders, double rate) {
    return progress.state + ", senders: " + std::to_string(progress.senders_joined) + " of " +
           std::to_string(senders) + " joined, " + std::to_string(progress.senders_finished) + " finished, " +
           short_count(progress.stats.tuples_in) + " tuples in" + rate_text(rate) + ", " +
           short_count(progress.stats.tuples_switch) + " added up on the switch, " +
           short_count(progress.stats.tuples_receiver.total()) + " here";
}

}  // namespace ask::cli
