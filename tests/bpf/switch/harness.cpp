// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/switch/harness.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <doctest/doctest.h>

#include "lib/abi/hash.h"
#include "lib/tuples/fetch_codec.h"
#include "loader/counter_names.h"
#include "loader/data_program.h"
#include "tests/bpf/switch/family.h"
#include "tests/bpf/switch/opened.h"
#include "tests/support/netns.h"

namespace ask::test {

namespace {

template <typename T>
T swap_be(T value) {
    T out = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
        out = static_cast<T>(out << 8 | (value >> (8 * i) & 0xff));
    }
    return out;
}

// The same with IPv6, where a link carries no less than 1280 bytes. Nobody asks who else has an address.
void add_six_network() {
    run("sysctl -qw net.ipv6.conf.all.forwarding=1");
    for (const std::string name : {"in", "out", "side"}) {
        const std::string net = name == "in" ? "1" : name == "out" ? "2" : "3";
        run("sysctl -qw net.ipv6.conf." + name + ".addr_gen_mode=1 net.ipv6.conf." + name + ".accept_dad=0");
        run("sysctl -qw net.ipv6.conf." + name + ".disable_ipv6=0 net.ipv6.conf." + name + ".forwarding=1");
        run("ip address add 2001:2:0:" + net + "::1/64 dev " + name + " nodad");
        run("ip neighbour add 2001:2:0:" + net + "::2 lladdr 02:00:00:00:0" + net + ":02 nud permanent dev " +
            name);
    }
    run("ip route add 2001:2:0:8::/64 via 2001:2:0:2::2 mtu 1280");
}

Ports make_network() {
    need_root();
    enter_fresh_netns();
    const auto port = [](const std::string& name, const std::string& net, const std::string& mac) {
        run("ip link add " + name + " mtu 3506 type veth peer name " + name + "_host mtu 3506");
        run("sysctl -qw net.ipv6.conf." + name + ".disable_ipv6=1 net.ipv6.conf." + name +
            "_host.disable_ipv6=1");
        run("ip link set " + name + " address " + mac + " up && ip link set " + name + "_host up");
        run("ip address add 198.18." + net + ".1/24 dev " + name);
        run("ip neighbour add 198.18." + net + ".2 lladdr 02:00:00:00:0" + net + ":02 nud permanent dev " +
            name);
        return ::if_nametoindex(name.c_str());
    };
    Ports ports;
    ports.in = port("in", "1", "02:00:00:00:00:01");
    ports.out = port("out", "2", "02:00:00:00:00:02");
    ports.side = port("side", "3", "02:00:00:00:00:03");
    run("ip route add 198.18.8.0/24 via 198.18.2.2 mtu lock 600");
    run("sysctl -qw net.ipv4.ip_forward=1");
    if (is_six_run()) {
        add_six_network();
    }
    REQUIRE(ports.in != 0);
    REQUIRE(ports.out != 0);
    REQUIRE(ports.side != 0);
    return ports;
}

// Refused before the dedupe, or not this switch's business.
bool leaves_state_alone(std::uint32_t counter) {
    return counter <= ASK_CNT_transit_ack || counter == ASK_CNT_drop_stale || counter == ASK_CNT_drop_rate ||
           (counter >= ASK_CNT_bad_version && counter <= ASK_CNT_bad_check);
}

template <typename T>
void set_entry(int map, std::uint32_t index, const T& value) {
    REQUIRE(bpf_map_update_elem(map, &index, &value, BPF_ANY) == 0);
}

template <typename T>
T entry(int map, std::uint32_t index) {
    T value{};
    REQUIRE(bpf_map_lookup_elem(map, &index, &value) == 0);
    return value;
}

// Every value of an array, one after the other, in one system call.
Bytes read_array(int map, std::uint32_t entries, std::size_t value_size) {
    Bytes values(entries * value_size);
    std::vector<std::uint32_t> keys(entries);
    std::uint32_t next = 0;
    std::uint32_t count = entries;
    const int error = bpf_map_lookup_batch(map, nullptr, &next, keys.data(), values.data(), &count, nullptr);
    REQUIRE((error == 0 || error == -ENOENT));  // ENOENT: and there are no more
    REQUIRE(count == entries);
    return values;
}

void clear_hash(int map, std::size_t key_size) {
    Bytes key(key_size);
    while (bpf_map_get_next_key(map, nullptr, key.data()) == 0) {
        REQUIRE(bpf_map_delete_elem(map, key.data()) == 0);
    }
}

template <typename T>
void clear_array(int map, std::uint32_t entries) {
    const T blank{};
    for (std::uint32_t i = 0; i < entries; ++i) {
        set_entry(map, i, blank);
    }
}

class MappedRegion {
 public:
    MappedRegion(int fd, std::size_t words) : bytes_(words * sizeof(ask_aggregator)) {
        address_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        REQUIRE(address_ != MAP_FAILED);
    }
    ~MappedRegion() { ::munmap(address_, bytes_); }
    MappedRegion(const MappedRegion&) = delete;
    MappedRegion& operator=(const MappedRegion&) = delete;
    [[nodiscard]] void* data() const { return address_; }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
    std::size_t bytes_;
    void* address_ = nullptr;
};

std::string show(const ask_aggregator& word) {
    return hex({reinterpret_cast<const std::uint8_t*>(&word.kpart), ASK_KPART_BYTES}) + ":" +
           std::to_string(word.vpart);
}

std::string first_difference(const Bytes& have, const Bytes& want) {
    if (have.size() != want.size()) {
        return std::to_string(have.size()) + " bytes, not " + std::to_string(want.size());
    }
    for (std::size_t i = 0; i < have.size(); ++i) {
        if (have[i] != want[i]) {
            return "byte " + std::to_string(i) + " is " + hex({&have[i], 1}) + ", not " + hex({&want[i], 1});
        }
    }
    return "none";
}

}  // namespace

