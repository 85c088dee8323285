// SPDX-License-Identifier: Apache-2.0
#include "bench/switch/bed.h"

#include <endian.h>
#include <fcntl.h>
#include <net/if.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "bench/switch/frames.h"
#include "lib/abi/map_types.h"
#include "loader/data_program.h"
#include "loader/region_types.h"

// After the types of the variables in them.
#include "floor.skel.h"
#include "switch.skel.h"

namespace ask::bench {
namespace {

constexpr std::uint32_t kFloorSlots = 32;
constexpr std::uint32_t kZero = 0;
constexpr std::uint32_t kSized = 1;  // number of the program for the region's size

std::uint32_t sets_of(const Case& what) {
    return what.memory == ASK_MEMORY_PIPELINES ? static_cast<std::uint32_t>(libbpf_num_possible_cpus()) : 1U;
}

template <typename K, typename V>
Result<> put(const bpf_map* map, const K& key, const V& value) {
    if (bpf_map_update_elem(bpf_map__fd(map), &key, &value, BPF_ANY) != 0) {
        return Error::from_errno(errno, std::string("fill map ") + bpf_map__name(map));
    }
    return {};
}

}  // namespace

// The task's aggregators, mapped; owns the map.
class Bed::Region {
 public:
    static Result<std::unique_ptr<Region>> create(int fd, std::size_t bytes) {
        void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (memory == MAP_FAILED) {
            return Error::from_errno(errno, "map the region");
        }
        return std::unique_ptr<Region>(new Region(memory, bytes));
    }
    ~Region() { ::munmap(memory_, bytes_); }
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    void blank() { std::memset(memory_, 0, bytes_); }

