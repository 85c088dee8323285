// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/window_oracle.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "lib/base/wall_clock.h"
#include "tests/sim/frame/random.h"

namespace ask::sim {

namespace {

constexpr char kOwn = 'm';
constexpr char kShared = 's';

std::vector<std::string> columns_of(const std::string& line) {
    std::vector<std::string> columns;
    std::istringstream text(line);
    for (std::string column; std::getline(text, column, '\t');) {
        columns.push_back(std::move(column));
    }
    return columns;
}

// "2026-11-28T05:30:00Z" as "20261128T053000Z".
std::string file_time(std::string time) {
    std::erase_if(time, [](char c) { return c == '-' || c == ':'; });
    return time;
}

// "2023-11-14T22:13:20Z", by the simulated clock; the receiver's is neither fast nor slow.
Nanos sim_time(const std::string& time) {
    std::tm parts{};
    ::strptime(time.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    const std::int64_t began_ms = unix_ms() - sim_now() / kMillisecond;
    return (::timegm(&parts) * 1000 - began_ms) * kMillisecond;
}

// What processes that were killed have left there: the number behind the name is theirs.
void sweep(const std::filesystem::path& where) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(where, ignored)) {
        const std::string name = entry.path().filename();
        int pid = 0;
        if (std::sscanf(name.c_str(), "ask-sim-%d-", &pid) == 1 && pid > 0 && ::kill(pid, 0) != 0 &&
            errno == ESRCH) {
            std::filesystem::remove_all(entry.path(), ignored);
        }
    }
}

// Where syncing costs nothing, if there is such a place.
std::string make_directory() {
    static const std::string where = [] {
        const bool in_memory = ::access("/dev/shm", W_OK) == 0;
        std::string found = in_memory ? "/dev/shm" : std::filesystem::temp_directory_path().string();
        sweep(found);
        return found;
    }();
    std::string path = where + "/ask-sim-" + std::to_string(::getpid()) + "-XXXXXX";
    return ::mkdtemp(path.data()) == nullptr ? std::string() : path;
}

}  // namespace

WindowOracle::WindowOracle(World& world)
    : world_(world), directory_(world.plan.windows > 0 ? make_directory() : "") {}

WindowOracle::~WindowOracle() {
    if (!directory_.empty()) {
        std::error_code ignored;
        std::filesystem::remove_all(directory_, ignored);
    }
}

void WindowOracle::fail(const std::string& what) {
    world_.fail(Promise::kWindow, what);
}

std::string WindowOracle::own_key(std::uint32_t member, std::uint64_t number) const {
    std::string key = kOwn + std::to_string(member) + "." + std::to_string(number);
    // Some are longer than an aggregator takes, some than a packet's first slots.
    if (world_.plan.key_kind >= 2 && number % 7 == 0) {
        key.append(20 + number % 40, 'x');
    }
    return key;
}

Tuples WindowOracle::line(std::uint32_t member, std::uint64_t number) const {
    Random random(std::uint64_t{member} << 32U | number, 9);
    const std::int64_t value =
        world_.plan.count > 0 ? 1 : static_cast<std::int64_t>(random.below(2001)) - 1000;
    return {{own_key(member, number), 1},
            {kShared + std::to_string(random.below(std::max(world_.plan.keys, 1U))), value}};
}

void WindowOracle::ended(std::uint32_t member, std::uint64_t window, GivenLines lines) {
    given(member, window, lines);
    ended_[window].insert(member);
}

void WindowOracle::enters(std::uint32_t member) {
    auto& stays = stays_[member];
    if (stays.empty() || stays.back().to <= world_.clock.now()) {
        stays.push_back({.from = world_.clock.now()});
    }
}

void WindowOracle::goes(std::uint32_t member) {
    if (auto& stays = stays_[member]; !stays.empty()) {
        stays.back().to = std::min(stays.back().to, world_.clock.now());
    }
}

void WindowOracle::given(std::uint32_t member, std::uint64_t window, GivenLines lines) {
    if (lines.to > lines.from) {
        given_[window][member] = lines;
    } else if (const auto at = given_.find(window); at != given_.end()) {
        at->second.erase(member);
    }
}

std::vector<WindowOracle::Row> WindowOracle::read_rows() {
    std::ifstream file(directory_ + "/windows.tsv");
    std::vector<Row> rows;
    for (std::string line; std::getline(file, line);) {
        std::vector<std::string> columns = columns_of(line);
        if (line.starts_with('#')) {
            continue;
        }
        if (columns.size() < 7) {
            fail("windows.tsv has the line '" + line + "'");
            return rows;
        }
        columns.resize(8);
        Row& row = rows.emplace_back();
        row = {
            .number = std::stoull(columns[0]),
            .begin = columns[1],
            .until = columns[2],
            .state = columns[3],
            .missing = columns[7],
            .keys = std::stoull(columns[5]),
            .committed = sim_time(columns[2]) + static_cast<Nanos>(std::stoull(columns[4])) * kMillisecond};
        row.named = named_in(row);
    }
    return rows;
}

WindowOracle::Table WindowOracle::read_table(const Row& row) {
    Table table;
    const std::string name = file_time(row.begin) + ".tsv";
    std::ifstream file(directory_ + "/" + name);
    if (!file) {
        fail("window " + std::to_string(row.number) + ": there is no " + name);
    }
    for (std::string line; std::getline(file, line);) {
        const auto tab = line.find('\t');
        if (tab == std::string::npos ||
            !table.emplace(line.substr(0, tab), std::stoll(line.substr(tab + 1))).second) {
            fail(name + " has the line '" + line + "', without a value or twice");
        }
    }
    if (table.size() != row.keys) {
        fail(name + " has " + std::to_string(table.size()) + " keys, windows.tsv says " +
             std::to_string(row.keys));
    }
    return table;
}