const Ports& network() {
    static const Ports ports = make_network();
    return ports;
}

std::string counter_name(std::uint32_t counter) {
    return std::string(counter < kSwitchCounters.size() ? kSwitchCounters[counter].name : "none");
}

std::vector<unsigned> allowed_cpus() {
    static const std::vector<unsigned> cpus = [] {
        cpu_set_t set;
        REQUIRE(::sched_getaffinity(0, sizeof(set), &set) == 0);
        std::vector<unsigned> out;
        for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
            if (CPU_ISSET(cpu, &set)) {
                out.push_back(cpu);
            }
        }
        return out;
    }();
    return cpus;
}

void run_on(unsigned cpu) {
    allowed_cpus();  // read before it shrinks
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    REQUIRE(::sched_setaffinity(0, sizeof(set), &set) == 0);
}

unsigned possible_cpu_count() {
    const int count = libbpf_num_possible_cpus();
    REQUIRE(count > 0);
    return static_cast<unsigned>(count);
}

Switch::Switch(Way way, TableSizes sizes)
    : way_(way), sizes_(sizes), channels_(sizes.channels), tasks_(sizes.tasks), flows_(sizes.flows) {
    const Ports& ports = network();
    run_on(allowed_cpus().front());
    Opened opened = open_object(way);
    REQUIRE(opened.object != nullptr);
    object_ = opened.object;
    skeleton_ = std::move(opened.skeleton);
    const std::pair<const char*, std::uint32_t> entries[] = {
        {"channel_ids", sizes.channels},  {"channels", sizes.channels}, {"dedupe", sizes.dedupe},
        {"pkt_state", sizes.pkt_state},   {"flow_ids", sizes.flows},    {"flows", sizes.flows},
        {"flow_stats", sizes.flow_stats}, {"tasks", sizes.tasks},       {"regions", sizes.regions},
        {"heats", sizes.tasks},           {"carried", sizes.flows},     {"backs", sizes.tasks},
        {"back8", sizes.tasks},           {"back16", sizes.tasks},      {"back32", sizes.tasks},
        {"back64", sizes.tasks},          {"groups", sizes.tasks},      {"value_slots", sizes.value_slots}};
    for (const auto& [name, count] : entries) {
        REQUIRE(bpf_map__set_max_entries(bpf_object__find_map_by_name(object_, name), count) == 0);
    }
    REQUIRE_MESSAGE(bpf_object__load(object_) == 0, "load ", to_string(way));
    program_ = program("ask_switch");
    for (const std::uint32_t port : {ports.in, ports.out}) {
        set_entry(map("ports"), port, device(port));
    }
    add_hosts();
}

// All that tests have packets of.
void Switch::add_hosts() const {
    if (!is_six_run()) {
        return;
    }
    for (const std::uint32_t host : {kSender, kReceiver, kBehindSide, kNarrow, kNowhere}) {
        const ask_ipv6 address = program_form(six_address(host));
        const std::uint32_t number = swap_be(host_number(host));
        REQUIRE(bpf_map_update_elem(map("hosts"), &address, &number, BPF_ANY) == 0);
    }
}

