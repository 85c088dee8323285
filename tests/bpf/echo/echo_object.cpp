// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/echo/echo.h"
#include "tests/bpf/switch/opened.h"

// After the types of the variables in it.
#include "echo_switch.skel.h"

namespace ask::test {

// Its counters stand behind the shipped ones, and the ports have the program that addresses copies.
Opened open_object(const Way& way) {
    Opened opened = open_skeleton<echo_switch_bpf>(way);
    if (opened.object == nullptr ||
        bpf_map__set_max_entries(bpf_object__find_map_by_name(opened.object, "counters"), ECHO_CNT_COUNT) !=
            0 ||
        bpf_map__set_value_size(bpf_object__find_map_by_name(opened.object, "ports"),
                                sizeof(bpf_devmap_val)) != 0) {
        return {};
    }
    return opened;
}

}  // namespace ask::test
