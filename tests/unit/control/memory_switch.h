// SPDX-License-Identifier: Apache-2.0
//
// A switch in memory, for its controller: maps and pins that stay when the controller goes. No program runs.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/control/switch/host_address.h"
#include "lib/control/switch/store.h"
#include "lib/tuples/back.h"

namespace ask::test {

template <typename K, typename V>
class MemoryTable final : public SwitchTable<K, V> {
 public:
    Result<std::optional<V>> find(const K& key) const override {
        const std::lock_guard lock(mutex_);
        const auto at = entries_.find(bytes(key));
        return at == entries_.end() ? std::nullopt : std::optional<V>(at->second.second);
    }
    Result<> set(const K& key, const V& value) const override {
        const std::lock_guard lock(mutex_);
        entries_.insert_or_assign(bytes(key), std::pair(key, value));
        return {};
    }
    Result<> erase(const K& key) const override {
        const std::lock_guard lock(mutex_);
        entries_.erase(bytes(key));
        return {};
    }
    [[nodiscard]] Result<std::vector<K>> keys() const override {
        const std::lock_guard lock(mutex_);
        std::vector<K> all;
        for (const auto& [key, entry] : entries_) {
            all.push_back(entry.first);
        }
        return all;
    }

 private:
    static std::string bytes(const K& key) { return {reinterpret_cast<const char*>(&key), sizeof(key)}; }
    mutable std::mutex mutex_;
    mutable std::map<std::string, std::pair<K, V>> entries_;
};

// Of one CPU.
template <typename V>
class MemoryCounts final : public PerCpuTable<V> {
 public:
    [[nodiscard]] Result<std::vector<V>> read(std::uint32_t index) const override {
        const std::lock_guard lock(mutex_);
        return std::vector<V>{counts_[index]};
    }
    Result<> zero(std::uint32_t index) const override {
        set(index, V{});
        return {};
    }
    void set(std::uint32_t index, const V& counted) const {
        const std::lock_guard lock(mutex_);
        counts_[index] = counted;
    }

 private:
    mutable std::mutex mutex_;
    mutable std::map<std::uint32_t, V> counts_;
};

struct MemoryMap final : public OwnMap, public std::enable_shared_from_this<MemoryMap> {
    mutable std::vector<ask_aggregator> words;
    mutable std::vector<std::byte> table;  // of a back level
    ask_task_meta meta{};
};

class MemoryPlaces final : public MapPlaces {
 public:
    Result<> put(std::uint32_t index, const OwnMap& map) const override {
        const std::lock_guard lock(mutex_);
        maps_[index] = &map;
        return {};
    }
    Result<> erase(std::uint32_t index) const override {
        const std::lock_guard lock(mutex_);
        maps_.erase(index);
        return {};
    }
    [[nodiscard]] Result<bool> holds(std::uint32_t index, const OwnMap& map) const override {
        const std::lock_guard lock(mutex_);
        const auto at = maps_.find(index);
        return at != maps_.end() && at->second == &map;
    }

 private:
    mutable std::mutex mutex_;
    mutable std::map<std::uint32_t, const OwnMap*> maps_;
};

class MemoryView final : public RegionView {
 public:
    explicit MemoryView(std::shared_ptr<const MemoryMap> map) : map_(std::move(map)) {}
    [[nodiscard]] std::span<ask_aggregator> span() const override { return map_->words; }

 private:
    std::shared_ptr<const MemoryMap> map_;
};

class MemoryTableView final : public BackView {
 public:
    explicit MemoryTableView(std::shared_ptr<const MemoryMap> map) : map_(std::move(map)) {}
    [[nodiscard]] std::span<const std::byte> bytes() const override { return map_->table; }

