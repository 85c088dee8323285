// SPDX-License-Identifier: Apache-2.0
#include "loader/kernel_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

#include "lib/bpf/barrier.h"
#include "lib/bpf/map.h"
#include "lib/bpf/object.h"
#include "lib/tuples/back.h"
#include "loader/sized_programs.h"

namespace ask {
namespace {

template <typename K, typename V>
class KernelTable final : public SwitchTable<K, V> {
 public:
    explicit KernelTable(const bpf::Map<K, V>& map) : map_(map) {}
    Result<std::optional<V>> find(const K& key) const override { return map_.find(key); }
    Result<> set(const K& key, const V& value) const override { return map_.set(key, value); }
    Result<> erase(const K& key) const override { return map_.erase(key); }
    Result<std::vector<K>> keys() const override { return map_.keys(); }

 private:
    const bpf::Map<K, V>& map_;
};

template <typename V>
class KernelPerCpu final : public PerCpuTable<V> {
 public:
    explicit KernelPerCpu(const bpf::PerCpuArray<V>& map) : map_(map) {}
    Result<std::vector<V>> read(std::uint32_t index) const override { return map_.read(index); }
    Result<> zero(std::uint32_t index) const override { return map_.zero(index); }

 private:
    const bpf::PerCpuArray<V>& map_;
};

struct KernelMap final : public OwnMap {
    explicit KernelMap(UniqueFd descriptor) : fd(std::move(descriptor)) {}
    UniqueFd fd;
};

int fd_of(const OwnMap& map) {
    return static_cast<const KernelMap&>(map).fd.get();
}

Result<UniqueFd> duplicate(int fd) {
    UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    return copy ? Result<UniqueFd>(std::move(copy)) : Error::from_errno(errno, "duplicate a descriptor");
}

Result<OwnMapPtr> own(Result<UniqueFd> map) {
    ASK_PASS(map);
    return OwnMapPtr(std::make_shared<const KernelMap>(std::move(*map)));
}

class KernelPlaces final : public MapPlaces {
 public:
    using Outer = bpf::Map<std::uint32_t, std::uint32_t>;
    explicit KernelPlaces(const Outer& outer) : outer_(outer) {}
    Result<> put(std::uint32_t index, const OwnMap& map) const override {
        return outer_.set(index, static_cast<std::uint32_t>(fd_of(map)));
    }
    Result<> erase(std::uint32_t index) const override { return outer_.erase(index); }
    // Maps of maps are written as descriptors and read as map ids.
    Result<bool> holds(std::uint32_t index, const OwnMap& map) const override {
        const auto info = bpf::map_info(fd_of(map));
        ASK_PASS(info);
        const auto id = outer_.find(index);
        ASK_PASS(id);
        return *id == info->id;
    }

 private:
    const Outer& outer_;
};

// The places of one data program, which may be loaded only later.
class RegionPlaces final : public MapPlaces {
 public:
    RegionPlaces(const SizedPrograms& programs, std::uint8_t number) : programs_(programs), number_(number) {}
    Result<> put(std::uint32_t index, const OwnMap& map) const override { return places().put(index, map); }
    Result<> erase(std::uint32_t index) const override { return places().erase(index); }
    Result<bool> holds(std::uint32_t index, const OwnMap& map) const override {
        return places().holds(index, map);
    }

 private:
    [[nodiscard]] KernelPlaces places() const { return KernelPlaces(*programs_.regions(number_)); }

    const SizedPrograms& programs_;
    const std::uint8_t number_;
};

class KernelView final : public RegionView {
 public:
    using View = bpf::ArrayView<ask_aggregator>;
    explicit KernelView(View view) : view_(std::move(view)) {}
    [[nodiscard]] std::span<ask_aggregator> span() const override { return view_.span(); }

 private:
    View view_;
};

template <typename Bucket>
class KernelBackView final : public BackView {
 public:
    explicit KernelBackView(bpf::ArrayView<Bucket> view) : view_(std::move(view)) {}
    [[nodiscard]] std::span<const std::byte> bytes() const override { return std::as_bytes(view_.span()); }

 private:
    bpf::ArrayView<Bucket> view_;
};

template <typename Bucket>
Result<std::shared_ptr<const BackView>> make_back_view(int fd, std::uint32_t buckets) {
    auto view = bpf::ArrayView<Bucket>::map(fd, buckets);
    ASK_PASS(view);
    return std::shared_ptr<const BackView>(std::make_shared<const KernelBackView<Bucket>>(std::move(*view)));
}

// In pieces of milliseconds.
Result<bool> blank_words(int fd, std::size_t words, const std::function<bool()>& go_on) {
    constexpr std::size_t kPiece = std::size_t{4} << 20U;
    const auto view = bpf::ArrayView<std::uint64_t>::map(fd, words);
    ASK_PASS(view);
    for (std::size_t at = 0; at < words; at += kPiece) {
        if (!go_on()) {
            return false;
        }
        std::ranges::fill(view->span().subspan(at, std::min(kPiece, words - at)), std::uint64_t{0});
    }
    return true;
}

class KernelStore final : public SwitchStore {
 public:
    using TaskTable = bpf::ArrayView<ask_task>;
    using Presence = bpf::ArrayView<const ask_presence>;