 private:
    Region(void* memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {}
    void* memory_;
    std::size_t bytes_;
};

void Bed::Destroy::operator()(switch_bpf* skeleton) const {
    switch_bpf__destroy(skeleton);
}
void Bed::Destroy::operator()(floor_bpf* skeleton) const {
    floor_bpf__destroy(skeleton);
}

Bed::Bed() = default;
Bed::Bed(Bed&&) noexcept = default;
Bed& Bed::operator=(Bed&&) noexcept = default;
Bed::~Bed() = default;

Result<Bed> Bed::create(const Case& what, const FloorParts& parts) {
    Bed bed;
    bed.what_ = what;
    ASK_PASS(bed.load_switch());
    ASK_PASS(bed.put_region());
    ASK_PASS(bed.load_floor(parts));
    ASK_PASS(bed.fill_maps());
    return bed;
}

Result<> Bed::load_switch() {
    switch_.reset(switch_bpf__open());
    if (!switch_) {
        return Error::from_errno(errno, "open the switch program");
    }
    switch_->rodata->ask_memory = what_.memory;
    if (switch_bpf__load(switch_.get()) != 0) {
        return Error::from_errno(errno, "load the switch program (root and BPF are needed)");
    }
    return {};
}

Result<UniqueFd> Bed::find_map(const std::string& name) const {
    const bpf_map* map = bpf_object__find_map_by_name(switch_->obj, name.c_str());
    if (map == nullptr) {
        return Error(Errc::kInternal, "the switch program has no map " + name);
    }
    return UniqueFd(::fcntl(bpf_map__fd(map), F_DUPFD_CLOEXEC, 0));
}

// The program for its size, as the loader makes one, or that for any size.
Result<> Bed::put_region() {
    const auto types = RegionTypes::load(switch_->obj);
    ASK_PASS(types);
    const std::uint32_t places = sets_of(what_) * what_.geometry.aas() * what_.aggregators;
    const auto region = types->create_region(places, what_.sized ? RegionSize::kOne : RegionSize::kAny);
    ASK_PASS(region);
    auto mapped = Region::create(region->get(), std::size_t{places} * sizeof(ask_aggregator));
    ASK_PASS(mapped);
    region_ = std::move(*mapped);
    auto any = find_map("regions");
    ASK_PASS(any);
    regions_ = std::move(*any);
    if (what_.sized) {
        ask_meta meta{};
        meta.memory = what_.memory;
        meta.switch_id = 1;
        meta.incarnation = 1;
        meta.max_tasks = bpf_map__max_entries(switch_->maps.regions);
        auto program = load_data_program(meta, region->get(),
                                         [this](const std::string& name) { return find_map(name); });
        ASK_PASS(program);
        ASK_PASS(put(switch_->maps.data_programs, kSized, program->program.get()));
        regions_ = std::move(program->regions);
    }
    const int fd = region->get();
    if (bpf_map_update_elem(regions_.get(), &kZero, &fd, BPF_ANY) != 0) {
        return Error::from_errno(errno, "put the region in");
    }
    return {};
}

// Its maps are the switch program's, by name, but for the constants each has of its own.
Result<> Bed::load_floor(const FloorParts& parts) {
    floor_.reset(floor_bpf__open());
    if (!floor_) {
        return Error::from_errno(errno, "open the floor program");
    }
    floor_->rodata->ask_memory = what_.memory;
    floor_->rodata->floor_check = parts.check ? 1 : 0;
    floor_->rodata->floor_dedupe = parts.dedupe ? 1 : 0;
    bpf_map* map = nullptr;
    bpf_object__for_each_map(map, floor_->obj) {
        const std::string name = bpf_map__name(map);
        const bpf_map* shared = bpf_object__find_map_by_name(switch_->obj, name.c_str());
        if (!bpf_map__is_internal(map) && shared != nullptr &&
            bpf_map__reuse_fd(map, name == "regions" ? regions_.get() : bpf_map__fd(shared)) != 0) {
            return Error::from_errno(errno, std::string("share map ") + bpf_map__name(map));
        }
    }
    if (floor_bpf__load(floor_.get()) != 0) {
        return Error::from_errno(errno, "load the floor program");
    }
    return {};
}

// Linux 6.1 takes as an inner map only one that has BTF, as the one in the object has.
Result<int> Bed::create_inner(const char* value, std::size_t bytes, std::uint32_t entries) {
    const btf* types = bpf_object__btf(switch_->obj);
    LIBBPF_OPTS(bpf_map_create_opts, options, .btf_fd = static_cast<__u32>(bpf_object__btf_fd(switch_->obj)),
                .btf_key_type_id = static_cast<__u32>(btf__find_by_name(types, "__u32")),
                .btf_value_type_id = static_cast<__u32>(btf__find_by_name(types, value)),
                .map_flags = BPF_F_INNER_MAP);
    const int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "inner", sizeof(std::uint32_t),
                                  static_cast<__u32>(bytes), entries, &options);
    if (fd < 0) {
        return Error::from_errno(errno, std::string("create a map of ") + value);
    }
    return fd;
}

Result<> Bed::put_channel(unsigned channel) {
    const std::uint32_t index = channel;
    const ask_channel state{.host = htobe32(kHost),
                            .port = htobe16(port_of(channel)),
                            .pad = 0,
                            .incarnation = htobe32(kIncarnation),
                            .ports = {{if_nametoindex("lo")}}};
    const ask_channel_id channel_id{.host = state.host, .port = state.port, .pad = 0};
    const ask_flow_id flow_id{.task = htobe64(kInstance), .host = state.host, .port = state.port, .pad = 0};
    ask_flow flow{};
    flow.task_instance = flow_id.task;
    flow.channel = index;
    flow.key = key_.raw();
    const auto carried =
        create_inner("__u64", sizeof(__u64), ask_carried_words(what_.geometry.rows, what_.geometry.aas()));
    ASK_PASS(carried);
    ASK_PASS(put(switch_->maps.carried, index, *carried));
    ::close(*carried);
    ASK_PASS(put(switch_->maps.channels, index, state));
    ASK_PASS(put(switch_->maps.flows, index, flow));
    ASK_PASS(put(switch_->maps.channel_ids, channel_id, index));
    return put(switch_->maps.flow_ids, flow_id, index);
}

Result<> Bed::put_task(bool back) {
    ask_task task{};
    task.instance = htobe64(kInstance);
    task.copies = 1;
    task.aggregators = what_.aggregators;
    task.sets = sets_of(what_);
    task.short_slots = what_.geometry.short_slots;
    task.groups = what_.geometry.groups;
    task.m = what_.geometry.m;
    task.rows = what_.geometry.rows;
    task.op = ASK_OP_SUM;
    task.policy = static_cast<__u8>(what_.policy);
    task.receiver = htobe32(kReceiver);
    task.program = what_.sized ? static_cast<__u8>(kSized) : __u8{0};
    task.back = back ? __u8{1} : __u8{0};
    return put(switch_->maps.tasks, kZero, task);
}

Result<> Bed::put_back() {
    const auto types = RegionTypes::load(switch_->obj);
    ASK_PASS(types);
    const auto table = types->create_back(what_.group, what_.back_buckets());
    ASK_PASS(table);
    const bpf_map* const maps[] = {switch_->maps.back8, switch_->maps.back16, switch_->maps.back32,
                                   switch_->maps.back64};
    ASK_PASS(put(maps[what_.group], kZero, table->get()));
    ask_back back{.seed = kInstance, .buckets = {}};
    back.buckets[what_.group] = what_.back_buckets();
    return put(switch_->maps.backs, kZero, back);
}

Result<> Bed::fill_maps() {
    const std::uint32_t places = sets_of(what_) * what_.geometry.aas() * what_.aggregators;
    const auto heats = create_inner("ask_heats", sizeof(ask_heats), (places + 7) / 8);
    ASK_PASS(heats);
    ASK_PASS(put(switch_->maps.heats, kZero, *heats));
    ::close(*heats);
    if (what_.back_mib != 0) {
        ASK_PASS(put_back());
    }
    ASK_PASS(put_task(what_.back_mib != 0));
    for (unsigned channel = 0; channel < what_.cpus; ++channel) {
        ASK_PASS(put_channel(channel));
    }
    return {};
}

bool Bed::has_floor(const Case& what) {
    const Geometry& geometry = what.geometry;
    return what.back_mib != 0 ||
           (what.load == Load::kHits && geometry.groups == 0 && geometry.short_slots == kFloorSlots &&
            (geometry.rows == 1 || geometry.rows == 4));
}

Result<int> Bed::program(Subject subject) {
    const bpf_program* program = switch_->progs.ask_switch;
    if (subject == Subject::kReflector) {
        program = floor_->progs.reflector;
    } else if (what_.back_mib != 0) {
        ASK_PASS(put_task(subject == Subject::kSwitch));
    } else if (subject == Subject::kFloor) {
        program = what_.geometry.rows == 1 ? floor_->progs.floor_1 : floor_->progs.floor_4;
    }
    return bpf_program__fd(program);
}

void Bed::blank() {
    region_->blank();
}

Result<Bed::Counts> Bed::counts() const {
    Counts total;
    std::vector<ask_flow_stats> stats(static_cast<std::size_t>(libbpf_num_possible_cpus()));
    for (std::uint32_t flow = 0; flow < what_.cpus; ++flow) {
        if (bpf_map_lookup_elem(bpf_map__fd(switch_->maps.flow_stats), &flow, stats.data()) != 0) {
            return Error::from_errno(errno, "read flow_stats");
        }
        for (const auto& cpu : stats) {
            total.packets += cpu.packets_acked + cpu.packets_forwarded;
            total.aggregated += cpu.tuples_aggregated;
            total.back += cpu.tuples_back;
            total.left += cpu.tuples_collision + cpu.tuples_overflow + cpu.tuples_contention +
                          cpu.tuples_back_full + cpu.tuples_back_contention;
        }
    }
    return total;
}

}  // namespace ask::bench
