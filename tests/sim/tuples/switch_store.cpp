// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/switch_store.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "lib/tuples/back.h"
#include "tests/sim/tuples/threads.h"

namespace ask::sim {

namespace {

constexpr std::uint64_t kStepUs = 20;
constexpr std::uint32_t kMtu = 3506;

Error killed() {
    return {Errc::kAborted, "the daemon has been killed"};
}

// What every part of the store shares.
struct Steps {
    World& world;
    std::uint32_t number;
    std::function<bool()> die;

    // False: the daemon is dead, and may not change anything.
    [[nodiscard]] bool step(const char* what) const {
        if (unwinding()) {
            return false;
        }
        if (die()) {
            world.note("switchd %u: dies before: %s", number, what);
            park(nullptr, kNever);
        }
        park(nullptr, world.clock.now() + world.some_us(kStepUs));
        world.note("switchd %u: %s", number, what);
        return true;
    }
};

template <typename V>
class ArrayTable final : public SwitchTable<std::uint32_t, V> {
 public:
    ArrayTable(const Steps& steps, const char* what, V* entries, std::uint32_t count)
        : steps_(steps), what_(what), entries_(entries), count_(count) {}
    Result<std::optional<V>> find(const std::uint32_t& index) const override {
        return index < count_ ? std::optional<V>(entries_[index]) : std::nullopt;
    }
    Result<> set(const std::uint32_t& index, const V& value) const override {
        if (!steps_.step(what_)) {
            return killed();
        }
        entries_[index] = value;
        return {};
    }
    Result<> erase(const std::uint32_t& /*index*/) const override {
        return Error(Errc::kInternal, "nothing can be erased from an array");
    }
    Result<std::vector<std::uint32_t>> keys() const override {
        return Error(Errc::kInternal, "an array has all keys");
    }

 private:
    const Steps& steps_;
    const char* what_;
    V* entries_;
    std::uint32_t count_;
};

template <typename K>
class IdTable final : public SwitchTable<K, std::uint32_t> {
 public:
    IdTable(const Steps& steps, const char* set, const char* erase, sim_ids& ids)
        : steps_(steps), set_(set), erase_(erase), ids_(ids) {}
    Result<std::optional<std::uint32_t>> find(const K& key) const override {
        const __u32* index = sim_ids_find(&ids_, &key, sizeof(key));
        return index == nullptr ? std::optional<std::uint32_t>() : std::optional<std::uint32_t>(*index);
    }
    Result<> set(const K& key, const std::uint32_t& index) const override {
        if (!steps_.step(set_)) {
            return killed();
        }
        sim_ids_set(&ids_, &key, sizeof(key), index);
        return {};
    }
    Result<> erase(const K& key) const override {
        if (!steps_.step(erase_)) {
            return killed();
        }
        sim_ids_erase(&ids_, &key, sizeof(key));
        return {};
    }
    Result<std::vector<K>> keys() const override {
        std::vector<K> all;
        for (std::uint32_t i = 0; i <= ids_.mask; ++i) {
            if (ids_.entries[i].state == SIM_ID_USED) {
                K key{};
                std::memcpy(&key, ids_.entries[i].key, sizeof(key));
                all.push_back(key);
            }
        }
        return all;
    }

 private:
    const Steps& steps_;
    const char* set_;
    const char* erase_;
    sim_ids& ids_;
};

class FlowStats final : public PerCpuTable<ask_flow_stats> {
 public:
    FlowStats(const Steps& steps, const sim_plane& maps) : steps_(steps), maps_(maps) {}
    Result<std::vector<ask_flow_stats>> read(std::uint32_t index) const override {
        std::vector<ask_flow_stats> all;
        for (std::uint32_t cpu = 0; cpu < maps_.cpus; ++cpu) {
            all.push_back(of(cpu, index));
        }
        return all;
    }
    Result<> zero(std::uint32_t index) const override {
        if (!steps_.step("zeroes a flow's counts")) {
            return killed();
        }
        for (std::uint32_t cpu = 0; cpu < maps_.cpus; ++cpu) {
            of(cpu, index) = {};
        }
        return {};
    }