    KernelStore(const DataPlane& plane, const PinDir& pins, const PortTable& ports,
                std::unique_ptr<SizedPrograms> programs, bpf::RcuBarrier barrier, TaskTable task_table,
                Presence presence)
        : plane_(plane),
          pins_(pins),
          ports_(ports),
          programs_(std::move(programs)),
          barrier_(std::move(barrier)),
          task_table_(std::move(task_table)),
          presence_(std::move(presence)) {
        for (unsigned number = 0; number < ASK_SERVICE_PROGRAMS; ++number) {
            regions_.emplace_back(*programs_, static_cast<std::uint8_t>(number));
        }
    }

    const ask_meta& meta() const override { return plane_.meta(); }
    bool adopted() const override { return plane_.adopted(); }

    std::optional<AttachedPort> port(std::uint32_t ifindex) const override {
        const auto port = ports_.find(ifindex);
        return port ? std::optional(describe(*port)) : std::nullopt;
    }
    Result<AttachedPort> route_to(std::uint32_t address) const override {
        const auto port = ports_.route_to(address);
        ASK_PASS(port);
        return describe(*port);
    }
    Result<std::vector<AttachedPort>> ways_to(std::uint32_t address) const override {
        const auto ports = ports_.ways_to(address);
        ASK_PASS(ports);
        std::vector<AttachedPort> ways;
        for (const Port& port : *ports) {
            ways.push_back(describe(port));
            // What comes in by a bond has its member's index.
            std::ranges::transform(port.members, std::back_inserter(ways), [&port](std::uint32_t member) {
                return AttachedPort{.name = port.name, .ifindex = member, .mtu = port.mtu};
            });
        }
        return ways;
    }

    const SwitchTable<ask_channel_id, std::uint32_t>& channel_ids() const override { return channel_ids_; }
    const SwitchTable<std::uint32_t, ask_channel>& channels() const override { return channels_; }
    const SwitchTable<std::uint32_t, ask_dedupe_state>& dedupe() const override { return dedupe_; }
    const SwitchTable<std::uint32_t, ask_pkt_state>& pkt_state() const override { return pkt_state_; }
    const SwitchTable<ask_flow_id, std::uint32_t>& flow_ids() const override { return flow_ids_; }
    const SwitchTable<std::uint32_t, ask_flow>& flows() const override { return flows_; }
    const SwitchTable<std::uint32_t, ask_task>& tasks() const override { return tasks_; }
    const SwitchTable<std::uint32_t, ask_bucket>& buckets() const override { return buckets_; }
    const SwitchTable<ask_ipv6, std::uint32_t>* hosts() const override { return &hosts_; }
    const SwitchTable<std::uint32_t, ask_back>& backs() const override { return backs_; }
    const SwitchTable<std::uint32_t, ask_group>* groups() const override { return &groups_; }
    std::uint32_t value_slots() const override { return plane_.value_slots(); }
    const SwitchTable<std::uint32_t, ask_fan_member>* fan_members() const override { return &fan_members_; }
    Result<std::vector<FanPort>> fan_ports(std::uint32_t address) const override {
        return ports_.fan_ports(address);
    }
    Result<> put_fan(std::uint32_t number, std::span<const std::uint32_t> ports) const override {
        const UniqueFd fan(bpf_map_create(BPF_MAP_TYPE_DEVMAP, "ask_fan", sizeof(std::uint32_t),
                                          sizeof(bpf_devmap_val), ASK_MAX_FAN_PORTS, nullptr));
        if (!fan) {
            return Error::from_errno(errno, "create a fan");
        }
        std::uint32_t place = 0;
        for (const std::uint32_t port : ports) {
            const bpf_devmap_val device = plane_.device(port);
            if (bpf_map_update_elem(fan.get(), &place, &device, BPF_ANY) != 0) {
                return Error::from_errno(errno, "put port " + std::to_string(port) + " into a fan");
            }
            ++place;
        }
        return plane_.maps().fans.set(number, static_cast<std::uint32_t>(fan.get()));
    }
    Result<> erase_fan(std::uint32_t number) const override { return plane_.maps().fans.erase(number); }
    const PerCpuTable<ask_flow_stats>& flow_stats() const override { return flow_stats_; }
    const PerCpuTable<std::uint64_t>& counters() const override { return counters_; }

