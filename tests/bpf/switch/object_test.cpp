// SPDX-License-Identifier: Apache-2.0
//
// The object as a whole: what its BTF says against what C++ says, and what the verifier spends on it.
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <doctest/doctest.h>

#include "lib/abi/back.h"
#include "lib/abi/hosts.h"
#include "lib/abi/map_types.h"
#include "lib/abi/values.h"
#include "lib/abi/vlan.h"
#include "switch.skel.h"
#include "tests/bpf/switch/harness.h"

using namespace ask::test;

namespace {

struct Field {
    std::string name;
    std::size_t offset;
};

struct Layout {
    std::string name;
    std::size_t size;
    std::vector<Field> fields;
};

// NOLINTBEGIN(cppcoreguidelines-macro-usage): offsetof needs the names
#define FIELD(type, field) {#field, offsetof(type, field)}
// NOLINTEND(cppcoreguidelines-macro-usage)

// ask_hdr is not in the object's BTF: no map holds one. The packet tests check it byte by byte.
const Layout kLayouts[] = {
    {"ask_aggregator", sizeof(ask_aggregator), {FIELD(ask_aggregator, kpart), FIELD(ask_aggregator, vpart)}},
    {"ask_channel_id",
     sizeof(ask_channel_id),
     {FIELD(ask_channel_id, host), FIELD(ask_channel_id, port), FIELD(ask_channel_id, pad)}},
    {"ask_channel",
     sizeof(ask_channel),
     {FIELD(ask_channel, host), FIELD(ask_channel, port), FIELD(ask_channel, pad),
      FIELD(ask_channel, incarnation), FIELD(ask_channel, ports)}},
    {"ask_ports", sizeof(ask_ports), {FIELD(ask_ports, ifindex)}},
    {"ask_dedupe_state", sizeof(ask_dedupe_state), {FIELD(ask_dedupe_state, seen)}},
    {"ask_pkt_state", sizeof(ask_pkt_state), {FIELD(ask_pkt_state, row)}},
    {"ask_flow_id",
     sizeof(ask_flow_id),
     {FIELD(ask_flow_id, task), FIELD(ask_flow_id, host), FIELD(ask_flow_id, port), FIELD(ask_flow_id, pad)}},
    {"ask_check_key",
     sizeof(ask_check_key),
     {FIELD(ask_check_key, sip), FIELD(ask_check_key, head), FIELD(ask_check_key, line),
      FIELD(ask_check_key, nh)}},
    {"ask_flow",
     sizeof(ask_flow),
     {FIELD(ask_flow, task_instance), FIELD(ask_flow, channel), FIELD(ask_flow, task), FIELD(ask_flow, key),
      FIELD(ask_flow, host), FIELD(ask_flow, port), FIELD(ask_flow, cut), FIELD(ask_flow, incarnation),
      FIELD(ask_flow, member), FIELD(ask_flow, nonce)}},
    {"ask_task",
     sizeof(ask_task),
     {FIELD(ask_task, instance), FIELD(ask_task, swap), FIELD(ask_task, copy), FIELD(ask_task, copies),
      FIELD(ask_task, aggregators), FIELD(ask_task, sets), FIELD(ask_task, short_slots),
      FIELD(ask_task, groups), FIELD(ask_task, m), FIELD(ask_task, rows), FIELD(ask_task, op),
      FIELD(ask_task, policy), FIELD(ask_task, program), FIELD(ask_task, service), FIELD(ask_task, receiver),
      FIELD(ask_task, bucket), FIELD(ask_task, back), FIELD(ask_task, pad)}},
    {"ask_back", sizeof(ask_back), {FIELD(ask_back, seed), FIELD(ask_back, buckets)}},
    {"ask_back8", sizeof(ask_back8), {FIELD(ask_back8, key), FIELD(ask_back8, value)}},
    {"ask_back16", sizeof(ask_back16), {FIELD(ask_back16, tags), FIELD(ask_back16, entry)}},
    {"ask_back32", sizeof(ask_back32), {FIELD(ask_back32, tags), FIELD(ask_back32, entry)}},
    {"ask_back64",
     sizeof(ask_back64),
     {FIELD(ask_back64, tags), FIELD(ask_back64, entry), FIELD(ask_back64, spare)}},
    {"ask_bucket",
     sizeof(ask_bucket),
     {FIELD(ask_bucket, due), FIELD(ask_bucket, cost), FIELD(ask_bucket, burst), FIELD(ask_bucket, pad)}},
    {"ask_group",
     sizeof(ask_group),
     {FIELD(ask_group, highest), FIELD(ask_group, instance), FIELD(ask_group, all), FIELD(ask_group, want),
      FIELD(ask_group, local), FIELD(ask_group, above), FIELD(ask_group, collector), FIELD(ask_group, fan),
      FIELD(ask_group, window), FIELD(ask_group, pool_first), FIELD(ask_group, pool_slots),
      FIELD(ask_group, has_fan), FIELD(ask_group, last_level), FIELD(ask_group, direct),
      FIELD(ask_group, flush), FIELD(ask_group, pad)}},
    {"ask_value_slot",
     sizeof(ask_value_slot),
     {FIELD(ask_value_slot, own), FIELD(ask_value_slot, instance), FIELD(ask_value_slot, seq),
      FIELD(ask_value_slot, bits), FIELD(ask_value_slot, touched), FIELD(ask_value_slot, shape),
      FIELD(ask_value_slot, group), FIELD(ask_value_slot, stream), FIELD(ask_value_slot, blocks),
      FIELD(ask_value_slot, op), FIELD(ask_value_slot, flags), FIELD(ask_value_slot, phase),
      FIELD(ask_value_slot, pad), FIELD(ask_value_slot, tick), FIELD(ask_value_slot, pad2),
      FIELD(ask_value_slot, words)}},
    {"ask_fan_member",
     sizeof(ask_fan_member),
     {FIELD(ask_fan_member, mac), FIELD(ask_fan_member, port_mac), FIELD(ask_fan_member, address),
      FIELD(ask_fan_member, six)}},
    {"ask_ipv6", sizeof(ask_ipv6), {FIELD(ask_ipv6, word)}},
    {"ask_six_header",
     sizeof(ask_six_header),
     {FIELD(ask_six_header, front), FIELD(ask_six_header, payload), FIELD(ask_six_header, protocol),
      FIELD(ask_six_header, hops), FIELD(ask_six_header, source), FIELD(ask_six_header, dest)}},
    {"ask_six",
     sizeof(ask_six),
     {FIELD(ask_six, header), FIELD(ask_six, number), FIELD(ask_six, forward), FIELD(ask_six, at_hand)}},
    {"ask_vlan", sizeof(ask_vlan), {FIELD(ask_vlan, ifindex), FIELD(ask_vlan, id), FIELD(ask_vlan, pad)}},
    {"ask_presence", sizeof(ask_presence), {FIELD(ask_presence, word), FIELD(ask_presence, pad)}},
    {"ask_heats", sizeof(ask_heats), {FIELD(ask_heats, heat)}},
    {"ask_flow_stats",
     sizeof(ask_flow_stats),
     {
#define ASK_PROGRAM_STAT(name, text) FIELD(ask_flow_stats, name),
#define ASK_TAKEN_STAT(name, field, text) FIELD(ask_flow_stats, name),
#define ASK_LEFT_STAT(cause, text) FIELD(ask_flow_stats, tuples_##cause),
#define ASK_BESIDE_STAT(name, text) FIELD(ask_flow_stats, name),
#define ASK_PART_STAT(name, text) FIELD(ask_flow_stats, name),
#include "lib/abi/stats.def"
     }},
    {"ask_meta",
     sizeof(ask_meta),
     {FIELD(ask_meta, abi_version), FIELD(ask_meta, switch_id), FIELD(ask_meta, incarnation),
      FIELD(ask_meta, memory), FIELD(ask_meta, dedupe), FIELD(ask_meta, max_channels),
      FIELD(ask_meta, max_flows), FIELD(ask_meta, max_tasks), FIELD(ask_meta, possible_cpus),
      FIELD(ask_meta, wire_version), FIELD(ask_meta, boot_id)}},
};

// Opened, not loaded.
struct OpenObject {
    switch_bpf* skeleton = switch_bpf::open();
    OpenObject() { REQUIRE(skeleton != nullptr); }
    ~OpenObject() { switch_bpf::destroy(skeleton); }
    OpenObject(const OpenObject&) = delete;
    OpenObject& operator=(const OpenObject&) = delete;
};

// Lines "program memory dedupe insns" of the switch program, by the first three.
std::map<std::string, unsigned> read_budget() {
    const char* source = std::getenv("ASK_SOURCE_DIR");
    REQUIRE_MESSAGE(source != nullptr, "ASK_SOURCE_DIR must name the source tree, as ctest does");
    std::ifstream file(std::string(source) + "/tests/bpf/verifier_budget.txt");
    REQUIRE(file.good());
    std::map<std::string, unsigned> budget;
    std::string line;
    while (std::getline(file, line)) {
        std::istringstream words(line);
        std::string program;
        std::string memory;
        std::string dedupe;
        unsigned limit = 0;
        if (line.starts_with('#') || !(words >> program)) {
            continue;
        }
        REQUIRE_MESSAGE((words >> memory >> dedupe >> limit), line);
        if (program != "ask_host") {
            budget[program + " " + memory + "/" + dedupe] = limit;
        }
    }
    return budget;
}

}  // namespace

