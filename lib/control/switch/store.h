// SPDX-License-Identifier: Apache-2.0
//
// Everything that a switch's controller does to its switch: maps, pins, programs, barriers. ask-switchd has
// the kernel behind it (loader/kernel_store.h), the simulator a switch of its own. It decides nothing: order
// and meaning of the calls are the controller's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/abi/back.h"
#include "lib/abi/hosts.h"
#include "lib/abi/map_types.h"
#include "lib/abi/values.h"
#include "lib/base/result.h"
#include "lib/tuples/back.h"
#include "lib/tuples/types.h"

namespace ask {

// A map of the switch program: an array (keys are indices, nothing is erased) or a hash.
template <typename K, typename V>
class SwitchTable {
 public:
    SwitchTable() = default;
    SwitchTable(const SwitchTable&) = delete;
    SwitchTable& operator=(const SwitchTable&) = delete;
    virtual ~SwitchTable() = default;
    [[nodiscard]] virtual Result<std::optional<V>> find(const K& key) const = 0;
    virtual Result<> set(const K& key, const V& value) const = 0;
    // A key that is not there is fine.
    virtual Result<> erase(const K& key) const = 0;
    [[nodiscard]] virtual Result<std::vector<K>> keys() const = 0;
};

// A per-CPU array.
template <typename V>
class PerCpuTable {
 public:
    PerCpuTable() = default;
    PerCpuTable(const PerCpuTable&) = delete;
    PerCpuTable& operator=(const PerCpuTable&) = delete;
    virtual ~PerCpuTable() = default;
    // One value a CPU.
    [[nodiscard]] virtual Result<std::vector<V>> read(std::uint32_t index) const = 0;
    // Only while no program can come to the entry.
    virtual Result<> zero(std::uint32_t index) const = 0;
};

// A map of one task's or flow's own: region, heats, what a flow carries, the task's meta. It lives as long as
// this handle, its pin, or its place in the switch.
class OwnMap {
 public:
    OwnMap() = default;
    OwnMap(const OwnMap&) = delete;
    OwnMap& operator=(const OwnMap&) = delete;
    virtual ~OwnMap() = default;
};
using OwnMapPtr = std::shared_ptr<const OwnMap>;

// A map of maps: what is put in is there for programs.
class MapPlaces {
 public:
    MapPlaces() = default;
    MapPlaces(const MapPlaces&) = delete;
    MapPlaces& operator=(const MapPlaces&) = delete;
    virtual ~MapPlaces() = default;
    // Both wait for a grace period.
    virtual Result<> put(std::uint32_t index, const OwnMap& map) const = 0;
    virtual Result<> erase(std::uint32_t index) const = 0;
    // Whether it is this map that is there.
    [[nodiscard]] virtual Result<bool> holds(std::uint32_t index, const OwnMap& map) const = 0;
};

// A region in memory, as long as this lives. Programs write to it.
class RegionView {
 public:
    RegionView() = default;
    RegionView(const RegionView&) = delete;
    RegionView& operator=(const RegionView&) = delete;
    virtual ~RegionView() = default;
    [[nodiscard]] virtual std::span<ask_aggregator> span() const = 0;
};

// A table of a back level in memory, as long as this lives.
class BackView {
 public:
    BackView() = default;
    BackView(const BackView&) = delete;
    BackView& operator=(const BackView&) = delete;
    virtual ~BackView() = default;
    [[nodiscard]] virtual std::span<const std::byte> bytes() const = 0;
};

struct AttachedPort {
    std::string name;
    std::uint32_t ifindex = 0;
    std::uint32_t mtu = 0;  // bytes
};

// A port, and who is behind it as copies that leave by it are addressed.
struct FanPort {
    AttachedPort port;
    ask_fan_member member{};
};

// What a task's pins are called: by what nobody else's are.
[[nodiscard]] inline std::string pins_of(std::uint64_t instance) {
    constexpr std::size_t kDigits = 16;
    constexpr std::string_view kHex = "0123456789abcdef";
    std::string name(kDigits, '0');
    for (std::size_t i = kDigits; i-- > 0; instance >>= 4U) {
        name[i] = kHex[instance & 15U];
    }
    return name;
}

// What is pinned for a task.
enum class TaskPin : std::uint8_t { kMeta, kRegion, kHeats, kBack8, kBack16, kBack32, kBack64 };

[[nodiscard]] constexpr TaskPin back_pin(unsigned group) {
    constexpr std::array<TaskPin, ASK_BACK_GROUPS> kPins{TaskPin::kBack8, TaskPin::kBack16, TaskPin::kBack32,
                                                         TaskPin::kBack64};
    return kPins[group];
}

// Any thread.
class SwitchStore {
 public:
    SwitchStore() = default;
    SwitchStore(const SwitchStore&) = delete;
    SwitchStore& operator=(const SwitchStore&) = delete;
    virtual ~SwitchStore() = default;