 private:
    std::shared_ptr<const MemoryMap> map_;
};

class MemorySwitch : public SwitchStore {
 public:
    // `entries`: of channels, flows and tasks each.
    explicit MemorySwitch(std::uint32_t entries = 8) {
        meta_.switch_id = 1;
        meta_.incarnation = 5;
        meta_.memory = ASK_MEMORY_SHARED;
        meta_.max_channels = meta_.max_flows = meta_.max_tasks = entries;
        meta_.possible_cpus = 1;
    }
    [[nodiscard]] const ask_meta& meta() const override { return meta_; }
    void set_pipelines() { meta_.memory = ASK_MEMORY_PIPELINES; }
    void set_compact() { meta_.dedupe = ASK_DEDUPE_COMPACT; }
    [[nodiscard]] bool adopted() const override { return true; }
    [[nodiscard]] std::optional<AttachedPort> port(std::uint32_t /*ifindex*/) const override {
        return AttachedPort{.name = "p1", .ifindex = 1, .mtu = 1500};
    }
    [[nodiscard]] Result<AttachedPort> route_to(std::uint32_t /*address*/) const override { return *port(1); }
    // The last byte but one of an address is its port.
    [[nodiscard]] const SwitchTable<std::uint32_t, ask_fan_member>* fan_members() const override {
        return &fan_members_;
    }
    [[nodiscard]] Result<std::vector<FanPort>> fan_ports(std::uint32_t address) const override {
        const std::uint32_t number = address >> 8U & 255U;
        if (number == 0) {
            return Error(Errc::kInput, "address " + std::to_string(address) + " is behind no port");
        }
        std::vector<FanPort> found;
        for (const std::uint32_t way : number < kFirstBeyond ? std::vector{number} : uplinks) {
            found.push_back({.port = {.name = "p" + std::to_string(way), .ifindex = way, .mtu = 1500}});
            set_address(found.back().member, address);
        }
        return found;
    }
    // Addresses whose number is as large are beyond other switches, by any of these ports.
    static constexpr std::uint32_t kFirstBeyond = 100;
    std::vector<std::uint32_t> uplinks{11, 12};
    [[nodiscard]] Result<std::vector<AttachedPort>> ways_to(std::uint32_t address) const override {
        if ((address >> 8U & 255U) < kFirstBeyond) {
            return std::vector{*port(1)};
        }
        const auto ports = fan_ports(address);
        ASK_PASS(ports);
        std::vector<AttachedPort> ways;
        std::ranges::transform(*ports, std::back_inserter(ways), &FanPort::port);
        return ways;
    }
    Result<> put_fan(std::uint32_t number, std::span<const std::uint32_t> ports) const override {
        fans[number].assign(ports.begin(), ports.end());
        return {};
    }
    Result<> erase_fan(std::uint32_t number) const override {
        fans.erase(number);
        return {};
    }
    mutable std::map<std::uint32_t, std::vector<std::uint32_t>> fans;
    [[nodiscard]] const SwitchTable<ask_channel_id, std::uint32_t>& channel_ids() const override {
        return channel_ids_;
    }
    [[nodiscard]] const SwitchTable<std::uint32_t, ask_channel>& channels() const override {
        return channels_;
    }
    [[nodiscard]] const SwitchTable<std::uint32_t, ask_dedupe_state>& dedupe() const override {
        return dedupe_;
    }
    [[nodiscard]] const SwitchTable<std::uint32_t, ask_pkt_state>& pkt_state() const override {
        return pkt_state_;
    }
    [[nodiscard]] const SwitchTable<ask_flow_id, std::uint32_t>& flow_ids() const override {
        return flow_ids_;
    }
    [[nodiscard]] const SwitchTable<std::uint32_t, ask_flow>& flows() const override { return flows_; }
    [[nodiscard]] const SwitchTable<std::uint32_t, ask_task>& tasks() const override { return tasks_; }
    [[nodiscard]] const SwitchTable<std::uint32_t, ask_bucket>& buckets() const override { return buckets_; }
    [[nodiscard]] const SwitchTable<ask_ipv6, std::uint32_t>* hosts() const override {
        return reads_six ? &hosts_ : nullptr;
    }
    bool reads_six = true;
    [[nodiscard]] const SwitchTable<std::uint32_t, ask_back>& backs() const override { return backs_; }
    [[nodiscard]] const SwitchTable<std::uint32_t, ask_group>* groups() const override { return &groups_; }
    [[nodiscard]] std::uint32_t value_slots() const override { return 1024; }
    [[nodiscard]] const PerCpuTable<ask_flow_stats>& flow_stats() const override { return flow_stats_; }
    [[nodiscard]] const PerCpuTable<std::uint64_t>& counters() const override { return counters_; }
    [[nodiscard]] std::uint64_t load_swap(std::uint32_t task) const override {
        return (*tasks_.find(task))->swap;
    }
    void store_swap(std::uint32_t task, std::uint64_t word) const override {
        change(task, [word](ask_task& entry) { entry.swap = word; });
    }
    void store_copy(std::uint32_t task, std::uint32_t copy) const override {
        change(task, [copy](ask_task& entry) { entry.copy = copy; });
    }
    void store_bucket(std::uint32_t task, std::uint32_t bucket) const override {
        change(task, [bucket](ask_task& entry) { entry.bucket = bucket; });
    }
    void store_back(std::uint32_t task, std::uint32_t takes) const override {
        change(task, [takes](ask_task& entry) { entry.back = takes; });
    }
    std::uint8_t take_program(std::uint32_t /*words*/) override { return 0; }
    bool adopt_program(std::uint8_t /*number*/) override { return true; }
    void give_back_program(std::uint8_t /*number*/) override {}
    [[nodiscard]] const MapPlaces* regions(std::uint8_t /*program*/) const override { return &regions_; }
    [[nodiscard]] const MapPlaces& heats() const override { return heats_; }
    [[nodiscard]] const MapPlaces& carried() const override { return carried_; }
    [[nodiscard]] const MapPlaces& back(unsigned group) const override { return back_[group]; }
    Result<OwnMapPtr> create_back(unsigned group, std::uint32_t buckets) const override {
        if (refuse_back_) {
            return Error(Errc::kLimit, "no memory");
        }
        auto map = std::make_shared<MemoryMap>();
        map->table.resize(std::size_t{buckets} * kBackBucketBytes[group]);
        const std::lock_guard lock(backs_mutex_);
        std::size_t bytes = map->table.size();
        for (const std::weak_ptr<MemoryMap>& other : backs_made_) {
            const auto there = other.lock();
            bytes += there == nullptr ? 0 : there->table.size();
        }
        if (bytes > back_memory_) {
            return Error(Errc::kLimit, "no memory");
        }
        backs_made_.push_back(map);
        return OwnMapPtr(std::move(map));
    }
    [[nodiscard]] Result<std::shared_ptr<const BackView>> view_back(
        const OwnMap& map, unsigned /*group*/, std::uint32_t /*buckets*/) const override {
        return std::shared_ptr<const BackView>(
            std::make_shared<const MemoryTableView>(memory_of(map).shared_from_this()));
    }
    Result<bool> blank_back(const OwnMap& map, unsigned /*group*/, std::uint32_t /*buckets*/,
                            const std::function<bool()>& go_on) const override {
        if (!go_on()) {
            return false;
        }
        std::ranges::fill(memory_of(map).table, std::byte{0});
        return true;
    }
    Result<OwnMapPtr> create_region(std::uint8_t /*program*/, std::uint32_t words) const override {
        auto map = std::make_shared<MemoryMap>();
        map->words.resize(words);
        return OwnMapPtr(std::move(map));
    }
    Result<OwnMapPtr> create_heats(std::uint32_t /*places*/) const override { return create_region(0, 0); }
    Result<OwnMapPtr> create_carried(const Geometry& /*geometry*/) const override {
        return create_region(0, 0);
    }
    Result<OwnMapPtr> create_meta(const ask_task_meta& meta) const override {
        auto map = std::make_shared<MemoryMap>();
        map->meta = meta;
        return OwnMapPtr(std::move(map));
    }
    [[nodiscard]] Result<std::optional<ask_task_meta>> read_meta(const OwnMap& map) const override {
        return std::optional(memory_of(map).meta);
    }
    [[nodiscard]] Result<std::shared_ptr<const RegionView>> view(const OwnMap& region,
                                                                 std::size_t /*words*/) const override {
        return std::shared_ptr<const RegionView>(
            std::make_shared<const MemoryView>(memory_of(region).shared_from_this()));
    }
    void blank(const RegionView& region, std::size_t first, std::size_t count) const override {
        std::memset(&region.span()[first], 0, count * sizeof(ask_aggregator));
    }

