// SPDX-License-Identifier: Apache-2.0
#include "bench/wire/reflector.h"

#include <cerrno>
#include <cstdint>
#include <utility>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "lib/abi/map_types.h"
#include "lib/bpf/object.h"

// After the types of the variables in it.
#include "wire_reflect.skel.h"

namespace ask::bench {

void Reflector::Destroy::operator()(wire_reflect_bpf* skeleton) const {
    wire_reflect_bpf__destroy(skeleton);
}

Reflector::Reflector() = default;
Reflector::Reflector(Reflector&&) noexcept = default;
Reflector& Reflector::operator=(Reflector&&) noexcept = default;

Reflector::~Reflector() {
    (void)take_away();
}

// Its maps are those of the switch, by name, so that it finds the flows' keys and counts where the switch
// does.
Result<> Reflector::load(const std::filesystem::path& pins) {
    skeleton_.reset(wire_reflect_bpf__open());
    if (!skeleton_) {
        return Error::from_errno(errno, "open the reflector");
    }
    bpf_map* map = nullptr;
    bpf_object__for_each_map(map, skeleton_->obj) {
        const std::string name = bpf_map__name(map);
        if (bpf_map__is_internal(map) || name == "switch_program") {
            continue;
        }
        const auto pinned = bpf::open_pinned(pins / "maps" / name);
        ASK_TRY(pinned, "a running switch's map " + name);
        if (bpf_map__reuse_fd(map, pinned->get()) != 0) {
            return Error::from_errno(errno, "share map " + name);
        }
    }
    if (wire_reflect_bpf__load(skeleton_.get()) != 0) {
        return Error::from_errno(errno, "load the reflector (root and BPF are needed)");
    }
    const std::uint32_t first = 0;
    const int program = switch_program_.get();
    if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.switch_program), &first, &program, BPF_ANY) != 0) {
        return Error::from_errno(errno, "let the reflector call the switch's program");
    }
    return {};
}

Result<> Reflector::replace(int program) {
    for (const Port& port : ports_) {
        if (bpf_link_update(port.link.get(), program, nullptr) != 0) {
            return Error::from_errno(errno, "change the program on port " + port.name);
        }
    }
    return {};
}

Result<Reflector> Reflector::put(const std::filesystem::path& pins, const std::vector<std::string>& ports) {
    Reflector reflector;
    auto program = bpf::open_pinned(pins / "progs" / "switch");
    ASK_TRY(program, "a running switch's program");
    reflector.switch_program_ = std::move(*program);
    ASK_PASS(reflector.load(pins));
    for (const std::string& port : ports) {
        auto link = bpf::open_pinned(pins / "links" / port);
        ASK_TRY(link, "port " + port);
        reflector.ports_.push_back({port, std::move(*link)});
    }
    ASK_PASS(reflector.replace(bpf_program__fd(reflector.skeleton_->progs.wire_reflect)));
    return reflector;
}

Result<> Reflector::take_away() {
    auto back = replace(switch_program_.get());
    ports_.clear();
    return back;
}

}  // namespace ask::bench
