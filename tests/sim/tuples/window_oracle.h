// SPDX-License-Identifier: Apache-2.0
//
// What a stream's directory must hold: of each window that is committed the lines that its members gave to
// it, each once, and none else (W1, W3 of docs/design/windows.md), or the name of who is not whole in it, and
// no other; and no time between two windows but such as nobody's tuples are of, or as whoever is named in the
// second has died in.
//
// A line is two tuples: a key of its own, which says where it is, and one that lines share.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
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
    // It has ended the window, with these lines.
    void ended(std::uint32_t member, std::uint64_t window, GivenLines lines);
    // It is in a window from now on; in none.
    void enters(std::uint32_t member);
    void goes(std::uint32_t member);
    void ask_recv_starts() { starts_.push_back(world_.clock.now()); }
    // As people know it.
    void named(std::uint32_t member, std::string name) { names_[member] = std::move(name); }
    // `whole`: the stream has ended, so that nothing may be in a window that is not there. `is_deadly`: a
    // member may have been away for too long.
    void check(bool whole, bool is_deadly);
    [[nodiscard]] std::uint64_t commits() const { return commits_; }

 private:
    struct Row {
        std::uint64_t number = 0;
        std::string begin, until, state, missing;
        std::uint64_t keys = 0;
        Nanos committed = 0;
        std::set<std::uint32_t> named{};
    };
    // That a member was in windows, one after another.
    struct Stay {
        Nanos from = 0;
        Nanos to = std::numeric_limits<Nanos>::max();
    };
    using Table = std::map<std::string, std::int64_t>;

    void fail(const std::string& what);
    [[nodiscard]] std::vector<Row> read_rows();
    [[nodiscard]] Table read_table(const Row& row);
    // Who is missing, as people read it: all of them must be known.
    [[nodiscard]] std::set<std::uint32_t> named_in(const Row& row);
    void check_rows(const std::vector<Row>& rows);
    [[nodiscard]] std::string wrong_between(const Row& first, const Row& second) const;
    void check_table(const Row& row);
    void check_places(const std::vector<Row>& rows, bool whole);
    void check_names(const Row& row, const std::set<std::uint32_t>& lacking);
    [[nodiscard]] std::string own_key(std::uint32_t member, std::uint64_t number) const;

    World& world_;
    std::string directory_;
    std::map<std::uint32_t, std::string> names_;
    std::map<std::uint64_t, std::map<std::uint32_t, GivenLines>> given_;  // by window and member
    std::map<std::uint64_t, std::set<std::uint32_t>> ended_;
    std::map<std::uint32_t, std::vector<Stay>> stays_;
    std::vector<Nanos> starts_;  // of ask-recv
    bool is_deadly_ = false;
    std::uint64_t commits_ = 0;
};

}  // namespace ask::sim
