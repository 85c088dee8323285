// SPDX-License-Identifier: Apache-2.0
#include "lib/flags/flags.h"

#include <iostream>
#include <string_view>
#include <vector>

#include "lib/daemon/version.h"
#include "lib/flags/completion.h"
#include "lib/text/suggest.h"

namespace ask {
namespace {

// The flags and commands that could stand where `app`, or a command of it that was given, found a stray word.
struct Known {
    std::vector<std::string> flags;
    std::vector<std::string> commands;
};

void collect(const CLI::App& app, Known& known) {
    for (const CLI::Option* option : app.get_options()) {
        const auto& names = option->get_lnames();
        known.flags.insert(known.flags.end(), names.begin(), names.end());
    }
    for (const CLI::App* command : app.get_subcommands({})) {
        known.commands.push_back(command->get_name());
    }
    for (const CLI::App* command : app.get_subcommands()) {
        collect(*command, known);
    }
}

// The library checks what is required first: of a flag that is misspelt it would say that the right one is
// missing.
std::string stray_words(const CLI::App& app) {
    Known known;
    collect(app, known);
    const std::vector<std::string> stray = app.remaining(true);
    for (const std::string& word : stray) {
        if (word.starts_with("--") && word != "--") {
            const std::string name = word.substr(2, word.find('=') - 2);
            return "unknown flag --" + name + suggestion(name, known.flags, "--");
        }
        if (word.starts_with('-') && word != "-" && word != "--") {
            return "unknown flag " + word;
        }
    }
    if (stray.empty()) {
        return {};
    }
    return known.commands.empty()
               ? "unexpected argument \"" + stray.front() + "\""
               : "unknown command \"" + stray.front() + "\"" + suggestion(stray.front(), known.commands);
}

}  // namespace

Result<bool> read_command_line(CLI::App& app, int argc, const char* const* argv) {
    app.set_version_flag("--version", app.get_name() + " " + std::string(kVersion),
                         "Print the version and exit");
    std::string shell;
    app.add_option("--completion", shell, "Print what completes this command in bash, zsh or fish, and exit")
        ->type_name("SHELL");
    // Nothing else is wanted then, what is required neither.
    if (argc == 3 && argv[1] == std::string_view("--completion")) {
        const auto script = completion_script(app, argv[2]);
        ASK_PASS(script);
        std::cout << *script;
        return false;
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& request) {
        app.exit(request, std::cout, std::cerr);
        return false;
    } catch (const CLI::ParseError& error) {
        const std::string stray = stray_words(app);
        std::string text = stray.empty() ? std::string(error.what()) : stray;
        text += text.ends_with('?') ? " See " : "; see ";
        return Error(Errc::kUsage, text + app.get_name() + " --help");
    }
    return true;
}

}  // namespace ask
