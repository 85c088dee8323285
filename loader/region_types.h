// SPDX-License-Identifier: Apache-2.0
//
// Maps that are made per task, with the BTF that lets bpftool show their fields by name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "lib/abi/map_types.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/bpf/map.h"

namespace ask {

using TaskMetaMap = bpf::Map<std::uint32_t, ask_task_meta>;

class RegionTypes {
 public:
    // Takes the aggregator's type from the switch program's object, opened or loaded.
    static Result<RegionTypes> load(const bpf_object* object);

    // A region of `aggregators` words, memory-mapped and of a size of its own. kLimit: no memory.
    [[nodiscard]] Result<UniqueFd> create_region(std::uint32_t aggregators) const;
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

    static Result<Types> region_types(const bpf_object* object);
    static Result<Types> task_meta_types();

    Types region_;
    Types task_meta_;
};

}  // namespace ask
