// SPDX-License-Identifier: Apache-2.0
#include "loader/region_types.h"

#include <algorithm>
#include <cstddef>

#include "lib/tuples/back.h"

namespace ask {
namespace {

constexpr int kBitsPerByte = 8;

UniqueFd create_array(const char* name, std::uint32_t value_size, std::uint32_t entries, std::uint32_t flags,
                      const btf* types, std::int32_t key, std::int32_t value) {
    LIBBPF_OPTS(bpf_map_create_opts, options, .btf_fd = static_cast<__u32>(btf__fd(types)),
                .btf_key_type_id = static_cast<__u32>(key), .btf_value_type_id = static_cast<__u32>(value),
                .map_flags = flags);
    return UniqueFd(
        bpf_map_create(BPF_MAP_TYPE_ARRAY, name, sizeof(std::uint32_t), value_size, entries, &options));
}

}  // namespace

Result<RegionTypes> RegionTypes::load(const bpf_object* object) {
    RegionTypes all;
    auto inner = inner_types(object);
    ASK_TRY(inner, "types of a region");
    auto task_meta = task_meta_types();
    ASK_TRY(task_meta, "types of a task's meta");
    all.inner_ = std::move(*inner);
    all.task_meta_ = std::move(*task_meta);
    return all;
}

// A copy of the object's BTF: its own is with the kernel only if the object was loaded, which a successor
// does not.
Result<RegionTypes::InnerTypes> RegionTypes::inner_types(const bpf_object* object) {
    std::uint32_t size = 0;
    const btf* own = bpf_object__btf(object);
    const void* raw = own == nullptr ? nullptr : btf__raw_data(own, &size);
    if (raw == nullptr) {
        return Error(Errc::kInternal, "the switch program's object has no BTF");
    }
    InnerTypes result;
    result.types.reset(btf__new(raw, size));
    if (!result.types) {
        return Error::from_errno(errno, "read BTF");
    }
    result.key = btf__find_by_name_kind(result.types.get(), "__u32", BTF_KIND_TYPEDEF);
    result.aggregator = btf__find_by_name_kind(result.types.get(), "ask_aggregator", BTF_KIND_STRUCT);
    result.heats = btf__find_by_name_kind(result.types.get(), "ask_heats", BTF_KIND_STRUCT);
    result.carried = btf__find_by_name_kind(result.types.get(), "__u64", BTF_KIND_TYPEDEF);
    for (unsigned group = 0; group < result.back.size(); ++group) {
        const std::string name = std::string("ask_") + kBackNames[group];
        result.back[group] = btf__find_by_name_kind(result.types.get(), name.c_str(), BTF_KIND_STRUCT);
    }
    if (std::min({result.key, result.aggregator, result.heats, result.carried,
                  *std::ranges::min_element(result.back)}) <= 0) {
        return Error(Errc::kInternal,
                     "the object's BTF lacks __u32, __u64 or a struct: ask_aggregator, ask_heats, ask_back8, "
                     "ask_back16, ask_back32, ask_back64");
    }
    if (const int error = btf__load_into_kernel(result.types.get()); error != 0) {
        return Error::from_errno(-error, "load BTF");
    }
    return result;
}

Result<RegionTypes::Types> RegionTypes::task_meta_types() {
    Types result;
    result.types.reset(btf__new_empty());
    btf* types = result.types.get();
    if (types == nullptr) {
        return Error::from_errno(errno, "create BTF");
    }
    const int u32 = btf__add_int(types, "unsigned int", sizeof(std::uint32_t), 0);
    const int u64 = btf__add_int(types, "unsigned long long", sizeof(std::uint64_t), 0);
    const int character = btf__add_int(types, "char", 1, BTF_INT_SIGNED);
    const int id = btf__add_array(types, u32, character, sizeof(ask_task_meta::id));
    const int receiver = btf__add_array(types, u32, character, sizeof(ask_task_meta::receiver));
    const int tenant = btf__add_array(types, u32, character, sizeof(ask_task_meta::tenant));
    const int value = btf__add_struct(types, "ask_task_meta", sizeof(ask_task_meta));
    const auto add = [types](const char* name, int type, std::size_t offset) {
        return btf__add_field(types, name, type, static_cast<__u32>(offset * kBitsPerByte), 0) == 0;
    };
    const bool complete = u32 > 0 && u64 > 0 && character > 0 && id > 0 && receiver > 0 && value > 0 &&
                          add("instance", u64, offsetof(ask_task_meta, instance)) &&
                          add("index", u32, offsetof(ask_task_meta, index)) &&
                          add("region_aggregators", u32, offsetof(ask_task_meta, region_aggregators)) &&
                          add("id", id, offsetof(ask_task_meta, id)) &&
                          add("receiver", receiver, offsetof(ask_task_meta, receiver)) &&
                          add("owner", u32, offsetof(ask_task_meta, owner)) &&
                          add("tenant", tenant, offsetof(ask_task_meta, tenant)) &&
                          add("pad", u32, offsetof(ask_task_meta, pad));
    if (!complete) {
        return Error(Errc::kInternal, "cannot describe struct ask_task_meta in BTF");
    }
    if (const int error = btf__load_into_kernel(types); error != 0) {
        return Error::from_errno(-error, "load BTF");
    }
    result.key = u32;
    result.value = value;
    return result;
}

Result<UniqueFd> RegionTypes::create_region(std::uint32_t aggregators, RegionSize size) const {
    const std::uint32_t flags =
        size == RegionSize::kAny ? BPF_F_MMAPABLE | BPF_F_INNER_MAP : std::uint32_t{BPF_F_MMAPABLE};
    UniqueFd fd = create_array("ask_region", sizeof(ask_aggregator), aggregators, flags, inner_.types.get(),
                               inner_.key, inner_.aggregator);
    if (!fd) {
        return Error::from_errno(errno, "create a region of " + std::to_string(aggregators) + " aggregators");
    }
    return fd;
}

Result<UniqueFd> RegionTypes::create_back(unsigned group, std::uint32_t buckets) const {
    UniqueFd fd = create_array("ask_back", kBackBucketBytes[group], buckets, BPF_F_MMAPABLE | BPF_F_INNER_MAP,
                               inner_.types.get(), inner_.key, inner_.back[group]);
    if (!fd) {
        return Error::from_errno(errno, "create a back level of " + std::to_string(buckets) + " buckets of " +
                                            std::to_string(kBackBucketBytes[group]) + " bytes");
    }
    return fd;
}

Result<UniqueFd> RegionTypes::create_heats(std::uint32_t places) const {
    UniqueFd fd = create_array("ask_heat", sizeof(ask_heats), places / 8 + (places % 8 != 0 ? 1 : 0),
                               BPF_F_INNER_MAP, inner_.types.get(), inner_.key, inner_.heats);
    if (!fd) {
        return Error::from_errno(errno, "create heats of " + std::to_string(places) + " aggregators");
    }
    return fd;
}

Result<UniqueFd> RegionTypes::create_carried(const Geometry& geometry) const {
    UniqueFd fd =
        create_array("ask_carried", sizeof(std::uint64_t), ask_carried_words(geometry.rows, geometry.aas()),
                     BPF_F_INNER_MAP, inner_.types.get(), inner_.key, inner_.carried);
    if (!fd) {
        return Error::from_errno(errno, "create a map of the evicted tuples that a flow carries");
    }
    return fd;
}

Result<UniqueFd> RegionTypes::create_task_meta(const ask_task_meta& meta) const {
    UniqueFd fd = create_array("ask_task_meta", sizeof(ask_task_meta), 1, 0, task_meta_.types.get(),
                               task_meta_.key, task_meta_.value);
    if (!fd) {
        return Error::from_errno(errno, "create a task's meta map");
    }
    const std::uint32_t key = 0;
    if (bpf_map_update_elem(fd.get(), &key, &meta, BPF_ANY) != 0) {
        return Error::from_errno(errno, "write a task's meta map");
    }
    return fd;
}

}  // namespace ask
