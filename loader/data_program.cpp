// SPDX-License-Identifier: Apache-2.0
#include "loader/data_program.h"

#include <fcntl.h>

#include <utility>

#include <bpf/libbpf.h>

#include "lib/abi/back.h"
#include "lib/bpf/object.h"
#include "lib/daemon/log.h"
#include "tuples.skel.h"

namespace ask {
namespace {

using TuplesSkeleton = bpf::Skeleton<tuples_bpf>;

// The end of what the verifier said is where it says why.
constexpr std::size_t kLogTail = 400;

Result<> share_maps(const TuplesSkeleton& skeleton, const MapFinder& find_map) {
    bpf_map* map = nullptr;
    bpf_object__for_each_map(map, skeleton.object()) {
        const std::string name = bpf_map__name(map);
        if (bpf_map__is_internal(map) || name == "regions") {
            continue;
        }
        const auto fd = find_map(name);
        ASK_PASS(fd);
        if (const int error = bpf_map__reuse_fd(map, fd->get()); error != 0) {
            return Error::from_errno(-error, "share map " + name);
        }
    }
    return {};
}

Result<UniqueFd> keep(int fd) {
    UniqueFd own(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!own) {
        return Error::from_errno(errno, "keep a descriptor");
    }
    return own;
}

}  // namespace

Result<DataProgram> load_data_program(const ask_meta& meta, int region, const MapFinder& find_map) {
    auto skeleton = TuplesSkeleton::open("tuples");
    ASK_PASS(skeleton);
    auto& opened = *skeleton;
    opened->rodata->ask_memory = meta.memory;
    opened->rodata->ask_dedupe = meta.dedupe;
    opened->rodata->ask_switch_id = meta.switch_id;
    opened->rodata->ask_mark_incarnation = meta.incarnation;
    int error = bpf_map__set_max_entries(opened->maps.regions, meta.max_tasks);
    if (error == 0) {
        error = bpf_map__set_inner_map_fd(opened->maps.regions, region);
    }
    if (error != 0) {
        return Error::from_errno(-error, "size map regions");
    }
    ASK_PASS(share_maps(opened, find_map));
    const LibbpfCapture capture;
    error = bpf_object__load_skeleton(opened->skeleton);
    if (error != 0) {
        const std::string text = capture.text();
        return Error::from_errno(
            -error, "the kernel refused it: " + text.substr(text.size() - std::min(text.size(), kLogTail)));
    }
    auto program = keep(bpf_program__fd(opened->progs.ask_tuples));
    ASK_PASS(program);
    auto regions = keep(bpf_map__fd(opened->maps.regions));
    ASK_PASS(regions);
    return DataProgram{.program = std::move(*program), .regions = std::move(*regions)};
}

}  // namespace ask
