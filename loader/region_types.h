// SPDX-License-Identifier: Apache-2.0
//
// Maps that are made per task, with the BTF that lets bpftool show their fields by name.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "lib/abi/back.h"
#include "lib/abi/map_types.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/bpf/map.h"
#include "lib/tuples/types.h"

namespace ask {

using TaskMetaMap = bpf::Map<std::uint32_t, ask_task_meta>;

// Which programs can have a region: the one for any size, or those for its own size.
enum class RegionSize : std::uint8_t { kAny, kOne };

class RegionTypes {
 public:
    // Takes the types of inner maps from the switch program's object, opened or loaded.
    static Result<RegionTypes> load(const bpf_object* object);

    // A region of `aggregators` words, memory-mapped. kLimit: no memory.
    [[nodiscard]] Result<UniqueFd> create_region(std::uint32_t aggregators, RegionSize size) const;
    // A table of the back level, memory-mapped. kLimit: no memory.
    [[nodiscard]] Result<UniqueFd> create_back(unsigned group, std::uint32_t buckets) const;
    // Heats of `places` aggregators, for a task that replaces. kLimit: no memory.
    [[nodiscard]] Result<UniqueFd> create_heats(std::uint32_t places) const;
    // Room for what a flow's packets carry of others' tuples. kLimit: no memory.
    [[nodiscard]] Result<UniqueFd> create_carried(const Geometry& geometry) const;
    // A map of one ask_task_meta, holding `meta`.
    [[nodiscard]] Result<UniqueFd> create_task_meta(const ask_task_meta& meta) const;

 private:
    struct FreeBtf {
        void operator()(btf* types) const { btf__free(types); }
    };
    // BTF in the kernel, and the ids of the key and value types in it.
    struct Types {
        std::unique_ptr<btf, FreeBtf> types;
        std::int32_t key = 0;
        std::int32_t value = 0;
    };
    // What the switch program's object says of its inner maps.
    struct InnerTypes {
        std::unique_ptr<btf, FreeBtf> types;
        std::int32_t key = 0;
        std::int32_t aggregator = 0;
        std::int32_t heats = 0;
        std::array<std::int32_t, ASK_BACK_GROUPS> back{};
        std::int32_t carried = 0;
    };

    static Result<InnerTypes> inner_types(const bpf_object* object);
    static Result<Types> task_meta_types();

    InnerTypes inner_;
    Types task_meta_;
};

}  // namespace ask