    std::uint64_t load_swap(std::uint32_t task) const override {
        return std::atomic_ref(task_table_.span()[task].swap).load(std::memory_order_acquire);
    }
    void store_swap(std::uint32_t task, std::uint64_t word) const override {
        std::atomic_ref(task_table_.span()[task].swap).store(word, std::memory_order_seq_cst);
    }
    void store_copy(std::uint32_t task, std::uint32_t copy) const override {
        std::atomic_ref(task_table_.span()[task].copy).store(copy, std::memory_order_seq_cst);
    }

    void store_bucket(std::uint32_t task, std::uint32_t bucket) const override {
        std::atomic_ref(task_table_.span()[task].bucket).store(bucket, std::memory_order_relaxed);
    }

    void store_back(std::uint32_t task, std::uint32_t takes) const override {
        std::atomic_ref(task_table_.span()[task].back).store(takes, std::memory_order_seq_cst);
    }

    std::uint8_t take_program(std::uint32_t words) override { return programs_->take(words); }
    bool adopt_program(std::uint8_t number) override { return programs_->adopt_user(number); }
    void give_back_program(std::uint8_t number) override { programs_->give_back(number); }

    const MapPlaces* regions(std::uint8_t program) const override {
        return programs_->regions(program) == nullptr ? nullptr : &regions_[program];
    }
    const MapPlaces& heats() const override { return heats_; }
    const MapPlaces& carried() const override { return carried_; }
    const MapPlaces& back(unsigned group) const override { return back_[group]; }
    Result<OwnMapPtr> create_back(unsigned group, std::uint32_t buckets) const override {
        return own(plane_.types().create_back(group, buckets));
    }
    Result<std::shared_ptr<const BackView>> view_back(const OwnMap& map, unsigned group,
                                                      std::uint32_t buckets) const override {
        switch (group) {
            case ASK_BACK_8:
                return make_back_view<const ask_back8>(fd_of(map), buckets);
            case ASK_BACK_16:
                return make_back_view<const ask_back16>(fd_of(map), buckets);
            case ASK_BACK_32:
                return make_back_view<const ask_back32>(fd_of(map), buckets);
            default:
                return make_back_view<const ask_back64>(fd_of(map), buckets);
        }
    }
    Result<bool> blank_back(const OwnMap& map, unsigned group, std::uint32_t buckets,
                            const std::function<bool()>& go_on) const override {
        return blank_words(fd_of(map), std::size_t{buckets} * kBackBucketBytes[group] / sizeof(std::uint64_t),
                           go_on);
    }
    Result<OwnMapPtr> create_region(std::uint8_t program, std::uint32_t words) const override {
        return own(programs_->create_region(program, words));
    }
    Result<OwnMapPtr> create_heats(std::uint32_t places) const override {
        return own(plane_.types().create_heats(places));
    }
    Result<OwnMapPtr> create_carried(const Geometry& geometry) const override {
        return own(plane_.types().create_carried(geometry));
    }
    Result<OwnMapPtr> create_meta(const ask_task_meta& meta) const override {
        return own(plane_.types().create_task_meta(meta));
    }
    Result<std::optional<ask_task_meta>> read_meta(const OwnMap& map) const override {
        auto fd = duplicate(fd_of(map));
        ASK_PASS(fd);
        const auto meta = TaskMetaMap::adopt(std::move(*fd), pin_name(TaskPin::kMeta));
        ASK_PASS(meta);
        return meta->find(0);
    }
    Result<std::shared_ptr<const RegionView>> view(const OwnMap& region, std::size_t words) const override {
        auto view = KernelView::View::map(fd_of(region), words);
        ASK_PASS(view);
        return std::shared_ptr<const RegionView>(std::make_shared<const KernelView>(std::move(*view)));
    }
    void blank(const RegionView& region, std::size_t first, std::size_t count) const override {
        std::memset(&region.span()[first], 0, count * sizeof(ask_aggregator));
    }