 private:
    [[nodiscard]] ask_flow_stats& of(std::uint32_t cpu, std::uint32_t index) const {
        return maps_.flow_stats[std::size_t{cpu} * maps_.max_flows + index];
    }
    const Steps& steps_;
    const sim_plane& maps_;
};

class Counters final : public PerCpuTable<std::uint64_t> {
 public:
    explicit Counters(const sim_plane& maps) : maps_(maps) {}
    Result<std::vector<std::uint64_t>> read(std::uint32_t index) const override {
        std::vector<std::uint64_t> all;
        for (std::uint32_t cpu = 0; cpu < maps_.cpus; ++cpu) {
            all.push_back(maps_.counters[std::size_t{cpu} * ASK_CNT_COUNT + index]);
        }
        return all;
    }
    Result<> zero(std::uint32_t /*index*/) const override {
        return Error(Errc::kInternal, "counters are never zeroed");
    }

 private:
    const sim_plane& maps_;
};

struct SimMap final : public OwnMap, public std::enable_shared_from_this<SimMap> {
    // `each`: words of an entry.
    explicit SimMap(std::size_t count, std::uint32_t each = 1) : words(count * each), stride(each) {}
    mutable std::vector<__u64> words;
    std::uint32_t stride;
    ask_task_meta meta{};
};

const SimMap& sim_map(const OwnMap& map) {
    return static_cast<const SimMap&>(map);
}

class Places final : public MapPlaces {
 public:
    Places(const Steps& steps, const char* what, DataPlane& plane, sim_inner* entries,
           std::vector<OwnMapPtr>& owners)
        : steps_(steps), what_(what), plane_(plane), entries_(entries), owners_(owners) {}
    Result<> put(std::uint32_t index, const OwnMap& map) const override {
        if (!steps_.step(what_)) {
            return killed();
        }
        const SimMap& own = sim_map(map);
        owners_[index] = own.shared_from_this();
        entries_[index] = {own.words.data(), static_cast<std::uint32_t>(own.words.size() / own.stride),
                           own.stride};
        await(plane_.grace_period());
        return {};
    }
    Result<> erase(std::uint32_t index) const override {
        if (!steps_.step(what_)) {
            return killed();
        }
        if (!owners_[index]) {
            return {};
        }
        // Programs may have it in hand until the grace period is over, whether or not the daemon sees that.
        const OwnMap* const old = owners_[index].get();
        plane_.dying.push_back(std::exchange(owners_[index], nullptr));
        entries_[index] = {};
        await(plane_.grace_period());
        std::erase_if(plane_.dying, [old](const OwnMapPtr& map) { return map.get() == old; });
        return {};
    }
    Result<bool> holds(std::uint32_t index, const OwnMap& map) const override {
        return owners_[index].get() == &map;
    }

 private:
    const Steps& steps_;
    const char* what_;
    DataPlane& plane_;
    sim_inner* entries_;
    std::vector<OwnMapPtr>& owners_;
};

class View final : public RegionView {
 public:
    View(std::shared_ptr<const SimMap> map, std::size_t words) : map_(std::move(map)), words_(words) {}
    [[nodiscard]] std::span<ask_aggregator> span() const override {
        return {reinterpret_cast<ask_aggregator*>(map_->words.data()), words_};
    }

 private:
    std::shared_ptr<const SimMap> map_;
    std::size_t words_;
};

class TableView final : public BackView {
 public:
    explicit TableView(std::shared_ptr<const SimMap> map) : map_(std::move(map)) {}
    [[nodiscard]] std::span<const std::byte> bytes() const override {
        return std::as_bytes(std::span(map_->words));
    }

