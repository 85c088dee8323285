// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/switch/opened.h"

// After the types of the variables in it.
#include "switch.skel.h"

namespace ask::test {

Opened open_object(const Way& way) {
    return open_skeleton<switch_bpf>(way);
}

}  // namespace ask::test