    [[nodiscard]] Result<std::vector<std::string>> pinned_tasks() const override {
        const std::lock_guard lock(mutex_);
        std::vector<std::string> all;
        for (const auto& [pins, maps] : pins_) {
            all.push_back(pins);
        }
        return all;
    }
    Result<> make_pins(const std::string& pins) const override {
        const std::lock_guard lock(mutex_);
        pins_[pins];
        return {};
    }
    Result<> pin(const std::string& pins, TaskPin what, const OwnMap& map) const override {
        const std::lock_guard lock(mutex_);
        pins_[pins][what] = memory_of(map).shared_from_this();
        return {};
    }
    [[nodiscard]] Result<OwnMapPtr> open_pin(const std::string& pins, TaskPin what) const override {
        const std::lock_guard lock(mutex_);
        const auto found = pins_.find(pins);
        return found != pins_.end() && found->second.contains(what)
                   ? Result<OwnMapPtr>(found->second.at(what))
                   : Error(Errc::kUnknown, "no such pin");
    }
    Result<> unpin(const std::string& pins, TaskPin what) const override {
        const std::lock_guard lock(mutex_);
        pins_[pins].erase(what);
        return {};
    }
    Result<> remove_pins(const std::string& pins) const override {
        const std::lock_guard lock(mutex_);
        pins_.erase(pins);
        return {};
    }
    Result<> name_pins(const std::string& tenant, const std::string& id,
                       const std::string& pins) const override {
        const std::lock_guard lock(mutex_);
        names_[tenant + "/" + id] = pins;
        return {};
    }
    Result<> unname_pins(const std::string& tenant, const std::string& id) const override {
        const std::lock_guard lock(mutex_);
        names_.erase(tenant + "/" + id);
        return {};
    }
    Result<> unname_all() const override {
        const std::lock_guard lock(mutex_);
        names_.clear();
        return {};
    }
    Result<> grace_period() const override { return {}; }
    [[nodiscard]] std::span<const ask_presence> presence() const override { return {}; }