 private:
    std::shared_ptr<const SimMap> map_;
};

class SimStore final : public SwitchStore {
 public:
    SimStore(World& world, DataPlane& plane, const Network& network, std::uint32_t number,
             std::function<bool()> die)
        : steps_{world, number, std::move(die)},
          plane_(plane),
          maps_(plane.maps()),
          network_(network),
          number_(number) {
        meta_.abi_version = ASK_ABI_VERSION;
        meta_.switch_id = maps_.switch_id;
        meta_.incarnation = maps_.mark_incarnation;
        meta_.memory = maps_.memory;
        meta_.dedupe = maps_.dedupe_way;
        meta_.max_channels = maps_.max_channels;
        meta_.max_flows = maps_.max_flows;
        meta_.max_tasks = maps_.max_tasks;
        meta_.possible_cpus = maps_.cpus;
    }

    const ask_meta& meta() const override { return meta_; }
    bool adopted() const override { return true; }

    std::optional<AttachedPort> port(std::uint32_t ifindex) const override { return describe(ifindex); }
    Result<AttachedPort> route_to(std::uint32_t address) const override {
        return describe(network_.port_to(number_, host_of(address)));
    }

    const SwitchTable<ask_channel_id, std::uint32_t>& channel_ids() const override { return channel_ids_; }
    const SwitchTable<std::uint32_t, ask_channel>& channels() const override { return channels_; }
    const SwitchTable<std::uint32_t, ask_dedupe_state>& dedupe() const override { return dedupe_; }
    const SwitchTable<std::uint32_t, ask_pkt_state>& pkt_state() const override { return pkt_state_; }
    const SwitchTable<ask_flow_id, std::uint32_t>& flow_ids() const override { return flow_ids_; }
    const SwitchTable<ask_ipv6, std::uint32_t>* hosts() const override { return &hosts_; }
    const SwitchTable<std::uint32_t, ask_flow>& flows() const override { return flows_; }
    const SwitchTable<std::uint32_t, ask_task>& tasks() const override { return tasks_; }
    const SwitchTable<std::uint32_t, ask_bucket>& buckets() const override { return buckets_; }
    const SwitchTable<std::uint32_t, ask_back>& backs() const override { return backs_; }
    const PerCpuTable<ask_flow_stats>& flow_stats() const override { return flow_stats_; }
    const PerCpuTable<std::uint64_t>& counters() const override { return counters_; }

    std::uint64_t load_swap(std::uint32_t task) const override { return maps_.tasks[task].swap; }
    void store_swap(std::uint32_t task, std::uint64_t word) const override {
        constexpr const char* kNames[] = {"stores that a copy is blank", "stores that an epoch is closed",
                                          "stores that the barrier is passed",
                                          "stores that a copy is confirmed"};
        if (steps_.step(kNames[ASK_SWAP_PHASE(word) % std::size(kNames)])) {
            maps_.tasks[task].swap = word;
        }
    }
    void store_copy(std::uint32_t task, std::uint32_t copy) const override {
        if (steps_.step("flips the copy index")) {
            maps_.tasks[task].copy = copy;
        }
    }

    void store_bucket(std::uint32_t task, std::uint32_t bucket) const override {
        if (steps_.step("gives a task its bucket")) {
            maps_.tasks[task].bucket = bucket;
        }
    }

    void store_back(std::uint32_t task, std::uint32_t takes) const override {
        if (steps_.step("has a back level take tuples, or not")) {
            maps_.tasks[task].back = takes;
        }
    }