TEST_CASE("structures have the same layout in the object and in C++") {
    const OpenObject object;
    const btf* types = bpf_object__btf(object.skeleton->obj);
    REQUIRE(types != nullptr);
    for (const Layout& layout : kLayouts) {
        CAPTURE(layout.name);
        const __s32 id = btf__find_by_name_kind(types, layout.name.c_str(), BTF_KIND_STRUCT);
        REQUIRE(id > 0);
        const btf_type* type = btf__type_by_id(types, static_cast<__u32>(id));
        CHECK(type->size == layout.size);
        REQUIRE(btf_vlen(type) == layout.fields.size());
        for (std::size_t i = 0; i < layout.fields.size(); ++i) {
            const btf_member& member = btf_members(type)[i];
            CHECK(std::string(btf__name_by_offset(types, member.name_off)) == layout.fields[i].name);
            CHECK(btf_member_bit_offset(type, static_cast<__u32>(i)) == 8 * layout.fields[i].offset);
        }
    }
}

TEST_CASE("maps have keys and values of the C++ types, and the counters of the list") {
    struct Sizes {
        const char* name;
        std::size_t key;
        std::size_t value;
    };
    const Sizes maps[] = {{"meta", 4, sizeof(ask_meta)},
                          {"counters", 4, 8},
                          {"bridges", 4, 4},
                          {"port_kinds", 4, 4},
                          {"vlan_in", sizeof(ask_vlan), 4},
                          {"vlan_out", 4, sizeof(ask_vlan)},
                          {"hosts", sizeof(ask_ipv6), 4},
                          {"six_at_hand", 4, sizeof(ask_six)},
                          {"channel_ids", sizeof(ask_channel_id), 4},
                          {"channels", 4, sizeof(ask_channel)},
                          {"dedupe", 4, sizeof(ask_dedupe_state)},
                          {"pkt_state", 4, sizeof(ask_pkt_state)},
                          {"flow_ids", sizeof(ask_flow_id), 4},
                          {"flows", 4, sizeof(ask_flow)},
                          {"flow_stats", 4, sizeof(ask_flow_stats)},
                          {"tasks", 4, sizeof(ask_task)},
                          {"groups", 4, sizeof(ask_group)},
                          {"value_slots", 4, sizeof(ask_value_slot)},
                          {"fan_members", 4, sizeof(ask_fan_member)}};
    const OpenObject object;
    for (const Sizes& sizes : maps) {
        CAPTURE(std::string(sizes.name));
        const bpf_map* map = bpf_object__find_map_by_name(object.skeleton->obj, sizes.name);
        REQUIRE(map != nullptr);
        CHECK(bpf_map__key_size(map) == sizes.key);
        CHECK(bpf_map__value_size(map) == sizes.value);
    }
    CHECK(bpf_map__max_entries(object.skeleton->maps.counters) == ASK_CNT_COUNT);
}

