// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/config.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <list>
#include <optional>

#include <toml++/toml.h>

#include "lib/flags/flags.h"
#include "lib/net/address.h"
#include "lib/net/host_book.h"
#include "lib/text/suggest.h"

namespace ask {
namespace {

std::string flag_name(std::string_view key) {
    std::string flag(key);
    std::ranges::replace(flag, '_', '-');
    return flag;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
    std::string all;
    for (const std::string& part : parts) {
        all += all.empty() ? part : std::string(separator) + part;
    }
    return all;
}

Result<std::int64_t> parse_integer(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
        return Error(Errc::kUsage, "must be a whole number");
    }
    return value;
}

Result<> run_check(const ConfigTable::TextCheck& check, std::string_view value) {
    return check ? check(value) : Result<>();
}

std::string_view toml_type(const toml::node& node) {
    switch (node.type()) {
        case toml::node_type::table:
            return "a table";
        case toml::node_type::array:
            return "an array";
        case toml::node_type::string:
            return "a string";
        case toml::node_type::integer:
            return "an integer";
        case toml::node_type::floating_point:
            return "a floating point number";
        case toml::node_type::boolean:
            return "a boolean";
        default:
            return "a date or time";
    }
}

std::string location(const std::string& path, const toml::source_region& source) {
    return path + ":" + std::to_string(source.begin.line);
}

Result<std::string> text_of(const std::string& path) {
    constexpr std::size_t kChunk = 4096;
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
        return Error(Errc::kInput, path + ": is a directory");
    }
    std::ifstream file(path, std::ios::binary);
    std::string text;
    std::string chunk(kChunk, '\0');
    while (file.read(chunk.data(), kChunk).gcount() > 0) {
        text.append(chunk, 0, static_cast<std::size_t>(file.gcount()));
    }
    if (file.is_open() && !file.bad()) {
        return text;
    }
    const int err = errno;
    if (err == ENOENT || err == ENOTDIR) {
        return Error(Errc::kInput, path + ": no such file");
    }
    return Error::from_errno(err, "read " + path);
}

// The strings of an array; nothing if there is anything else in it.
std::optional<std::vector<std::string>> strings_of(const toml::array& array) {
    std::vector<std::string> values;
    for (const toml::node& element : array) {
        const auto* text = element.as_string();
        if (text == nullptr) {
            return std::nullopt;
        }
        values.push_back(text->get());
    }
    return values;
}

// A table of strings as NAME=VALUE; nothing if there is anything else in it.
std::optional<std::vector<std::string>> pairs_of(const toml::table& table) {
    std::vector<std::string> values;
    for (const auto& [name, element] : table) {
        const auto* text = element.as_string();
        if (text == nullptr) {
            return std::nullopt;
        }
        values.push_back(std::string(name.str()) + "=" + text->get());
    }
    return values;
}

}  // namespace

// What the command line held, before anything is assigned: the file goes first.
struct ConfigTable::Flags {
    struct Given {
        const Option* option = nullptr;
        CLI::Option* flag = nullptr;
        std::vector<std::string> values;
        bool on = false;
    };
    std::list<Given> given;  // a list: CLI11 keeps the addresses of its elements
    std::string config;
    bool config_given = false;
};

ConfigTable::ConfigTable(std::string program, std::string description, std::string default_path)
    : program_(std::move(program)),
      description_(std::move(description)),
      default_path_(std::move(default_path)) {}

void ConfigTable::text(std::string_view key, std::string* target, std::string_view help, TextCheck check) {
    auto assign = [target, check = std::move(check)](const std::vector<std::string>& values) -> Result<> {
        ASK_TRY(run_check(check, values.back()), "\"" + values.back() + "\"");
        *target = values.back();
        return {};
    };
    options_.push_back({std::string(key), std::string(help), "TEXT", *target, Kind::kText, std::move(assign),
                        [target] { return *target; }});
}

void ConfigTable::choice(std::string_view key, std::string* target, std::vector<std::string> choices,
                         std::string_view help) {
    std::string type = join(choices, "|");
    auto assign = [target, choices = std::move(choices)](const std::vector<std::string>& values) -> Result<> {
        if (std::ranges::find(choices, values.back()) == choices.end()) {
            return Error(Errc::kUsage, "\"" + values.back() + "\": must be one of " + join(choices, ", "));
        }
        *target = values.back();
        return {};
    };
    options_.push_back({std::string(key), std::string(help), std::move(type), *target, Kind::kText,
                        std::move(assign), [target] { return *target; }});
}

