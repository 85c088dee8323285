// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/switch/opened.h"

// After the types of the variables in it.
#include "switch.skel.h"

namespace ask::test {

// The ports have the program that addresses copies.
Opened open_object(const Way& way) {
    Opened opened = open_skeleton<switch_bpf>(way);
    if (opened.object == nullptr ||
        bpf_map__set_value_size(bpf_object__find_map_by_name(opened.object, "ports"),
                                sizeof(bpf_devmap_val)) != 0) {
        return {};
    }
    return opened;
}

}  // namespace ask::test