    // One program, for regions of any size.
    std::uint8_t take_program(std::uint32_t /*words*/) override { return 0; }
    bool adopt_program(std::uint8_t number) override { return number == 0; }
    void give_back_program(std::uint8_t /*number*/) override {}
    const MapPlaces* regions(std::uint8_t program) const override {
        return program == 0 ? &regions_ : nullptr;
    }
    const MapPlaces& heats() const override { return heats_; }
    const MapPlaces& carried() const override { return carried_; }
    const MapPlaces& back(unsigned group) const override { return back_[group]; }
    Result<OwnMapPtr> create_back(unsigned group, std::uint32_t buckets) const override {
        constexpr auto kWord = static_cast<std::uint32_t>(sizeof(__u64));
        return OwnMapPtr(std::make_shared<SimMap>(buckets, kBackBucketBytes[group] / kWord));
    }
    Result<std::shared_ptr<const BackView>> view_back(const OwnMap& map, unsigned /*group*/,
                                                      std::uint32_t /*buckets*/) const override {
        return std::shared_ptr<const BackView>(
            std::make_shared<const TableView>(sim_map(map).shared_from_this()));
    }
    Result<bool> blank_back(const OwnMap& map, unsigned /*group*/, std::uint32_t /*buckets*/,
                            const std::function<bool()>& go_on) const override {
        if (!steps_.step("blanks a back level")) {
            return killed();
        }
        // Another may have the lock.
        if (!go_on()) {
            return false;
        }
        std::ranges::fill(sim_map(map).words, 0);
        return true;
    }
    Result<OwnMapPtr> create_region(std::uint8_t /*program*/, std::uint32_t words) const override {
        return OwnMapPtr(std::make_shared<SimMap>(words));
    }
    Result<OwnMapPtr> create_heats(std::uint32_t places) const override {
        constexpr std::size_t kEach = sizeof(ask_heats);
        return OwnMapPtr(std::make_shared<SimMap>((places + kEach - 1) / kEach));
    }
    Result<OwnMapPtr> create_carried(const Geometry& geometry) const override {
        return OwnMapPtr(std::make_shared<SimMap>(ask_carried_words(geometry.rows, geometry.aas())));
    }
    Result<OwnMapPtr> create_meta(const ask_task_meta& meta) const override {
        auto map = std::make_shared<SimMap>(0);
        map->meta = meta;
        return OwnMapPtr(std::move(map));
    }
    Result<std::optional<ask_task_meta>> read_meta(const OwnMap& map) const override {
        return std::optional(sim_map(map).meta);
    }
    Result<std::shared_ptr<const RegionView>> view(const OwnMap& region, std::size_t words) const override {
        return std::shared_ptr<const RegionView>(
            std::make_shared<const View>(sim_map(region).shared_from_this(), words));
    }
    void blank(const RegionView& region, std::size_t first, std::size_t count) const override {
        if (steps_.step("blanks a register set of a copy")) {
            std::ranges::fill(region.span().subspan(first, count), ask_aggregator{});
        }
    }

    Result<std::vector<std::string>> pinned_tasks() const override {
        std::vector<std::string> ids;
        for (const auto& [id, pins] : plane_.pins) {
            ids.push_back(id);
        }
        return ids;
    }
    Result<> make_pins(const std::string& id) const override {
        if (!steps_.step("makes a task's pin directory")) {
            return killed();
        }
        plane_.pins[id];
        return {};
    }
    Result<> pin(const std::string& id, TaskPin what, const OwnMap& map) const override {
        if (!steps_.step(pin_name(what))) {
            return killed();
        }
        plane_.pins[id][what] = sim_map(map).shared_from_this();
        return {};
    }
    Result<OwnMapPtr> open_pin(const std::string& id, TaskPin what) const override {
        const auto pins = plane_.pins.find(id);
        const bool pinned = pins != plane_.pins.end() && pins->second.contains(what);
        return pinned ? Result<OwnMapPtr>(pins->second.at(what)) : Error(Errc::kUnknown, "no such pin");
    }
    Result<> unpin(const std::string& id, TaskPin what) const override {
        if (!steps_.step("removes a pin")) {
            return killed();
        }
        if (const auto pins = plane_.pins.find(id); pins != plane_.pins.end()) {
            pins->second.erase(what);
        }
        return {};
    }
    Result<> remove_pins(const std::string& id) const override {
        const auto pins = plane_.pins.find(id);
        while (pins != plane_.pins.end() && !pins->second.empty()) {
            ASK_PASS(unpin(id, pins->second.begin()->first));
        }
        if (!steps_.step("removes a task's pin directory")) {
            return killed();
        }
        plane_.pins.erase(id);
        return {};
    }

