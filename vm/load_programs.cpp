// SPDX-License-Identifier: Apache-2.0
//
// Loads every BPF program in every form that the loader may choose, into the kernel that this runs on, and
// says what the verifier made of it: "PROGRAM<tab>FORM<tab>INSTRUCTIONS" a line, INSTRUCTIONS being those
// that it went through, or "refused". The end of its log goes to standard error. Exits with 1 if any was
// refused.

#include <array>
#include <cstdarg>
#include <cstdio>
#include <string>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "host.skel.h"
#include "lib/abi/consts.h"
#include "lib/abi/map_types.h"
#include "lib/bpf/object.h"
#include "switch.skel.h"

namespace {

using ask::Result;
using ask::bpf::Skeleton;

constexpr std::size_t kLogTail = 2000;
constexpr std::size_t kLogLimit = 32U << 20;

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

// Prints the line of every program in `object`, which `load` loads.
bool report(const char* form, bpf_object* object) {
    libbpf_log.clear();
    const int error = bpf_object__load(object);
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, object) {
        const char* name = bpf_program__name(program);
        if (error != 0) {
            std::printf("%s\t%s\trefused\n", name, form);
            continue;
        }
        const auto info = ask::bpf::prog_info(bpf_program__fd(program));
        if (!info) {
            std::fprintf(stderr, "%s %s: %s\n", name, form, info.error().text().c_str());
            return false;
        }
        std::printf("%s\t%s\t%u\n", name, form, info->verified_insns);
    }
    if (error != 0) {
        const std::size_t start = libbpf_log.size() > kLogTail ? libbpf_log.size() - kLogTail : 0;
        std::fprintf(stderr, "%s %s: error %d\n%s\n", bpf_object__name(object), form, -error,
                     libbpf_log.c_str() + start);
    }
    return error == 0;
}

template <typename T>
bool open_failed(const Result<Skeleton<T>>& skeleton) {
    if (!skeleton) {
        std::fprintf(stderr, "%s\n", skeleton.error().text().c_str());
    }
    return !skeleton;
}

struct Form {
    const char* name;
    ask_memory memory;
    ask_dedupe dedupe;
};

constexpr std::array kForms = {
    Form{"pipelines,tagged", ASK_MEMORY_PIPELINES, ASK_DEDUPE_TAGGED},
    Form{"pipelines,compact", ASK_MEMORY_PIPELINES, ASK_DEDUPE_COMPACT},
    Form{"shared,tagged", ASK_MEMORY_SHARED, ASK_DEDUPE_TAGGED},
    Form{"shared,compact", ASK_MEMORY_SHARED, ASK_DEDUPE_COMPACT},
};

bool load_switch(const Form& form) {
    auto skeleton = Skeleton<switch_bpf>::open("switch");
    if (open_failed(skeleton)) {
        return false;
    }
    auto& opened = *skeleton;
    opened->rodata->ask_memory = form.memory;
    opened->rodata->ask_dedupe = form.dedupe;
    return report(form.name, opened.object());
}

bool load_host() {
    auto skeleton = Skeleton<host_bpf>::open("host");
    return !open_failed(skeleton) && report("-", skeleton->object());
}

}  // namespace

int main() {
    libbpf_set_print(keep_log);
    bool all = load_host();
    for (const Form& form : kForms) {
        all = load_switch(form) && all;
    }
    return all ? 0 : 1;
}