// With the program for copies, where the object has one and room for it.
bpf_devmap_val Switch::device(std::uint32_t port) const {
    const bpf_program* copy = bpf_object__find_program_by_name(object_, "ask_fan_copy");
    bpf_devmap_val value{};
    value.ifindex = port;
    value.bpf_prog.fd = copy == nullptr ? -1 : bpf_program__fd(copy);
    return value;
}

Switch& Switch::get(Way way) {
    static std::map<std::pair<std::uint32_t, std::uint32_t>, std::unique_ptr<Switch>> loaded;
    auto& one = loaded[{way.memory, way.dedupe}];
    if (!one) {
        one = std::make_unique<Switch>(way);
    }
    one->reset();
    return *one;
}

int Switch::map(const char* name) const {
    const bpf_map* found = bpf_object__find_map_by_name(object_, name);
    REQUIRE_MESSAGE(found != nullptr, name);
    return bpf_map__fd(found);
}

int Switch::program(const char* name) const {
    const bpf_program* found = bpf_object__find_program_by_name(object_, name);
    REQUIRE_MESSAGE(found != nullptr, name);
    return bpf_program__fd(found);
}

void Switch::reset() {
    run_on(allowed_cpus().front());
    clear_hash(map("channel_ids"), sizeof(ask_channel_id));
    clear_hash(map("flow_ids"), sizeof(ask_flow_id));
    clear_array<ask_channel>(map("channels"), sizes_.channels);
    clear_array<ask_flow>(map("flows"), sizes_.flows);
    clear_array<ask_task>(map("tasks"), sizes_.tasks);
    clear_array<ask_dedupe_state>(map("dedupe"), sizes_.dedupe);
    clear_array<ask_pkt_state>(map("pkt_state"), sizes_.pkt_state);
    clear_array<ask_group>(map("groups"), sizes_.tasks);
    clear_array<ask_value_slot>(map("value_slots"), sizes_.value_slots);
    const std::vector<ask_flow_stats> blank(possible_cpu_count());
    for (std::uint32_t i = 0; i < sizes_.flow_stats; ++i) {
        REQUIRE(bpf_map_update_elem(map("flow_stats"), &i, blank.data(), BPF_ANY) == 0);
    }
    for (std::uint32_t i = 0; i < sizes_.tasks; ++i) {
        if (tasks_[i].region && !tasks_[i].spec.sized) {
            REQUIRE(bpf_map_delete_elem(map("regions"), &i) == 0);
        }
        if (tasks_[i].heats) {
            REQUIRE(bpf_map_delete_elem(map("heats"), &i) == 0);
        }
        for (unsigned group = 0; group < ASK_BACK_GROUPS; ++group) {
            if (tasks_[i].back[group]) {
                REQUIRE(bpf_map_delete_elem(map(kBackNames[group]), &i) == 0);
            }
        }
        tasks_[i] = RegisteredTask{};
    }
    for (std::uint32_t i = 0; i < sizes_.flows; ++i) {
        if (flows_[i].carried) {
            REQUIRE(bpf_map_delete_elem(map("carried"), &i) == 0);
        }
        flows_[i] = RegisteredFlow{};
    }
    std::fill(channels_.begin(), channels_.end(), ChannelSpec{});
}

void Switch::add_channel(std::uint32_t index, const ChannelSpec& spec) {
    channels_[index] = spec;
    channels_[index].host = host_number(spec.host);
    if (channels_[index].ifindex == 0) {
        channels_[index].ifindex = network().in;
    }
    ask_channel value{.host = swap_be(channels_[index].host),
                      .port = swap_be(spec.port),
                      .pad = 0,
                      .incarnation = swap_be(spec.incarnation),
                      .ports = {{channels_[index].ifindex}}};
    REQUIRE(spec.more_ports.size() < std::size(value.ports.ifindex));
    std::ranges::copy(spec.more_ports, std::begin(value.ports.ifindex) + 1);
    set_entry(map("channels"), index, value);
    const ask_channel_id id{.host = value.host, .port = value.port, .pad = 0};
    REQUIRE(bpf_map_update_elem(map("channel_ids"), &id, &index, BPF_ANY) == 0);
}

std::uint32_t Switch::sets() const {
    return way_.memory == ASK_MEMORY_SHARED ? 1 : possible_cpu_count();
}