    // What the switch was loaded with, and whether by a predecessor.
    [[nodiscard]] virtual const ask_meta& meta() const = 0;
    [[nodiscard]] virtual bool adopted() const = 0;

    // By its index, or, of a bond, a member's.
    [[nodiscard]] virtual std::optional<AttachedPort> port(std::uint32_t ifindex) const = 0;
    // The port behind which a host is, by its number (lib/net/host_book.h). kInput: behind none.
    [[nodiscard]] virtual Result<AttachedPort> route_to(std::uint32_t address) const = 0;
    // All ports by which its packets may come in, that one first: several where its route has several next
    // hops, or leads through a bond, whose members follow it.
    [[nodiscard]] virtual Result<std::vector<AttachedPort>> ways_to(std::uint32_t address) const {
        auto port = route_to(address);
        ASK_PASS(port);
        return std::vector{*std::move(port)};
    }

    // lib/abi/map_types.h says what is in which.
    [[nodiscard]] virtual const SwitchTable<ask_channel_id, std::uint32_t>& channel_ids() const = 0;
    [[nodiscard]] virtual const SwitchTable<std::uint32_t, ask_channel>& channels() const = 0;
    [[nodiscard]] virtual const SwitchTable<std::uint32_t, ask_dedupe_state>& dedupe() const = 0;
    [[nodiscard]] virtual const SwitchTable<std::uint32_t, ask_pkt_state>& pkt_state() const = 0;
    [[nodiscard]] virtual const SwitchTable<ask_flow_id, std::uint32_t>& flow_ids() const = 0;
    [[nodiscard]] virtual const SwitchTable<std::uint32_t, ask_flow>& flows() const = 0;
    [[nodiscard]] virtual const SwitchTable<std::uint32_t, ask_task>& tasks() const = 0;
    [[nodiscard]] virtual const SwitchTable<std::uint32_t, ask_bucket>& buckets() const = 0;
    // Numbers of hosts by their addresses, network order. Null: this switch does not read IPv6.
    [[nodiscard]] virtual const SwitchTable<ask_ipv6, std::uint32_t>* hosts() const { return nullptr; }
    [[nodiscard]] virtual const SwitchTable<std::uint32_t, ask_back>& backs() const = 0;
    // By the task's index. Null: value streams are not folded here.
    [[nodiscard]] virtual const SwitchTable<std::uint32_t, ask_group>* groups() const { return nullptr; }
    // Slots of the pool that groups share.
    [[nodiscard]] virtual std::uint32_t value_slots() const { return 0; }
    // By ifindex. Null: this switch makes no copies.
    [[nodiscard]] virtual const SwitchTable<std::uint32_t, ask_fan_member>* fan_members() const {
        return nullptr;
    }
    // The ports by which copies to a host, by its number, could leave, the usual one first, and the MACs on
    // the way there.
    [[nodiscard]] virtual Result<std::vector<FanPort>> fan_ports(std::uint32_t /*address*/) const {
        return Error(Errc::kUnsupported, "this switch makes no copies");
    }
    // A fan of these ports; both wait for a grace period.
    virtual Result<> put_fan(std::uint32_t /*number*/, std::span<const std::uint32_t> /*ports*/) const {
        return Error(Errc::kUnsupported, "this switch makes no copies");
    }
    virtual Result<> erase_fan(std::uint32_t /*number*/) const { return {}; }
    [[nodiscard]] virtual const PerCpuTable<ask_flow_stats>& flow_stats() const = 0;
    [[nodiscard]] virtual const PerCpuTable<std::uint64_t>& counters() const = 0;

    // The four words of a task's entry that change while it is open.
    [[nodiscard]] virtual std::uint64_t load_swap(std::uint32_t task) const = 0;
    virtual void store_swap(std::uint32_t task, std::uint64_t word) const = 0;
    // Programs that read the index from now on write to this copy.
    virtual void store_copy(std::uint32_t task, std::uint32_t copy) const = 0;
    // Packets of the task are taken from this bucket from now on; 0: from none.
    virtual void store_bucket(std::uint32_t task, std::uint32_t bucket) const = 0;
    // Programs that read it from now on offer tuples to the task's back level, or (0) do not.
    virtual void store_back(std::uint32_t task, std::uint32_t takes) const = 0;