void ConfigTable::add_integer(std::string_view key, std::string fallback, std::int64_t min, std::int64_t max,
                              std::string_view help, std::function<void(std::int64_t)> set,
                              std::function<std::string()> show) {
    std::string type = std::to_string(min) + ".." + std::to_string(max);
    auto assign = [min, max, set = std::move(set)](const std::vector<std::string>& values) -> Result<> {
        const auto value = parse_integer(values.back());
        ASK_TRY(value, values.back());
        if (*value < min || *value > max) {
            return Error(Errc::kUsage, values.back() + ": must be from " + std::to_string(min) + " to " +
                                           std::to_string(max));
        }
        set(*value);
        return {};
    };
    options_.push_back({std::string(key), std::string(help), std::move(type), std::move(fallback),
                        Kind::kInteger, std::move(assign), std::move(show)});
}

void ConfigTable::boolean(std::string_view key, bool* target, std::string_view help) {
    auto assign = [target](const std::vector<std::string>& values) -> Result<> {
        *target = values.back() == "true";
        return {};
    };
    options_.push_back({std::string(key), std::string(help), "", *target ? "true" : "false", Kind::kBoolean,
                        std::move(assign), [target] { return *target ? "true" : "false"; }});
}

void ConfigTable::list(std::string_view key, std::vector<std::string>* target, std::string_view help,
                       TextCheck check) {
    auto assign = [target, check = std::move(check)](const std::vector<std::string>& values) -> Result<> {
        for (const std::string& value : values) {
            ASK_TRY(run_check(check, value), "\"" + value + "\"");
        }
        *target = values;
        return {};
    };
    options_.push_back({std::string(key), std::string(help), "TEXT[,TEXT...]", join(*target, ","),
                        Kind::kList, std::move(assign), [target] { return join(*target, ","); }});
}

void ConfigTable::table(std::string_view key, std::map<std::string, std::string>* target,
                        std::string_view help, TextCheck check) {
    auto assign = [target, check = std::move(check)](const std::vector<std::string>& values) -> Result<> {
        for (const std::string& pair : values) {
            const std::size_t equals = pair.find('=');
            if (equals == std::string::npos || equals == 0) {
                return Error(Errc::kUsage, "\"" + pair + "\": must be NAME=VALUE");
            }
            ASK_TRY(run_check(check, pair.substr(equals + 1)), "\"" + pair + "\"");
            (*target)[pair.substr(0, equals)] = pair.substr(equals + 1);
        }
        return {};
    };
    options_.push_back(
        {std::string(key), std::string(help), "NAME=VALUE", "", Kind::kTable, std::move(assign), [target] {
             std::string all;
             for (const auto& [name, value] : *target) {
                 all.append(all.empty() ? "" : ",").append(name).append("=").append(value);
             }
             return all;
         }});
}

void ConfigTable::command(std::string_view key, bool* target, std::string_view help) {
    auto assign = [target](const std::vector<std::string>& values) -> Result<> {
        *target = values.back() == "true";
        return {};
    };
    options_.push_back({std::string(key), std::string(help), "", "", Kind::kCommand, std::move(assign),
                        [target] { return *target ? "true" : "false"; }});
}

const ConfigTable::Option* ConfigTable::find(std::string_view key) const {
    const auto it = std::ranges::find(options_, key, &Option::key);
    return it == options_.end() ? nullptr : &*it;
}

// The rest of a sentence about a key that is not there.
std::string ConfigTable::unknown_hint(std::string_view key) const {
    const std::string nearest = suggestion(key, file_keys());
    return (nearest.empty() ? "." : nearest) + " See " + program_ + " --help for all keys";
}

std::vector<std::string> ConfigTable::file_keys() const {
    std::vector<std::string> keys;
    for (const Option& option : options_) {
        if (option.kind != Kind::kCommand) {
            keys.push_back(option.key);
        }
    }
    return keys;
}

Result<> ConfigTable::read_file(const std::string& path) {
    auto text = text_of(path);
    ASK_PASS(text);
    toml::table root;
    try {
        root = toml::parse(*text, path);
    } catch (const toml::parse_error& error) {
        return Error(Errc::kUsage, location(path, error.source()) + ": " + std::string(error.description()));
    }
    for (const auto& [key, node] : root) {
        const std::string where = location(path, node.source()) + ": ";
        const Option* option = find(key.str());
        if (option == nullptr || option->kind == Kind::kCommand) {
            return Error(Errc::kUsage,
                         where + "unknown key \"" + std::string(key.str()) + "\"" + unknown_hint(key.str()));
        }
        std::optional<std::vector<std::string>> values;
        std::string_view wanted;
        if (option->kind == Kind::kText) {
            wanted = "a string";
            values = node.is_string() ? std::optional(std::vector{node.as_string()->get()}) : std::nullopt;
        } else if (option->kind == Kind::kInteger) {
            wanted = "an integer";
            values = node.is_integer() ? std::optional(std::vector{std::to_string(node.as_integer()->get())})
                                       : std::nullopt;
        } else if (option->kind == Kind::kBoolean) {
            wanted = "true or false";
            values =
                node.is_boolean()
                    ? std::optional(std::vector<std::string>{node.as_boolean()->get() ? "true" : "false"})
                    : std::nullopt;
        } else if (option->kind == Kind::kList) {
            wanted = "an array of strings";
            values = node.is_array() ? strings_of(*node.as_array()) : std::nullopt;
        } else {
            wanted = "a table of strings";
            values = node.is_table() ? pairs_of(*node.as_table()) : std::nullopt;
        }
        if (!values) {
            return Error(Errc::kUsage, where + std::string(key.str()) + " must be " + std::string(wanted) +
                                           ", is " + std::string(toml_type(node)) +
                                           (node.is_array() || node.is_table() ? " of something else" : ""));
        }
        ASK_TRY(option->assign(*values), where + std::string(key.str()));
    }
    return {};
}