std::uint32_t Switch::running_set() const {
    return way_.memory == ASK_MEMORY_SHARED ? 0 : static_cast<std::uint32_t>(::sched_getcpu());
}

void Switch::set_task(std::uint32_t index, const TaskSpec& spec) const {
    ask_task value{};
    value.instance = swap_be(spec.instance);
    value.copy = spec.copy;
    value.copies = spec.copies;
    value.aggregators = spec.aggregators;
    value.sets = sets();
    value.short_slots = spec.short_slots;
    value.groups = spec.groups;
    value.m = spec.m;
    value.rows = spec.rows;
    value.op = spec.op;
    value.policy = spec.policy;
    value.program = static_cast<__u8>(spec.sized ? index + 1 : 0);
    value.service = spec.service;
    value.receiver = swap_be(host_number(spec.receiver));
    value.bucket = spec.bucket;
    value.back = spec.back == BackBuckets{} ? 0 : 1;
    set_entry(map("tasks"), index, value);
}

void Switch::set_copy(std::uint32_t task, std::uint32_t copy) {
    tasks_[task].spec.copy = copy;
    set_task(task, tasks_[task].spec);
}

void Switch::add_task(std::uint32_t index, const TaskSpec& spec) {
    tasks_[index].spec = spec;
    set_task(index, spec);
    add_back(index, spec.back);
    if (spec.copies == 0) {
        return;
    }
    const std::uint32_t words = sets() * spec.aas() * spec.aggregators;
    tasks_[index].region = create_inner("ask_aggregator", sizeof(ask_aggregator), spec.copies * words,
                                        spec.sized ? BPF_F_MMAPABLE : BPF_F_MMAPABLE | BPF_F_INNER_MAP);
    if (spec.sized) {
        tasks_[index].regions = load_sized(index);
    }
    set_entry(spec.sized ? tasks_[index].regions.get() : map("regions"), index, tasks_[index].region.get());
    if (spec.policy == ASK_POLICY_REPLACE) {
        tasks_[index].heats = create_inner("ask_heats", sizeof(ask_heats), (words + 7) / 8, BPF_F_INNER_MAP);
        set_entry(map("heats"), index, tasks_[index].heats.get());
    }
}

void Switch::add_back(std::uint32_t index, const BackBuckets& buckets) {
    ask_back back{.seed = kBackSeed, .buckets = {}};
    std::ranges::copy(buckets, std::begin(back.buckets));
    set_entry(map("backs"), index, back);
    for (unsigned group = 0; group < buckets.size(); ++group) {
        if (buckets[group] != 0) {
            tasks_[index].back[group] =
                create_inner((std::string("ask_") + kBackNames[group]).c_str(), kBackBucketBytes[group],
                             buckets[group], BPF_F_MMAPABLE | BPF_F_INNER_MAP);
            set_entry(map(kBackNames[group]), index, tasks_[index].back[group].get());
        }
    }
}

// The program for regions of the size of task `index`'s, put in as the loader does; returns its map of them.
UniqueFd Switch::load_sized(std::uint32_t index) {
    ask_meta meta{};
    meta.memory = way_.memory;
    meta.dedupe = way_.dedupe;
    meta.switch_id = kMarkSwitch;
    meta.incarnation = kMarkIncarnation;
    meta.max_tasks = sizes_.tasks;
    auto loaded = load_data_program(meta, tasks_[index].region.get(), [this](const std::string& name) {
        return Result<UniqueFd>(UniqueFd(::fcntl(map(name.c_str()), F_DUPFD_CLOEXEC, 0)));
    });
    REQUIRE_MESSAGE(loaded.ok(), loaded.error().text());
    set_entry(map("data_programs"), index + 1, loaded->program.get());
    return std::move(loaded->regions);
}

// Linux 6.1 takes as an inner map only one that has BTF, as the one in the object has.
UniqueFd Switch::create_inner(const char* value_type, std::size_t value_size, std::uint32_t entries,
                              std::uint32_t flags) const {
    const bpf_object* object = object_;
    const btf* types = bpf_object__btf(object);
    LIBBPF_OPTS(bpf_map_create_opts, options, .btf_fd = static_cast<__u32>(bpf_object__btf_fd(object)),
                .btf_key_type_id = static_cast<__u32>(btf__find_by_name(types, "__u32")),
                .btf_value_type_id = static_cast<__u32>(btf__find_by_name(types, value_type)),
                .map_flags = flags);
    UniqueFd map(bpf_map_create(BPF_MAP_TYPE_ARRAY, "inner", sizeof(std::uint32_t),
                                static_cast<__u32>(value_size), entries, &options));
    REQUIRE(map);
    return map;
}