    // The program for regions of so many words, with one user more; 0: that for any size.
    virtual std::uint8_t take_program(std::uint32_t words) = 0;
    // The same for a program that an adopted task names. False: there is none of that number.
    virtual bool adopt_program(std::uint8_t number) = 0;
    virtual void give_back_program(std::uint8_t number) = 0;

    // Regions of a program; null: no program has the number.
    [[nodiscard]] virtual const MapPlaces* regions(std::uint8_t program) const = 0;
    [[nodiscard]] virtual const MapPlaces& heats() const = 0;
    [[nodiscard]] virtual const MapPlaces& carried() const = 0;
    // Of a group of keys (enum ask_back_group).
    [[nodiscard]] virtual const MapPlaces& back(unsigned group) const = 0;
    // Blank ones. kLimit: no memory.
    virtual Result<OwnMapPtr> create_region(std::uint8_t program, std::uint32_t words) const = 0;
    virtual Result<OwnMapPtr> create_heats(std::uint32_t places) const = 0;
    virtual Result<OwnMapPtr> create_carried(const Geometry& geometry) const = 0;
    virtual Result<OwnMapPtr> create_back(unsigned group, std::uint32_t buckets) const = 0;
    virtual Result<OwnMapPtr> create_meta(const ask_task_meta& meta) const = 0;
    [[nodiscard]] virtual Result<std::optional<ask_task_meta>> read_meta(const OwnMap& map) const = 0;
    [[nodiscard]] virtual Result<std::shared_ptr<const RegionView>> view(const OwnMap& region,
                                                                         std::size_t words) const = 0;
    [[nodiscard]] virtual Result<std::shared_ptr<const BackView>> view_back(const OwnMap& map, unsigned group,
                                                                            std::uint32_t buckets) const = 0;
    // Zeros a back level that no program and no reader has. Asks `go_on` now and then, and stops if it says
    // no, which is what false says.
    virtual Result<bool> blank_back(const OwnMap& map, unsigned group, std::uint32_t buckets,
                                    const std::function<bool()>& go_on) const = 0;
    // Words `first` to `first + count` of a region that no program writes to.
    virtual void blank(const RegionView& region, std::size_t first, std::size_t count) const = 0;

    // Pins of tasks, by pins_of() their instances. open_pin(): kUnknown if there is none.
    [[nodiscard]] virtual Result<std::vector<std::string>> pinned_tasks() const = 0;
    virtual Result<> make_pins(const std::string& pins) const = 0;
    virtual Result<> pin(const std::string& pins, TaskPin what, const OwnMap& map) const = 0;
    [[nodiscard]] virtual Result<OwnMapPtr> open_pin(const std::string& pins, TaskPin what) const = 0;
    virtual Result<> unpin(const std::string& pins, TaskPin what) const = 0;
    virtual Result<> remove_pins(const std::string& pins) const = 0;
    // For people, who look for a task by its tenant (empty: none) and id: nobody else reads them.
    virtual Result<> name_pins(const std::string& tenant, const std::string& id,
                               const std::string& pins) const = 0;
    // One that is not there is fine.
    virtual Result<> unname_pins(const std::string& tenant, const std::string& id) const = 0;
    virtual Result<> unname_all() const = 0;

    // Returns when every program that ran when it was called has ended.
    virtual Result<> grace_period() const = 0;
    // A word a CPU (bpf/presence.bpf.h).
    [[nodiscard]] virtual std::span<const ask_presence> presence() const = 0;
};

// The names of pins, for people and files.
[[nodiscard]] constexpr const char* pin_name(TaskPin what) {
    switch (what) {
        case TaskPin::kRegion:
            return "region";
        case TaskPin::kHeats:
            return "heat";
        case TaskPin::kBack8:
            return kBackNames[ASK_BACK_8];
        case TaskPin::kBack16:
            return kBackNames[ASK_BACK_16];
        case TaskPin::kBack32:
            return kBackNames[ASK_BACK_32];
        case TaskPin::kBack64:
            return kBackNames[ASK_BACK_64];
        case TaskPin::kMeta:
            break;
    }
    return "meta";
}

}  // namespace ask