    Result<> name_pins(const std::string& tenant, const std::string& id,
                       const std::string& pins) const override {
        if (!steps_.step("names a task's pins")) {
            return killed();
        }
        const bool fresh = plane_.names.emplace(std::pair(tenant, id), pins).second;
        return fresh ? Result<>() : Error(Errc::kExists, "the name is another's");
    }
    Result<> unname_pins(const std::string& tenant, const std::string& id) const override {
        if (!steps_.step("removes a task's name")) {
            return killed();
        }
        plane_.names.erase(std::pair(tenant, id));
        return {};
    }
    Result<> unname_all() const override {
        if (!steps_.step("removes all names")) {
            return killed();
        }
        plane_.names.clear();
        return {};
    }

    Result<> grace_period() const override {
        if (!steps_.step("waits for a grace period")) {
            return killed();
        }
        await(plane_.grace_period());
        return {};
    }
    std::span<const ask_presence> presence() const override { return {maps_.presence, maps_.cpus}; }

 private:
    static AttachedPort describe(std::uint32_t ifindex) {
        return {.name = "p" + std::to_string(ifindex), .ifindex = ifindex, .mtu = kMtu};
    }

    const Steps steps_;
    DataPlane& plane_;
    sim_plane& maps_;
    const Network& network_;
    const std::uint32_t number_;
    ask_meta meta_{};

    const IdTable<ask_channel_id> channel_ids_{steps_, "registers a channel", "erases a channel",
                                               maps_.channel_ids};
    const ArrayTable<ask_channel> channels_{steps_, "writes a channel", maps_.channels, maps_.max_channels};
    const ArrayTable<ask_dedupe_state> dedupe_{steps_, "clears a channel's dedupe state", maps_.dedupe,
                                               maps_.max_channels};
    const ArrayTable<ask_pkt_state> pkt_state_{steps_, "clears what a channel's packets left",
                                               maps_.pkt_state, maps_.max_channels};
    const IdTable<ask_flow_id> flow_ids_{steps_, "joins a flow", "erases a flow", maps_.flow_ids};
    const IdTable<ask_ipv6> hosts_{steps_, "makes a host known", "forgets a host", maps_.hosts};
    const ArrayTable<ask_flow> flows_{steps_, "writes a flow", maps_.flows, maps_.max_flows};
    const ArrayTable<ask_task> tasks_{steps_, "writes a task", maps_.tasks, maps_.max_tasks};
    const ArrayTable<ask_bucket> buckets_{steps_, "fills a bucket", maps_.buckets, maps_.max_tasks + 1};
    [[nodiscard]] Places places_of(ask_back_group group) const {
        return Places(steps_, "puts in or takes out a back level", plane_, maps_.back[group],
                      plane_.back[group]);
    }

    const ArrayTable<ask_back> backs_{steps_, "says how large a back level is", maps_.backs, maps_.max_tasks};
    const FlowStats flow_stats_{steps_, maps_};
    const Counters counters_{maps_};
    const Places regions_{steps_, "puts in or takes out a region", plane_, maps_.regions, plane_.regions};
    const Places heats_{steps_, "puts in or takes out heats", plane_, maps_.heats, plane_.heats};
    const Places carried_{steps_, "puts in or takes out what a flow carries", plane_, maps_.carried,
                          plane_.carried};
    const std::array<Places, ASK_BACK_GROUPS> back_{places_of(ASK_BACK_8), places_of(ASK_BACK_16),
                                                    places_of(ASK_BACK_32), places_of(ASK_BACK_64)};
};

}  // namespace

std::unique_ptr<SwitchStore> make_switch_store(World& world, DataPlane& plane, const Network& network,
                                               std::uint32_t number, std::function<bool()> die) {
    return std::make_unique<SimStore>(world, plane, network, number, std::move(die));
}

}  // namespace ask::sim
