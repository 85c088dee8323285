// SPDX-License-Identifier: Apache-2.0
//
// The switch program and its maps, in the kernel and pinned: loaded by whoever comes first, adopted by
// successors.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "lib/abi/back.h"
#include "lib/abi/map_types.h"
#include "lib/abi/values.h"
#include "lib/abi/vlan.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/bpf/map.h"
#include "loader/config.h"
#include "loader/pin_dir.h"
#include "loader/region_types.h"

namespace ask {

// The program's maps (bpf/engine/maps.bpf.h), as user space uses them.
struct SwitchMaps {
    bpf::Map<std::uint32_t, ask_meta> meta;
    bpf::PerCpuArray<std::uint64_t> counters;
    bpf::Map<std::uint32_t, bpf_devmap_val> ports;
    bpf::Map<std::uint32_t, std::uint32_t> bridges;
    bpf::Map<ask_vlan, std::uint32_t> vlan_in;
    bpf::Map<std::uint32_t, ask_vlan> vlan_out;
    bpf::Map<std::uint32_t, std::uint32_t> port_kinds;
    bpf::Map<ask_ipv6, std::uint32_t> hosts;
    bpf::Map<ask_channel_id, std::uint32_t> channel_ids;
    bpf::Map<std::uint32_t, ask_channel> channels;
    bpf::Map<std::uint32_t, ask_dedupe_state> dedupe;
    bpf::Map<std::uint32_t, ask_pkt_state> pkt_state;
    bpf::Map<ask_flow_id, std::uint32_t> flow_ids;
    bpf::Map<std::uint32_t, ask_flow> flows;
    bpf::PerCpuArray<ask_flow_stats> flow_stats;
    bpf::Map<std::uint32_t, ask_task> tasks;
    bpf::Map<std::uint32_t, ask_bucket> buckets;
    bpf::Map<std::uint32_t, ask_presence> presence;
    bpf::Map<std::uint32_t, ask_back> backs;
    bpf::Map<std::uint32_t, ask_group> groups;
    bpf::Map<std::uint32_t, ask_value_slot> value_slots;
    bpf::Map<std::uint32_t, ask_fan_member> fan_members;
    bpf::Map<std::uint32_t, std::uint32_t> fans;  // of maps
    // Maps of maps: written as descriptors, read as map ids.
    bpf::Map<std::uint32_t, std::uint32_t> regions;  // of any size
    bpf::Map<std::uint32_t, std::uint32_t> heats;
    bpf::Map<std::uint32_t, std::uint32_t> carried;
    std::array<bpf::Map<std::uint32_t, std::uint32_t>, ASK_BACK_GROUPS> back;
    // Likewise of programs.
    bpf::Map<std::uint32_t, std::uint32_t> data_programs;
    bpf::Map<std::uint32_t, std::uint32_t> back_programs;
};

class DataPlane {
 public:
    // Adopts what is pinned in `pins`, or loads and pins it if nothing whole is there. kUnsupported: what is
    // pinned cannot be adopted with this configuration or by this version; the error says what differs.
    static Result<DataPlane> load_or_adopt(const SwitchConfig& config, const PinDir& pins);

    // Whether what is pinned could be adopted so, or nothing is: kUnsupported as above. Changes nothing.
    static Result<> check_pinned(const SwitchConfig& config, const PinDir& pins);

    [[nodiscard]] bool adopted() const { return adopted_; }
    [[nodiscard]] const ask_meta& meta() const { return meta_; }
    [[nodiscard]] std::uint32_t value_slots() const { return value_slots_; }
    [[nodiscard]] int program() const { return program_.get(); }
    [[nodiscard]] std::uint32_t program_id() const { return program_id_; }
    // As an entry of every device map: a copy leaves by the port, addressed to who is behind it.
    [[nodiscard]] bpf_devmap_val device(std::uint32_t ifindex) const {
        return {.ifindex = ifindex, .bpf_prog = {.fd = fan_program_.get()}};
    }
    [[nodiscard]] const SwitchMaps& maps() const { return maps_; }
    [[nodiscard]] const RegionTypes& types() const { return types_; }

 private:
    Result<> open(const PinDir& pins);

    bool adopted_ = false;
    ask_meta meta_{};
    std::uint32_t value_slots_ = 0;
    UniqueFd program_;
    UniqueFd fan_program_;
    std::uint32_t program_id_ = 0;
    SwitchMaps maps_;
    RegionTypes types_;
};

}  // namespace ask