void Switch::add_flow(std::uint32_t flow, std::uint32_t channel, std::uint32_t task) {
    const Secret secret = flow_secret(flow);
    flows_[flow] = {.channel = channel, .task = task, .secret = secret, .carried = {}};
    if (const TaskSpec& spec = tasks_[task].spec; spec.policy == ASK_POLICY_REPLACE) {
        flows_[flow].carried =
            create_inner("__u64", sizeof(__u64), ask_carried_words(spec.rows, spec.aas()), BPF_F_INNER_MAP);
        set_entry(map("carried"), flow, flows_[flow].carried.get());
    }
    ask_flow value{};
    value.channel = channel;
    value.task = task;
    write_flow(flow, value, channels_[channel].host, channels_[channel].port);
}

// What is left to fill in is the same for all.
void Switch::write_flow(std::uint32_t flow, ask_flow value, std::uint32_t host, std::uint16_t port) {
    value.task_instance = swap_be(tasks_[value.task].spec.instance);
    const Secret& secret = flows_[flow].secret;
    const __u64 words[2] = {secret[0], secret[1]};
    ask_check_expand(words, &value.key);
    set_entry(map("flows"), flow, value);
    const ask_flow_id id{.task = value.task_instance, .host = swap_be(host), .port = swap_be(port), .pad = 0};
    REQUIRE(bpf_map_update_elem(map("flow_ids"), &id, &flow, BPF_ANY) == 0);
}

void Switch::add_group(std::uint32_t index, const TaskSpec& spec, const ask_group& group,
                       std::uint32_t results) {
    add_task(index, spec);
    ask_group value = group;
    value.instance = swap_be(spec.instance);
    value.collector = swap_be(host_number(spec.receiver));
    set_group(index, value);
    flows_[results] = {.channel = 0, .task = index, .secret = group_secret(index), .carried = {}};
    ask_flow flow{};
    flow.channel = ASK_NO_CHANNEL;
    flow.task = index;
    write_flow(results, flow, 0, 0);
}

void Switch::add_member(std::uint32_t flow, std::uint32_t channel, std::uint32_t task, std::uint32_t bit) {
    flows_[flow] = {.channel = channel, .task = task, .secret = group_secret(task), .carried = {}};
    ask_flow value{};
    value.channel = channel;
    value.task = task;
    value.member = bit;
    write_flow(flow, value, channels_[channel].host, channels_[channel].port);
}

ask_group Switch::group(std::uint32_t index) const {
    return entry<ask_group>(map("groups"), index);
}

void Switch::set_group(std::uint32_t index, const ask_group& group) const {
    set_entry(map("groups"), index, group);
}

ask_value_slot Switch::value_slot(std::uint32_t index) const {
    return entry<ask_value_slot>(map("value_slots"), index);
}

void Switch::set_value_slot(std::uint32_t index, const ask_value_slot& slot) const {
    set_entry(map("value_slots"), index, slot);
}

void Switch::add_default(const TaskSpec& spec, const ChannelSpec& channel) {
    add_channel(0, channel);
    add_task(0, spec);
    add_flow(0, 0, 0);
}

Packet Switch::packet(std::uint32_t flow) const {
    const RegisteredFlow& from = flows_[flow];
    const ChannelSpec& channel = channels_[from.channel];
    const TaskSpec& spec = tasks_[from.task].spec;
    Packet packet;
    packet.dest_mac = kInMac;
    packet.source_mac = kSenderMac;
    packet.source = channel.host;
    packet.dest = host_number(spec.receiver);
    packet.source_port = channel.port;
    packet.short_slots = spec.short_slots;
    packet.groups = spec.groups;
    packet.m = spec.m;
    packet.op = spec.op;
    packet.task = spec.instance;
    packet.host = channel.host;
    packet.port = channel.port;
    packet.incarnation = channel.incarnation;
    packet.secret = from.secret;
    return packet;
}

Switch::Outcome Switch::run(const Bytes& frame, std::uint32_t ifindex) const {
    if (!is_six_run()) {
        return run_as_is(frame, ifindex);
    }
    Outcome outcome = run_as_is(in_six(frame), ifindex);
    outcome.frame = in_four(std::move(outcome.frame));
    return outcome;
}