// "an unknown subset of NAME's tuples: REASON; ..."
std::set<std::uint32_t> WindowOracle::named_in(const Row& row) {
    std::set<std::uint32_t> members;
    for (std::size_t from = 0; from < row.missing.size();) {
        const std::size_t to = std::min(row.missing.find("; ", from), row.missing.size());
        const std::string entry = row.missing.substr(from, to - from);
        const auto known = std::ranges::find_if(names_, [&entry](const auto& each) {
            return entry.starts_with("an unknown subset of " + each.second + "'s tuples: ");
        });
        if (known == names_.end()) {
            fail("window " + std::to_string(row.number) + " names nobody by '" + entry + "'");
        } else {
            members.insert(known->first);
        }
        from = to + 2;
    }
    if (members.empty() == (row.state == "incomplete")) {
        fail("window " + std::to_string(row.number) + " is called " + row.state + ", but names '" +
             row.missing + "'");
    }
    return members;
}

// In their order, and each begins where the one before ends.
void WindowOracle::check_rows(const std::vector<Row>& rows) {
    for (std::size_t i = 1; i < rows.size(); ++i) {
        if (const std::string wrong = wrong_between(rows[i - 1], rows[i]); !wrong.empty()) {
            fail("windows " + std::to_string(rows[i - 1].number) + " and " + std::to_string(rows[i].number) +
                 " " + wrong);
        }
    }
}

std::string WindowOracle::wrong_between(const Row& first, const Row& second) const {
    if (second.number <= first.number) {
        return "are not in their order";
    }
    if (second.begin == first.until) {
        return "";
    }
    const std::string pair =
        "are apart: the first ends at " + first.until + ", the second begins at " + second.begin;
    const Nanos from = sim_time(first.until);
    const Nanos to = sim_time(second.begin);
    if (to < from) {
        return pair;
    }
    // Only whoever opens the stream anew does not know how far it was.
    const Nanos begun = sim_time(first.begin);
    const auto is_between = [&](Nanos start) { return begun < start && start < second.committed; };
    if (world_.plan.receiver_deaths == 0 && std::ranges::none_of(starts_, is_between)) {
        return pair + ", and ask-recv went on all the time";
    }
    for (const auto& [member, stays] : stays_) {
        const bool was_in =
            std::ranges::any_of(stays, [&](const Stay& stay) { return stay.from < to && stay.to > from; });
        if (was_in && !second.named.contains(member)) {
            return pair + ", and member " + std::to_string(member) + " was in the stream meanwhile";
        }
    }
    return "";
}

void WindowOracle::check_table(const Row& row) {
    const std::string window = "window " + std::to_string(row.number);
    Table table = read_table(row);
    Table shared;
    std::set<std::uint32_t> lacking;
    for (const auto& [member, lines] : given_[row.number]) {
        for (std::uint64_t number = lines.from; number < lines.to; ++number) {
            const Tuples tuples = line(member, number);
            const auto own = table.find(tuples[0].first);
            if (own == table.end()) {
                lacking.insert(member);
                if (!row.named.contains(member)) {
                    fail(window + " lacks line " + std::to_string(number) + " of member " +
                         std::to_string(member));
                }
            } else {
                if (own->second != 1) {
                    fail(window + " has " + own->first + " " + std::to_string(own->second) + " times");
                }
                table.erase(own);
            }
            shared[tuples[1].first] += tuples[1].second;
        }
    }
    for (const auto& [key, value] : table) {
        if (key.starts_with(kOwn)) {
            fail(window + " has " + key + ", which nobody gave to it");
        }
    }
    std::erase_if(table, [](const auto& entry) { return entry.first.starts_with(kOwn); });
    if (row.named.empty() && table != shared) {
        fail(window + ": sums differ from those of its lines");
    }
    check_names(row, lacking);
}

// Whoever is named lacks a line there, or has not ended it; or something has died, or was away, for so long
// that nobody could know.
void WindowOracle::check_names(const Row& row, const std::set<std::uint32_t>& lacking) {
    for (const std::uint32_t member : row.named) {
        if (!is_deadly_ && !lacking.contains(member) && ended_[row.number].contains(member)) {
            fail("window " + std::to_string(row.number) + " names member " + std::to_string(member) +
                 ", which lacks nothing there: " + row.missing);
        }
        if (!stays_.contains(member)) {
            fail("window " + std::to_string(row.number) + " names member " + std::to_string(member) +
                 ", which was never in the stream: " + row.missing);
        }
    }
}

// Nothing was given to a window that is not there, unless whoever gave it is named in the next one, or, where
// none comes after it, in any: a member that has died is not known to have been in it.
void WindowOracle::check_places(const std::vector<Row>& rows, bool whole) {
    for (const auto& [window, members] : given_) {
        const auto at = std::ranges::lower_bound(rows, window, {}, &Row::number);
        if (at != rows.end() && at->number == window) {
            continue;
        }
        for (const auto& [member, lines] : members) {
            const auto names_it = [&](const Row& row) { return row.named.contains(member); };
            const bool is_said =
                at == rows.end() ? !whole || std::ranges::any_of(rows, names_it) : names_it(*at);
            if (!is_said) {
                fail("member " + std::to_string(member) + " gave " + std::to_string(lines.to - lines.from) +
                     " lines to window " + std::to_string(window) + ", which is not there");
            }
        }
    }
}

void WindowOracle::check(bool whole, bool is_deadly) {
    is_deadly_ = is_deadly;
    const std::vector<Row> rows = read_rows();
    commits_ = rows.size();
    check_rows(rows);
    for (const Row& row : rows) {
        check_table(row);
    }
    check_places(rows, whole);
}

}  // namespace ask::sim
