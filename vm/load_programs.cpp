// SPDX-License-Identifier: Apache-2.0
//
// Loads every BPF program in every form that a budget file names (tests/bpf/verifier_budget.txt, the one list
// of forms) into the kernel that this runs on, and says what the verifier made of it, a line each:
// "PROGRAM<tab>FORM<tab>INSTRUCTIONS<tab>BUDGET", INSTRUCTIONS being those that it went through, or
// "refused". The end of the log of a refused program goes to standard error. Exits with 1 if one was refused
// or over its budget.

#include <array>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "host.skel.h"
#include "lib/abi/back.h"
#include "lib/abi/consts.h"
#include "lib/abi/map_types.h"
#include "lib/bpf/object.h"
#include "switch.skel.h"

namespace {

using ask::Result;
using ask::bpf::Skeleton;

constexpr std::size_t kLogTail = 2000;
constexpr std::size_t kLogLimit = 32U << 20;
constexpr std::uint32_t kUnknown = ~0U;

std::string libbpf_log;

// libbpf's warnings include the verifier's log of a program that did not load.
int keep_log(libbpf_print_level level, const char* format, va_list arguments) {
    std::array<char, 256> small{};
    va_list again;
    va_copy(again, arguments);
    const int length = std::vsnprintf(small.data(), small.size(), format, arguments);
    if (level == LIBBPF_WARN && length > 0 &&
        libbpf_log.size() + static_cast<std::size_t>(length) < kLogLimit) {
        std::string text(static_cast<std::size_t>(length) + 1, '\0');
        static_cast<void>(std::vsnprintf(text.data(), text.size(), format, again));
        text.pop_back();
        libbpf_log += text;
    }
    va_end(again);
    return length;
}

// A line of the budget file.
struct Form {
    std::string program;
    std::string memory;
    std::string dedupe;
    unsigned budget = 0;

    [[nodiscard]] std::string name() const { return memory == "-" ? "-" : memory + "," + dedupe; }
};

// Loads `object`, which holds the program of `form`, and prints its line.
bool report(const Form& form, bpf_object* object) {
    libbpf_log.clear();
    const char* name = form.program.c_str();
    if (const int error = bpf_object__load(object); error != 0) {
        std::printf("%s\t%s\trefused\t%u\n", name, form.name().c_str(), form.budget);
        const std::size_t start = libbpf_log.size() > kLogTail ? libbpf_log.size() - kLogTail : 0;
        std::fprintf(stderr, "%s %s: error %d\n%s\n", name, form.name().c_str(), -error,
                     libbpf_log.c_str() + start);
        return false;
    }
    const bpf_program* program = bpf_object__find_program_by_name(object, name);
    const auto info = ask::bpf::prog_info(program == nullptr ? -1 : bpf_program__fd(program));
    if (!info) {
        std::fprintf(stderr, "%s %s: %s\n", name, form.name().c_str(), info.error().text().c_str());
        return false;
    }
    std::printf("%s\t%s\t%u\t%u\n", name, form.name().c_str(), info->verified_insns, form.budget);
    if (info->verified_insns > form.budget) {
        std::fprintf(stderr, "%s %s: the verifier went through %u instructions, and %u is its budget\n", name,
                     form.name().c_str(), info->verified_insns, form.budget);
        return false;
    }
    return true;
}

template <typename T>
bool open_failed(const Result<Skeleton<T>>& skeleton) {
    if (!skeleton) {
        std::fprintf(stderr, "%s\n", skeleton.error().text().c_str());
    }
    return !skeleton;
}

// The number that a word stands for, or kUnknown.
template <std::size_t N>
std::uint32_t number_of(const std::string& word,
                        const std::array<std::pair<const char*, std::uint32_t>, N>& words) {
    for (const auto& [name, number] : words) {
        if (word == name) {
            return number;
        }
    }
    return kUnknown;
}

bool load_switch(const Form& form) {
    const auto memory =
        number_of<2>(form.memory, {{{"pipelines", ASK_MEMORY_PIPELINES}, {"shared", ASK_MEMORY_SHARED}}});
    const auto dedupe =
        number_of<2>(form.dedupe, {{{"tagged", ASK_DEDUPE_TAGGED}, {"compact", ASK_DEDUPE_COMPACT}}});
    if (memory == kUnknown || dedupe == kUnknown) {
        std::fprintf(stderr, "%s %s: no such form\n", form.program.c_str(), form.name().c_str());
        return false;
    }
    auto skeleton = Skeleton<switch_bpf>::open("switch");
    if (open_failed(skeleton)) {
        return false;
    }
    auto& opened = *skeleton;
    opened->rodata->ask_memory = memory;
    opened->rodata->ask_dedupe = dedupe;
    return report(form, opened.object());
}

bool load_host(const Form& form) {
    auto skeleton = Skeleton<host_bpf>::open("host");
    return !open_failed(skeleton) && report(form, skeleton->object());
}

bool load(const Form& form) {
    if (form.program == "ask_switch" || form.program == "ask_tagged" || form.program == "ask_six" ||
        form.program == "ask_tuples" || form.program == "ask_back" || form.program == "ask_var" ||
        form.program == "ask_values") {
        return load_switch(form);
    }
    if (form.program == "ask_host") {
        return load_host(form);
    }
    std::fprintf(stderr, "%s: no such program\n", form.program.c_str());
    return false;
}

// Lines "program memory dedupe budget", with comments; empty if one is anything else.
std::vector<Form> read_forms(const char* path) {
    std::ifstream file(path);
    std::vector<Form> forms;
    std::string line;
    while (std::getline(file, line)) {
        if (line.empty() || line.starts_with('#')) {
            continue;
        }
        Form form;
        if (!(std::istringstream(line) >> form.program >> form.memory >> form.dedupe >> form.budget)) {
            std::fprintf(stderr, "%s: not \"program memory dedupe budget\": %s\n", path, line.c_str());
            return {};
        }
        forms.push_back(form);
    }
    return forms;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "Usage: ask-load-programs BUDGET_FILE\n");
        return 2;
    }
    libbpf_set_print(keep_log);
    const std::vector<Form> forms = read_forms(argv[1]);
    if (forms.empty()) {
        std::fprintf(stderr, "no forms in %s\n", argv[1]);
        return 2;
    }
    bool all = true;
    for (const Form& form : forms) {
        all = load(form) && all;
    }
    return all ? 0 : 1;
}