    Result<std::vector<std::string>> pinned_tasks() const override { return pins_.task_pins(); }
    Result<> make_pins(const std::string& pins) const override {
        const std::filesystem::path directory = pins_.task(pins);
        if (::mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) {
            return Error::from_errno(errno, "create " + directory.string());
        }
        return {};
    }
    Result<> pin(const std::string& pins, TaskPin what, const OwnMap& map) const override {
        return bpf::pin(fd_of(map), path(pins, what));
    }
    Result<OwnMapPtr> open_pin(const std::string& pins, TaskPin what) const override {
        return own(bpf::open_pinned(path(pins, what)));
    }
    Result<> unpin(const std::string& pins, TaskPin what) const override {
        return bpf::unpin(path(pins, what));
    }
    Result<> remove_pins(const std::string& pins) const override { return bpf::unpin_tree(pins_.task(pins)); }
    Result<> name_pins(const std::string& tenant, const std::string& id,
                       const std::string& pins) const override {
        const std::filesystem::path name = pins_.task_name(tenant, id);
        const std::lock_guard lock(names_);
        std::error_code error;
        std::filesystem::create_directories(name.parent_path(), error);
        if (!error) {
            std::filesystem::create_directory_symlink(std::filesystem::path("../..") / pins, name, error);
        }
        return error ? Error::from_errno(error.value(), "link " + name.string()) : Result<>();
    }
    Result<> unname_pins(const std::string& tenant, const std::string& id) const override {
        const std::filesystem::path name = pins_.task_name(tenant, id);
        const std::lock_guard lock(names_);
        ASK_PASS(bpf::unpin_tree(name));
        // The tenant's directory goes with its last task.
        ::rmdir(name.parent_path().c_str());
        ::rmdir(pins_.task_names().c_str());
        return {};
    }
    Result<> unname_all() const override { return bpf::unpin_tree(pins_.task_names()); }

    Result<> grace_period() const override { return barrier_.wait(); }
    std::span<const ask_presence> presence() const override { return presence_.span(); }

 private:
    static AttachedPort describe(const Port& port) {
        return {.name = port.name, .ifindex = port.ifindex, .mtu = port.mtu};
    }
    [[nodiscard]] std::filesystem::path path(const std::string& pins, TaskPin what) const {
        return pins_.task(pins) / pin_name(what);
    }

    const DataPlane& plane_;
    const PinDir& pins_;
    const PortTable& ports_;
    mutable std::mutex names_;  // of tasks: their directories come and go with them
    const std::unique_ptr<SizedPrograms> programs_;
    const bpf::RcuBarrier barrier_;
    const TaskTable task_table_;  // map `tasks`: swap, copy and bucket change here
    const Presence presence_;

    const KernelTable<ask_channel_id, std::uint32_t> channel_ids_{plane_.maps().channel_ids};
    const KernelTable<std::uint32_t, ask_channel> channels_{plane_.maps().channels};
    const KernelTable<std::uint32_t, ask_dedupe_state> dedupe_{plane_.maps().dedupe};
    const KernelTable<std::uint32_t, ask_pkt_state> pkt_state_{plane_.maps().pkt_state};
    const KernelTable<ask_flow_id, std::uint32_t> flow_ids_{plane_.maps().flow_ids};
    const KernelTable<std::uint32_t, ask_flow> flows_{plane_.maps().flows};
    const KernelTable<std::uint32_t, ask_task> tasks_{plane_.maps().tasks};
    const KernelTable<std::uint32_t, ask_bucket> buckets_{plane_.maps().buckets};
    const KernelTable<ask_ipv6, std::uint32_t> hosts_{plane_.maps().hosts};
    const KernelTable<std::uint32_t, ask_back> backs_{plane_.maps().backs};
    const KernelTable<std::uint32_t, ask_group> groups_{plane_.maps().groups};
    const KernelTable<std::uint32_t, ask_fan_member> fan_members_{plane_.maps().fan_members};
    const KernelPerCpu<ask_flow_stats> flow_stats_{plane_.maps().flow_stats};
    const KernelPerCpu<std::uint64_t> counters_{plane_.maps().counters};
    std::deque<RegionPlaces> regions_;
    const KernelPlaces heats_{plane_.maps().heats};
    const KernelPlaces carried_{plane_.maps().carried};
    const std::array<KernelPlaces, ASK_BACK_GROUPS> back_{
        KernelPlaces(plane_.maps().back[ASK_BACK_8]), KernelPlaces(plane_.maps().back[ASK_BACK_16]),
        KernelPlaces(plane_.maps().back[ASK_BACK_32]), KernelPlaces(plane_.maps().back[ASK_BACK_64])};
};

}  // namespace

Result<std::unique_ptr<SwitchStore>> make_kernel_store(const DataPlane& plane, const PinDir& pins,
                                                       const PortTable& ports, unsigned prepared_programs) {
    auto barrier = bpf::RcuBarrier::create();
    ASK_PASS(barrier);
    auto presence = KernelStore::Presence::map(plane.maps().presence.fd(), plane.meta().possible_cpus);
    ASK_TRY(presence, "map presence");
    auto task_table = KernelStore::TaskTable::map(plane.maps().tasks.fd(), plane.meta().max_tasks);
    ASK_TRY(task_table, "map tasks");
    auto programs = SizedPrograms::adopt(plane, pins);
    ASK_PASS(programs);
    (*programs)->prepare(prepared_programs);
    return std::unique_ptr<SwitchStore>(
        std::make_unique<KernelStore>(plane, pins, ports, std::move(*programs), std::move(*barrier),
                                      std::move(*task_table), std::move(*presence)));
}

}  // namespace ask