Switch::Outcome Switch::run_as_is(const Bytes& frame, std::uint32_t ifindex) const {
    xdp_md context{};
    context.data_end = static_cast<__u32>(frame.size());
    context.ingress_ifindex = ifindex == 0 ? network().in : ifindex;
    Outcome outcome;
    outcome.frame.resize(16384);
    LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame.data(), .data_out = outcome.frame.data(),
                .data_size_in = static_cast<__u32>(frame.size()),
                .data_size_out = static_cast<__u32>(outcome.frame.size()), .ctx_in = &context,
                .ctx_size_in = sizeof(context), .repeat = 1);
    INFO("frame: ", scapy(frame));
    REQUIRE(bpf_prog_test_run_opts(program_, &options) == 0);
    outcome.action = options.retval;
    outcome.frame.resize(options.data_size_out);
    return outcome;
}

void Switch::expect(const std::string& description, const Bytes& frame, std::uint32_t action,
                    ask_counter counter, const Bytes& out, std::uint32_t ifindex) {
    if (!is_six_run()) {
        return expect_as_is(description, frame, action, counter, out, ifindex);
    }
    const bool leaves = action == XDP_TX || action == XDP_PASS || action == XDP_REDIRECT;
    expect_as_is(description, in_six(frame), action, counter, leaves ? in_six(out) : in_one_form(out),
                 ifindex);
}

void Switch::expect_as_is(const std::string& description, const Bytes& frame, std::uint32_t action,
                          ask_counter counter, const Bytes& out, std::uint32_t ifindex) {
    INFO(to_string(way_), ": ", description, "\npacket: ", hex(frame), "\n", scapy(frame));
    const std::vector<std::uint64_t> counted = counters();
    const State before = leaves_state_alone(counter) ? state() : State{};
    const Outcome outcome = run_as_is(frame, ifindex);
    CHECK(outcome.action == action);
    INFO("came out: ", hex(outcome.frame), "\nexpected: ", hex(out), "\n",
         "first difference: ", first_difference(outcome.frame, out));
    CHECK((outcome.frame == out));
    const std::vector<std::uint64_t> after = counters();
    for (std::uint32_t i = 0; i < after.size(); ++i) {
        const std::uint64_t grown = after[i] - counted[i];
        CHECK_MESSAGE(grown == (i == counter ? 1 : 0), counter_name(i), " grew by ", grown, ", expected was ",
                      counter_name(counter));
    }
    if (leaves_state_alone(counter)) {
        CHECK((state() == before));
    }
}

void Switch::expect(const std::string& description, const Packet& packet, std::uint32_t action,
                    ask_counter counter) {
    const Bytes frame = packet.frame();
    expect(description, frame, action, counter, frame);
}

void Switch::expect_drop(const std::string& description, const Packet& packet, ask_counter counter,
                         std::uint32_t ifindex) {
    const Bytes frame = packet.frame();
    expect(description, frame, XDP_DROP, counter, frame, ifindex);
}

void Switch::expect_ack(const std::string& description, const Packet& packet, ask_counter counter,
                        std::uint32_t ifindex) {
    const Bytes out = packet.ack(kMarkSwitch, kMarkIncarnation).frame();
    REQUIRE(out.size() == 90);
    expect(description, packet.frame(), XDP_TX, counter, out, ifindex);
}

void Switch::expect_left(const std::string& description, const Packet& packet, ask_counter counter,
                         const std::vector<std::uint32_t>& bitmaps) {
    const Packet out = packet.left(kMarkSwitch, kMarkIncarnation, bitmaps).routed(kOutMac, kReceiverMac);
    expect(description, packet.frame(), XDP_REDIRECT, counter, out.frame());
}

void Switch::expect_routed(const std::string& description, const Packet& packet, ask_counter counter) {
    expect(description, packet.frame(), XDP_REDIRECT, counter, packet.routed(kOutMac, kReceiverMac).frame());
}

std::size_t Switch::place(std::uint32_t task, unsigned slot, const std::string& key,
                          std::uint32_t copy) const {
    const TaskSpec& spec = tasks_[task].spec;
    const unsigned words = slot < spec.short_slots ? 1 : spec.m;
    const unsigned aa =
        slot < spec.short_slots ? slot : spec.short_slots + (slot - spec.short_slots) * unsigned{spec.m};
    const Bytes kparts = encode_key(key, words);
    std::uint32_t hash = ASK_HASH_SEED;
    for (unsigned i = 0; i < words; ++i) {
        std::uint32_t kpart = 0;
        std::memcpy(&kpart, kparts.data() + std::size_t{4} * i, sizeof(kpart));
        hash = ask_hash_add(hash, kpart);
    }
    const std::size_t first = std::size_t{running_set()} * spec.copies + copy;
    return (first * spec.aas() + aa) * spec.aggregators + ask_hash_index(hash, spec.aggregators);
}

