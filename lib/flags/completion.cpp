// SPDX-License-Identifier: Apache-2.0
#include "lib/flags/completion.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ask {
namespace {

// What comes after a flag.
enum class Takes { kNothing, kAnything, kFile, kChoice };

struct Word {
    std::string text;  // "--json", "status"
    std::string says;
    Takes takes = Takes::kNothing;
    std::string choices{};  // by blanks
    bool command = false;
};

// All that may stand behind some commands: "task explain"; nothing: the program itself.
struct Level {
    std::string at;
    std::vector<Word> words;
};

// The first line, without what a quoted word of a shell cannot hold.
std::string one_line(std::string text) {
    text.resize(std::min(text.size(), text.find('\n')));
    std::erase_if(text, [](char c) { return c == '\'' || c == '\\' || c == '`' || c == '$'; });
    return text;
}

// Of "TEXT:{auto,copy}" and of "auto|copy": "auto copy".
std::string choices_of(std::string type) {
    if (type.find('|') != std::string::npos &&
        type.find_first_not_of("abcdefghijklmnopqrstuvwxyz-|") == std::string::npos) {
        std::ranges::replace(type, '|', ' ');
        return type;
    }
    const auto begin = type.find('{');
    const auto end = type.find('}');
    if (begin == std::string::npos || end == std::string::npos || end < begin) {
        return "";
    }
    std::string choices = type.substr(begin + 1, end - begin - 1);
    std::ranges::replace(choices, ',', ' ');
    return choices;
}

Word word_of(const CLI::Option& option, const std::string& name) {
    Word word{.text = "--" + name, .says = one_line(option.get_description())};
    if (option.get_items_expected_max() == 0) {
        return word;
    }
    const std::string type = option.get_type_name();
    word.choices = choices_of(type);
    const bool file = type.starts_with("FILE") || type.starts_with("DIR") || type.starts_with("PATH");
    word.takes = !word.choices.empty() ? Takes::kChoice : file ? Takes::kFile : Takes::kAnything;
    return word;
}

// A command knows its own flags, and those of what it belongs to that it has not itself.
void collect(const CLI::App& app, const std::string& at, const std::vector<Word>& inherited,
             std::vector<Level>& levels) {
    Level level{.at = at, .words = {}};
    std::vector<Word> flags;
    flags.reserve(app.get_options().size() + inherited.size());
    for (const CLI::Option* option : app.get_options()) {
        for (const std::string& name : option->get_lnames()) {
            flags.push_back(word_of(*option, name));
        }
    }
    for (const Word& word : inherited) {
        if (std::ranges::find(flags, word.text, &Word::text) == flags.end()) {
            flags.push_back(word);
        }
    }
    const auto commands = app.get_subcommands({});
    level.words.reserve(commands.size() + flags.size());
    for (const CLI::App* command : commands) {
        level.words.push_back(
            {.text = command->get_name(), .says = one_line(command->get_description()), .command = true});
    }
    level.words.insert(level.words.end(), flags.begin(), flags.end());
    levels.push_back(std::move(level));
    for (const CLI::App* command : commands) {
        collect(*command, (at.empty() ? "" : at + " ") + command->get_name(), flags, levels);
    }
}

// What bash and zsh have in common: $at is the commands so far, `steps` lead there.
std::string steps(const std::vector<Level>& levels, const std::string& word) {
    std::string text = "        case \"$at " + word + "\" in\n";
    for (const Level& level : levels) {
        for (const Word& each : level.words) {
            if (each.command) {
                text += "            '" + level.at + " " + each.text + "') at='";
                text += (level.at.empty() ? "" : level.at + " ") + each.text + "' ;;\n";
            }
        }
    }
    return text + "        esac\n";
}

// The cases of "$at $prev" for flags that want a value: `file`, `choice` and `other` are what is done then,
// with
// @ for the choices.
std::string value_cases(const std::vector<Level>& levels, const std::string& file, const std::string& choice,
                        const std::string& other) {
    std::string text;
    for (const Level& level : levels) {
        for (const Word& word : level.words) {
            std::string done = word.takes == Takes::kFile     ? file
                               : word.takes == Takes::kChoice ? choice
                                                              : other;
            if (const auto at = done.find('@'); at != std::string::npos) {
                done.replace(at, 1, word.choices);
            }
            if (word.takes != Takes::kNothing) {
                text += "        '" + level.at + " " + word.text + "') ";
                text += done + "return ;;\n";
            }
        }
    }
    return text;
}

std::string bash_script(const std::string& program, const std::vector<Level>& levels) {
    std::string text = "# bash completion for " + program + "\n_" + program +
                       "() {\n"
                       "    local cur=${COMP_WORDS[COMP_CWORD]} at='' words='' i\n"
                       "    for ((i = 1; i < COMP_CWORD; i++)); do\n";
    text += steps(levels, "${COMP_WORDS[i]}");
    text += "    done\n    COMPREPLY=()\n    case \"$at ${COMP_WORDS[COMP_CWORD-1]}\" in\n";
    text += value_cases(levels, "mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); ",
                        "mapfile -t COMPREPLY < <(compgen -W '@' -- \"$cur\"); ", "");
    text += "    esac\n    case $at in\n";
    for (const Level& level : levels) {
        text += "        '" + level.at + "') words='";
        for (const Word& word : level.words) {
            text += word.text + " ";
        }
        text += "' ;;\n";
    }
    return text + "    esac\n    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n}\n" +
           "complete -o default -F _" + program + " " + program + "\n";
}

std::string zsh_script(const std::string& program, const std::vector<Level>& levels) {
    std::string text = "#compdef " + program + "\n_" + program +
                       "() {\n"
                       "    local at='' word\n"
                       "    local -a flags commands\n"
                       "    for word in ${words[2,CURRENT-1]}; do\n";
    text += steps(levels, "$word");
    text += "    done\n    case \"$at ${words[CURRENT-1]}\" in\n";
    text += value_cases(levels, "_files; ", "compadd -- @; ", "");
    text += "    esac\n    case $at in\n";
    for (const Level& level : levels) {
        std::string flags;
        std::string commands;
        for (const Word& word : level.words) {
            std::string says = word.says;
            std::ranges::replace(says, ':', ' ');
            std::string& words = word.command ? commands : flags;
            words += " '" + word.text + ":";
            words += says + "'";
        }
        text += "        '" + level.at + "') commands=(";
        text += commands + " ) flags=(";
        text += flags + " ) ;;\n";
    }
    return text +
           "    esac\n"
           "    (( ! $#commands )) || _describe command commands\n"
           "    _describe -o option flags\n"
           "    (( $#commands )) || _files\n"
           "}\n"
           "if [[ ${funcstack[1]-} == _" +
           program + " ]]; then _" + program + " \"$@\"; else compdef _" + program + " " + program + "; fi\n";
}

std::string fish_word(const std::string& begin, const Word& word) {
    if (word.command) {
        return begin + " -f -a " + word.text + " -d '" + word.says + "'\n";
    }
    const std::string takes = word.takes == Takes::kNothing  ? ""
                              : word.takes == Takes::kFile   ? " -r -F"
                              : word.takes == Takes::kChoice ? " -x -a '" + word.choices + "'"
                                                             : " -x";
    return begin + " -l " + word.text.substr(2) + takes + " -d '" + word.says + "'\n";
}

std::string fish_script(const std::string& program, const std::vector<Level>& levels) {
    std::string at_function = "__" + program + "_at";
    std::ranges::replace(at_function, '-', '_');
    std::string text =
        "# fish completion for " + program + "\nfunction " + at_function +
        "\n    set -l at ''\n    for word in (commandline -opc)[2..]\n        switch \"$at $word\"\n";
    for (const Level& level : levels) {
        for (const Word& word : level.words) {
            if (word.command) {
                text += "            case '" + level.at + " " + word.text + "'\n                set at '";
                text += (level.at.empty() ? "" : level.at + " ") + word.text + "'\n";
            }
        }
    }
    text += "        end\n    end\n    test \"$at\" = \"$argv[1]\"\nend\n";
    if (levels.size() > 1) {
        text += "complete -c " + program + " -f\n";
    }
    const std::string condition = "complete -c " + program + " -n '" + at_function + " \"";
    for (const Level& level : levels) {
        const std::string begin = condition + level.at + "\"'";
        for (const Word& word : level.words) {
            text += fish_word(begin, word);
        }
    }
    return text;
}

}  // namespace

Result<std::string> completion_script(const CLI::App& app, const std::string& shell) {
    std::vector<Level> levels;
    collect(app, "", {}, levels);
    if (shell == "bash") {
        return bash_script(app.get_name(), levels);
    }
    if (shell == "zsh") {
        return zsh_script(app.get_name(), levels);
    }
    if (shell == "fish") {
        return fish_script(app.get_name(), levels);
    }
    return Error(Errc::kUsage, "--completion: no shell \"" + shell + "\" is known: bash, zsh or fish");
}

}  // namespace ask
