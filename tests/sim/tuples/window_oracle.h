// SPDX-License-Identifier: Apache-2.0
//
// What a stream's directory must hold: of each window that is committed the lines that its members gave to
// it, each once, and none else (W1, W3 of docs/design/windows.md), or the name of who is not whole in it; and
// no time between two windows.
//
// A line is two tuples: a key of its own, which says where it is, and one that lines share.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/tuples/oracle.h"
#include "tests/sim/tuples/world.h"

namespace ask::sim {

// Of a member's input, from one up to before another.
struct GivenLines {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
};

class WindowOracle {
 public:
    explicit WindowOracle(World& world);
    ~WindowOracle();
    WindowOracle(const WindowOracle&) = delete;
    WindowOracle& operator=(const WindowOracle&) = delete;

    // Where the stream is committed to.
    [[nodiscard]] const std::string& directory() const { return directory_; }
    // The tuples of a line.
    [[nodiscard]] Tuples line(std::uint32_t member, std::uint64_t number) const;
    // All that the member gives to that window.
    void given(std::uint32_t member, std::uint64_t window, GivenLines lines);
    // As people know it.
    void named(std::uint32_t member, std::string name) { names_[member] = std::move(name); }
    // `whole`: the stream has ended, so that nothing may be in a window that is not there.
    void check(bool whole);
    [[nodiscard]] std::uint64_t commits() const { return commits_; }

 private:
    struct Row {
        std::uint64_t number = 0;
        std::string begin, until, state, missing;
        std::uint64_t keys = 0;
    };
    using Table = std::map<std::string, std::int64_t>;

    void fail(const std::string& what);
    [[nodiscard]] std::vector<Row> read_rows();
    [[nodiscard]] Table read_table(const Row& row);
    void check_rows(const std::vector<Row>& rows);
    void check_table(const Row& row);
    void check_places(const std::vector<Row>& rows, bool whole);
    [[nodiscard]] bool is_named(const Row& row, std::uint32_t member) const;
    [[nodiscard]] std::string own_key(std::uint32_t member, std::uint64_t number) const;

    World& world_;
    std::string directory_;
    std::map<std::uint32_t, std::string> names_;
    std::map<std::uint64_t, std::map<std::uint32_t, GivenLines>> given_;  // by window and member
    std::uint64_t commits_ = 0;
};

}  // namespace ask::sim