std::vector<ask_aggregator> Switch::region(std::uint32_t task) const {
    const TaskSpec& spec = tasks_[task].spec;
    std::vector<ask_aggregator> words(std::size_t{sets()} * spec.copies * spec.aas() * spec.aggregators);
    if (!words.empty()) {
        const MappedRegion mapped(tasks_[task].region.get(), words.size());
        std::memcpy(words.data(), mapped.data(), mapped.bytes());
    }
    return words;
}

void Switch::set_region(std::uint32_t task, const std::vector<ask_aggregator>& words) const {
    const MappedRegion mapped(tasks_[task].region.get(), words.size());
    std::memcpy(mapped.data(), words.data(), mapped.bytes());
}

void Switch::expect_region(std::uint32_t task, const std::vector<Held>& held, std::uint32_t copy) const {
    const TaskSpec& spec = tasks_[task].spec;
    const std::vector<ask_aggregator> have = region(task);
    std::vector<ask_aggregator> want(have.size());
    for (const Held& tuple : held) {
        const unsigned words = tuple.slot < spec.short_slots ? 1 : spec.m;
        const Bytes kparts = encode_key(tuple.key, words);
        const std::size_t first = place(task, tuple.slot, tuple.key, copy);
        for (unsigned i = 0; i < words; ++i) {
            ask_aggregator& word = want[first + std::size_t{i} * spec.aggregators];
            std::memcpy(&word.kpart, kparts.data() + std::size_t{4} * i, ASK_KPART_BYTES);
            word.vpart = i + 1 < words ? 0 : tuple.value;
        }
    }
    for (std::size_t i = 0; i < have.size(); ++i) {
        if (std::memcmp(&have[i], &want[i], sizeof(have[i])) != 0) {
            FAIL_CHECK("AA ", (i / spec.aggregators) % spec.aas(), " [", i % spec.aggregators, "] holds ",
                       show(have[i]), ", not ", show(want[i]));
        }
    }
    CHECK(have.size() == want.size());
}

std::vector<std::uint8_t> Switch::heats(std::uint32_t task) const {
    const TaskSpec& spec = tasks_[task].spec;
    const std::uint32_t all = sets() * spec.aas() * spec.aggregators;
    std::vector<std::uint8_t> out = read_array(tasks_[task].heats.get(), (all + 7) / 8, sizeof(ask_heats));
    out.resize(all);
    return out;
}

unsigned Switch::heat(std::uint32_t task, unsigned slot, const std::string& key) const {
    const TaskSpec& spec = tasks_[task].spec;
    const std::size_t copies = std::size_t{running_set()} * (spec.copies - 1) * spec.aas() * spec.aggregators;
    return heats(task)[place(task, slot, key) - copies];
}

std::vector<std::uint64_t> Switch::carried(std::uint32_t flow) const {
    const TaskSpec& spec = tasks_[flows_[flow].task].spec;
    std::vector<std::uint64_t> out(ask_carried_words(spec.rows, spec.aas()));
    const Bytes bytes =
        read_array(flows_[flow].carried.get(), static_cast<std::uint32_t>(out.size()), sizeof(out[0]));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
}

void Switch::set_carried(std::uint32_t flow, std::uint32_t index, std::uint64_t word) const {
    set_entry(flows_[flow].carried.get(), index, word);
}

std::vector<std::pair<std::string, std::int64_t>> Switch::back(std::uint32_t task) const {
    std::vector<std::pair<std::string, std::int64_t>> all;
    for (unsigned group = 0; group < ASK_BACK_GROUPS; ++group) {
        if (!tasks_[task].back[group]) {
            continue;
        }
        const Bytes table = read_array(tasks_[task].back[group].get(), tasks_[task].spec.back[group],
                                       kBackBucketBytes[group]);
        BackWalker walker(std::as_bytes(std::span(table)), group);
        std::string entries;
        const auto filled = walker.fill(entries, std::string::npos);
        REQUIRE_MESSAGE(filled.ok(), filled.error().text());
        EntryReader reader(entries);
        while (!reader.done()) {
            const auto entry = reader.next();
            REQUIRE(entry.ok());
            all.emplace_back(entry->key, entry->value);
        }
    }
    std::ranges::sort(all);
    return all;
}