TEST_CASE("one object, the dispatcher and the programs for DATA") {
    const OpenObject object;
    std::set<std::string> programs;
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, object.skeleton->obj) {
        programs.insert(bpf_program__name(program));
        CHECK(bpf_program__type(program) == BPF_PROG_TYPE_XDP);
    }
    CHECK((programs == std::set<std::string>{"ask_back", "ask_fan_copy", "ask_six", "ask_switch",
                                             "ask_tagged", "ask_tuples", "ask_values", "ask_var"}));
}

TEST_CASE("the verifier's work stays within its budget, for every choice at load") {
    const std::map<std::string, unsigned> budget = read_budget();
    CHECK(budget.size() == 7 * std::size(kWays));
    for (const Way& way : kWays) {
        for (const char* program :
             {"ask_switch", "ask_tagged", "ask_six", "ask_tuples", "ask_back", "ask_var", "ask_values"}) {
            const int fd = Switch::get(way).program(program);
            bpf_prog_info info{};
            __u32 size = sizeof(info);
            REQUIRE(bpf_obj_get_info_by_fd(fd, &info, &size) == 0);
            const std::string name = program + (" " + to_string(way));
            REQUIRE_MESSAGE(budget.contains(name), name, " has no line in tests/bpf/verifier_budget.txt");
            MESSAGE(name, ": ", info.verified_insns, " verified instructions, budget ", budget.at(name));
            CHECK(info.verified_insns > 0);
            CHECK(info.verified_insns <= budget.at(name));
        }
    }
}
