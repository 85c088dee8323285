// SPDX-License-Identifier: Apache-2.0
//
// A reflector (reflect.bpf.c) in the place of a running switch's program, on some of its ports.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

struct wire_reflect_bpf;  // NOLINT(readability-identifier-naming): bpftool names it

namespace ask::bench {

class Reflector {
 public:
    // `pins` is the switch's directory under bpffs (docs/operations.md). The program on those ports changes
    // without a packet passing in between.
    static Result<Reflector> put(const std::filesystem::path& pins, const std::vector<std::string>& ports);
    Reflector(Reflector&&) noexcept;
    Reflector& operator=(Reflector&&) noexcept;
    // Leaves the ports to the switch's program again, if take_away() has not.
    ~Reflector();

    Result<> take_away();

 private:
    struct Destroy {
        void operator()(wire_reflect_bpf* skeleton) const;
    };
    struct Port {
        std::string name;
        UniqueFd link;
    };

    Reflector();
    Result<> load(const std::filesystem::path& pins);
    Result<> replace(int program);

    std::unique_ptr<wire_reflect_bpf, Destroy> skeleton_;
    UniqueFd switch_program_;
    std::vector<Port> ports_;
};

}  // namespace ask::bench