void Switch::read_bucket(std::uint32_t task, unsigned group, std::uint32_t index, void* bucket) const {
    REQUIRE(bpf_map_lookup_elem(tasks_[task].back[group].get(), &index, bucket) == 0);
}

void Switch::set_bucket(std::uint32_t task, unsigned group, std::uint32_t index, const void* bucket) const {
    REQUIRE(bpf_map_update_elem(tasks_[task].back[group].get(), &index, bucket, BPF_ANY) == 0);
}

Bytes Switch::read_all(const char* name, std::uint32_t entries, std::size_t size) const {
    return read_array(map(name), entries, size);
}

State Switch::state() const {
    State state;
    state.dedupe = read_all("dedupe", sizes_.dedupe, sizeof(ask_dedupe_state));
    state.pkt_state = read_all("pkt_state", sizes_.pkt_state, sizeof(ask_pkt_state));
    state.flow_stats =
        read_all("flow_stats", sizes_.flow_stats, sizeof(ask_flow_stats) * possible_cpu_count());
    state.groups = read_all("groups", sizes_.tasks, sizeof(ask_group));
    state.value_slots = read_all("value_slots", sizes_.value_slots, sizeof(ask_value_slot));
    for (std::uint32_t i = 0; i < tasks_.size(); ++i) {
        if (tasks_[i].region) {
            const std::vector<ask_aggregator> words = region(i);
            const auto* bytes = reinterpret_cast<const std::uint8_t*>(words.data());
            state.regions.insert(state.regions.end(), bytes, bytes + words.size() * sizeof(ask_aggregator));
        }
        if (tasks_[i].heats) {
            const std::vector<std::uint8_t> all = heats(i);
            state.heats.insert(state.heats.end(), all.begin(), all.end());
        }
        const auto held = back(i);
        state.back.insert(state.back.end(), held.begin(), held.end());
    }
    for (std::uint32_t i = 0; i < flows_.size(); ++i) {
        if (flows_[i].carried) {
            const std::vector<std::uint64_t> words = carried(i);
            const auto* bytes = reinterpret_cast<const std::uint8_t*>(words.data());
            state.carried.insert(state.carried.end(), bytes, bytes + words.size() * sizeof(words[0]));
        }
    }
    return state;
}

std::vector<std::uint64_t> Switch::counters() const {
    // More than ASK_CNT_COUNT with a service that isn't shipped.
    const std::uint32_t count = bpf_map__max_entries(bpf_object__find_map_by_name(object_, "counters"));
    std::vector<std::uint64_t> out(count);
    const std::size_t cpus = possible_cpu_count();
    const Bytes bytes = read_array(map("counters"), count, cpus * sizeof(std::uint64_t));
    for (std::size_t i = 0; i < count * cpus; ++i) {
        std::uint64_t part = 0;
        std::memcpy(&part, bytes.data() + i * sizeof(part), sizeof(part));
        out[i / cpus] += part;
    }
    return out;
}

ask_flow_stats Switch::stats(std::uint32_t flow) const {
    std::vector<ask_flow_stats> parts(possible_cpu_count());
    REQUIRE(bpf_map_lookup_elem(map("flow_stats"), &flow, parts.data()) == 0);
    std::array<std::uint64_t, sizeof(ask_flow_stats) / 8> sum{};
    for (const ask_flow_stats& part : parts) {
        std::array<std::uint64_t, sum.size()> words{};
        std::memcpy(words.data(), &part, sizeof(part));
        for (std::size_t i = 0; i < sum.size(); ++i) {
            sum[i] += words[i];
        }
    }
    ask_flow_stats out{};
    std::memcpy(&out, sum.data(), sizeof(out));
    return out;
}

ask_dedupe_state Switch::dedupe_state(std::uint32_t channel) const {
    return entry<ask_dedupe_state>(map("dedupe"), channel);
}

ask_pkt_state Switch::pkt_state(std::uint32_t channel) const {
    return entry<ask_pkt_state>(map("pkt_state"), channel);
}

void Switch::set_dedupe(std::uint32_t channel, const ask_dedupe_state& state) const {
    set_entry(map("dedupe"), channel, state);
}

void Switch::set_pkt_state(std::uint32_t channel, const ask_pkt_state& state) const {
    set_entry(map("pkt_state"), channel, state);
}

}  // namespace ask::test