Result<ConfigAction> ConfigTable::read_flags(int argc, const char* const* argv, Flags& flags) const {
    CLI::App app(description_, program_);
    CLI::Option* config = app.add_option(
        "--config", flags.config,
        "Configuration file (TOML)" + (default_path_.empty() ? std::string() : " [" + default_path_ + "]"));
    config->take_last();
    for (const Option& option : options_) {
        Flags::Given& given = flags.given.emplace_back();
        given.option = &option;
        const std::string name = "--" + flag_name(option.key);
        const std::string help = option.help + (option.fallback.empty() ? "" : " [" + option.fallback + "]");
        if (option.kind == Kind::kBoolean) {
            given.flag = app.add_flag(name + ",!--no-" + flag_name(option.key), given.on, help);
        } else if (option.kind == Kind::kCommand) {
            given.flag = app.add_flag(name, given.on, help);
        } else {
            given.flag =
                app.add_option(name, given.values, help)->type_name(option.type)->allow_extra_args(false);
            if (option.kind == Kind::kList) {
                given.flag->delimiter(',');
            } else if (option.kind != Kind::kTable) {
                given.flag->expected(1)->take_last();
            }
        }
    }
    app.footer("Exit codes: docs/commands.md. How to run it: docs/operations.md.");
    auto read = read_command_line(app, argc, argv);
    ASK_PASS(read);
    if (!*read) {
        return ConfigAction::kExit;
    }
    flags.config_given = config->count() > 0;
    for (Flags::Given& given : flags.given) {
        if (given.flag->count() == 0) {
            given.option = nullptr;
        } else if (given.values.empty()) {
            given.values = {given.on ? "true" : "false"};
        }
        given.flag = nullptr;
    }
    return ConfigAction::kRun;
}

Result<ConfigAction> ConfigTable::parse(int argc, const char* const* argv) {
    Flags flags;
    auto action = read_flags(argc, argv, flags);
    if (!action.ok() || *action == ConfigAction::kExit) {
        return action;
    }
    std::error_code ignored;
    if (flags.config_given) {
        file_ = flags.config;
        ASK_TRY(read_file(file_), "--config");
    } else if (!default_path_.empty() && std::filesystem::exists(default_path_, ignored)) {
        file_ = default_path_;
        ASK_TRY(read_file(file_), "configuration");
    }
    for (const Flags::Given& given : flags.given) {
        if (given.option != nullptr) {
            ASK_TRY(given.option->assign(given.values), "--" + flag_name(given.option->key));
        }
    }
    return ConfigAction::kRun;
}

ConfigSnapshot ConfigTable::snapshot() const {
    ConfigSnapshot all{file_, {}};
    for (const Option& option : options_) {
        all.values[option.key] = option.show();
    }
    return all;
}

Result<> check_host_address(std::string_view text) {
    if (const auto ipv6 = parse_ipv6(text)) {
        auto valid = check_ipv6_host(*ipv6);
        return valid.ok() ? Result<>() : Error(Errc::kUsage, valid.error().text());
    }
    const auto ipv4 = parse_ipv4(text);
    if (!ipv4) {
        return Error(Errc::kUsage, "must be an IPv4 or IPv6 address such as 198.18.1.1 or 2001:db8::1");
    }
    if (is_ipv6_number(*ipv4)) {
        return Error(Errc::kUsage,
                     std::string(text) + " is reserved: hosts with IPv6 have numbers like it (240.0.0.0/4)");
    }
    return {};
}

Result<> check_host_maybe_port(std::string_view text) {
    const auto parts = split_host_port(text);
    if (!parts.ok()) {
        return check_host_address(text);
    }
    const std::string& host = parts->host;
    const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
    return check_host_address(in_brackets ? std::string_view(host).substr(1, host.size() - 2) : host);
}

Result<> check_interface(std::string_view text) {
    constexpr std::size_t kMaxName = 15;  // IFNAMSIZ without the final zero
    const bool clean = std::ranges::none_of(text, [](char c) {
        return c == '/' || c == ':' || std::isspace(static_cast<unsigned char>(c)) != 0;
    });
    if (text.empty() || text.size() > kMaxName || !clean || text == "." || text == "..") {
        return Error(Errc::kUsage, "must be an interface name of 1 to 15 bytes");
    }
    return {};
}

}  // namespace ask
