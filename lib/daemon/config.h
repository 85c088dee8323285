// SPDX-License-Identifier: Apache-2.0
//
// Configuration of a daemon: one table of options, each a key of the TOML file (max_channels) and a flag
// (--max-channels) at once. Flags win over the file, the file over the default that the variable holds.
// A key that the table does not know, a wrong type and a value out of range are errors that name key, file
// and line.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"

namespace ask {

enum class ConfigAction {
    kRun,   // go on with what was read
    kExit,  // --help or --version was asked for and printed
};

// What a daemon was told at one time.
struct ConfigSnapshot {
    std::string file;  // empty: there was none
    std::map<std::string, std::string> values;
};

class ConfigTable {
 public:
    // Checks a text value; the error says what is allowed, without naming the key.
    using TextCheck = std::function<Result<>(std::string_view)>;

    // `default_path` is read if it exists and --config does not name another file; empty: none.
    ConfigTable(std::string program, std::string description, std::string default_path);

    // Each of these declares one option. `key` is snake_case; `*target` holds the default, gets the value and
    // must outlive parse().
    void text(std::string_view key, std::string* target, std::string_view help, TextCheck check = {});
    // One of `choices`.
    void choice(std::string_view key, std::string* target, std::vector<std::string> choices,
                std::string_view help);
    // A whole number in [min, max].
    template <std::integral T>
    void integer(std::string_view key, T* target, std::int64_t min, std::int64_t max, std::string_view help) {
        add_integer(
            key, std::to_string(*target), min, max, help,
            [target](std::int64_t value) { *target = static_cast<T>(value); },
            [target] { return std::to_string(*target); });
    }
    // --key and --no-key.
    void boolean(std::string_view key, bool* target, std::string_view help);
    // An array of strings; as flag repeated or separated by commas. Flags replace the file's list.
    void list(std::string_view key, std::vector<std::string>* target, std::string_view help,
              TextCheck check = {});
    // A TOML table of strings ([hosts] h1 = "198.18.1.2"); as flag: --hosts h1=198.18.1.2, repeated. Flags
    // add to the file's entries. `check` sees the values.
    void table(std::string_view key, std::map<std::string, std::string>* target, std::string_view help,
               TextCheck check = {});
    // A flag that is no configuration: refused in the file.
    void command(std::string_view key, bool* target, std::string_view help);

    // Reads file and flags. Nothing but `*target`s changes; on error some may have changed.
    Result<ConfigAction> parse(int argc, const char* const* argv);
    // Once parsed: which file was read, and what every key is set to, as text.
    [[nodiscard]] ConfigSnapshot snapshot() const;

 private:
    enum class Kind { kText, kInteger, kBoolean, kList, kTable, kCommand };
    struct Option {
        std::string key;
        std::string help;
        std::string type;      // what --help shows as the value
        std::string fallback;  // what --help shows as the default
        Kind kind = Kind::kText;
        // All values of one source, as text; a table's as NAME=VALUE.
        std::function<Result<>(const std::vector<std::string>&)> assign;
        std::function<std::string()> show;  // what it is set to
    };
    struct Flags;

    void add_integer(std::string_view key, std::string fallback, std::int64_t min, std::int64_t max,
                     std::string_view help, std::function<void(std::int64_t)> set,
                     std::function<std::string()> show);
    Result<> read_file(const std::string& path);
    Result<ConfigAction> read_flags(int argc, const char* const* argv, Flags& flags) const;
    [[nodiscard]] const Option* find(std::string_view key) const;
    [[nodiscard]] std::string unknown_hint(std::string_view key) const;
    // What a file may set.
    [[nodiscard]] std::vector<std::string> file_keys() const;

    std::string program_;
    std::string description_;
    std::string default_path_;
    std::string file_;  // that was read
    std::vector<Option> options_;
};

// Checks for ConfigTable::text and ::list; so is check_host_port of lib/net/address.h.
// The IPv4 or IPv6 address of a host.
Result<> check_host_address(std::string_view text);
// The same, or with a port behind it: "198.18.1.1:4791", "[2001:db8::1]:4791".
Result<> check_host_maybe_port(std::string_view text);
// An interface name as the kernel takes it: 1..15 bytes, no '/', no white space.
Result<> check_interface(std::string_view text);

}  // namespace ask
