// SPDX-License-Identifier: Apache-2.0
//
// The object that the harness loads, as a test links it: the shipped switch (shipped.cpp), or the same
// sources with one service more (tests/bpf/echo).
#pragma once

#include <memory>

#include <bpf/libbpf.h>

#include "tests/bpf/switch/harness.h"

namespace ask::test {

struct Opened {
    bpf_object* object = nullptr;
    std::shared_ptr<void> skeleton;
};

// Opened, with the constants of this way of loading it.
Opened open_object(const Way& way);

template <typename Skeleton>
Opened open_skeleton(const Way& way) {
    Skeleton* skeleton = Skeleton::open();
    if (skeleton == nullptr) {
        return {};
    }
    skeleton->rodata->ask_memory = way.memory;
    skeleton->rodata->ask_dedupe = way.dedupe;
    skeleton->rodata->ask_switch_id = kMarkSwitch;
    skeleton->rodata->ask_mark_incarnation = kMarkIncarnation;
    return {skeleton->obj, std::shared_ptr<void>(skeleton, [](void* opened) {
                Skeleton::destroy(static_cast<Skeleton*>(opened));
            })};
}

}  // namespace ask::test