    // From now on there is no memory for back levels.
    void refuse_back() { refuse_back_ = true; }
    // All of them together have no more than that.
    void set_back_memory(std::size_t bytes) { back_memory_ = bytes; }
    // As if a program had put these bytes into bucket 0 of a task's back level.
    void write_back(const std::string& pins, unsigned group, std::span<const std::byte> bucket) const {
        const std::lock_guard lock(mutex_);
        std::ranges::copy(bucket, memory_of(*pins_.at(pins).at(back_pin(group))).table.begin());
    }
    // As if a program had put this aggregator into a task's region, at that word.
    void write_front(const std::string& pins, std::size_t word, const ask_aggregator& tuple) const {
        const std::lock_guard lock(mutex_);
        memory_of(*pins_.at(pins).at(TaskPin::kRegion)).words.at(word) = tuple;
    }
    // As if a program had counted so many tuples of the flow that was given this index.
    void count(std::uint32_t flow, std::uint64_t tuples) const {
        ask_flow_stats stats{};
        stats.packets_new = stats.tuples_aggregated = tuples;
        flow_stats_.set(flow, stats);
    }

    // "tenant/id" and the pins that it leads to.
    [[nodiscard]] std::map<std::string, std::string> names() const {
        const std::lock_guard lock(mutex_);
        return names_;
    }

 private:
    static const MemoryMap& memory_of(const OwnMap& map) { return static_cast<const MemoryMap&>(map); }
    template <typename Change>
    void change(std::uint32_t task, Change what) const {
        ask_task entry = **tasks_.find(task);
        what(entry);
        [[maybe_unused]] const auto set = tasks_.set(task, entry);
    }

    ask_meta meta_{};
    const MemoryTable<ask_channel_id, std::uint32_t> channel_ids_{};
    const MemoryTable<std::uint32_t, ask_channel> channels_{};
    const MemoryTable<std::uint32_t, ask_dedupe_state> dedupe_{};
    const MemoryTable<std::uint32_t, ask_pkt_state> pkt_state_{};
    const MemoryTable<ask_flow_id, std::uint32_t> flow_ids_{};
    const MemoryTable<std::uint32_t, ask_flow> flows_{};
    const MemoryTable<std::uint32_t, ask_task> tasks_{};
    const MemoryTable<std::uint32_t, ask_bucket> buckets_{};
    const MemoryCounts<ask_flow_stats> flow_stats_{};
    const MemoryCounts<std::uint64_t> counters_{};
    const MemoryPlaces regions_{};
    const MemoryPlaces heats_{};
    const MemoryPlaces carried_{};
    const MemoryTable<ask_ipv6, std::uint32_t> hosts_{};
    const MemoryTable<std::uint32_t, ask_back> backs_{};
    const MemoryTable<std::uint32_t, ask_group> groups_{};
    const MemoryTable<std::uint32_t, ask_fan_member> fan_members_{};
    const std::array<MemoryPlaces, ASK_BACK_GROUPS> back_{};
    bool refuse_back_ = false;
    std::size_t back_memory_ = SIZE_MAX;
    mutable std::mutex backs_mutex_;
    mutable std::vector<std::weak_ptr<MemoryMap>> backs_made_;
    mutable std::mutex mutex_;
    mutable std::map<std::string, std::map<TaskPin, OwnMapPtr>> pins_;
    mutable std::map<std::string, std::string> names_;
};

}  // namespace ask::test
