// SPDX-License-Identifier: Apache-2.0
//
// XDP programs on interfaces, by bpf_link: the program stays as long as the link is held or pinned, and
// nobody can replace it by accident.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace ask::bpf {

enum class XdpMode {
    kNative,   // in the driver
    kGeneric,  // on socket buffers, any driver, slow
};

std::string_view to_string(XdpMode mode);

// Attaches in exactly this mode: it never falls back. kExists if another program is attached (the error names
// its id), kUnsupported if the driver cannot do the mode. `name` is the interface's, for errors.
Result<UniqueFd> attach_xdp(int program, std::uint32_t ifindex, const std::string& name, XdpMode mode);

// Id of the program that is attached to the interface, 0 if none.
Result<std::uint32_t> attached_xdp(std::uint32_t ifindex, const std::string& name);

}  // namespace ask::bpf
