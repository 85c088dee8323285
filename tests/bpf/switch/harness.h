// SPDX-License-Identifier: Apache-2.0
//
// The switch program, loaded once per way of keeping memory and dedupe and fed through BPF_PROG_TEST_RUN,
// with its maps written and read by hand. Every packet is checked in full: action, output byte by byte, and
// that exactly one counter grew by one. The process lives in a network namespace of its own with three ports:
//   in    198.18.1.1/24, behind it the sender 198.18.1.2
//   out   198.18.2.1/24, behind it the receiver 198.18.2.2
//   side  198.18.3.1/24, routed to but not one of the switch's ports
#pragma once

#include <linux/bpf.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bpf/libbpf.h>

#include "lib/abi/map_types.h"
#include "lib/abi/values.h"
#include "lib/abi/wire.h"
#include "lib/base/unique_fd.h"
#include "lib/tuples/back.h"
#include "tests/bpf/switch/packet.h"

namespace ask::test {

inline constexpr Mac kInMac{2, 0, 0, 0, 0, 1};
inline constexpr Mac kOutMac{2, 0, 0, 0, 0, 2};
inline constexpr Mac kSideMac{2, 0, 0, 0, 0, 3};
inline constexpr Mac kSenderMac{2, 0, 0, 0, 1, 2};
inline constexpr Mac kReceiverMac{2, 0, 0, 0, 2, 2};
inline constexpr Mac kBehindSideMac{2, 0, 0, 0, 3, 2};
inline constexpr std::uint32_t kSender = 0xC6120102;
inline constexpr std::uint32_t kReceiver = 0xC6120202;
inline constexpr std::uint32_t kBehindSide = 0xC6120302;
inline constexpr std::uint32_t kNarrow = 0xC6120802;  // behind the receiver, at an MTU of 600
inline constexpr std::uint32_t kNowhere = 0xC6130909;

// The switch's mark, as set into rodata.
inline constexpr std::uint16_t kMarkSwitch = 0x0708;
inline constexpr std::uint32_t kMarkIncarnation = 0x0a0b0c0d;

// Interfaces of the namespace, made on first use.
struct Ports {
    std::uint32_t in = 0;
    std::uint32_t out = 0;
    std::uint32_t side = 0;
};
const Ports& network();

struct Way {
    std::uint32_t memory = ASK_MEMORY_PIPELINES;
    std::uint32_t dedupe = ASK_DEDUPE_TAGGED;
};
// All four, for loops.
inline constexpr Way kWays[] = {{ASK_MEMORY_PIPELINES, ASK_DEDUPE_TAGGED},
                                {ASK_MEMORY_PIPELINES, ASK_DEDUPE_COMPACT},
                                {ASK_MEMORY_SHARED, ASK_DEDUPE_TAGGED},
                                {ASK_MEMORY_SHARED, ASK_DEDUPE_COMPACT}};
inline std::string to_string(const Way& way) {
    return std::string(way.memory == ASK_MEMORY_SHARED ? "shared" : "pipelines") + "/" +
           (way.dedupe == ASK_DEDUPE_COMPACT ? "compact" : "tagged");
}

struct ChannelSpec {
    std::uint32_t host = kSender;
    std::uint16_t port = ASK_CHANNEL_PORT_BASE;
    std::uint32_t incarnation = 7;
    std::uint32_t ifindex = 0;                // 0: port `in`
    std::vector<std::uint32_t> more_ports{};  // its packets may come in by these, too
};

struct TaskSpec {
    std::uint64_t instance = 0x0102030405060708;
    std::uint8_t short_slots = 16;
    std::uint8_t groups = 8;
    std::uint8_t m = 2;
    std::uint8_t rows = 4;
    std::uint8_t op = ASK_OP_SUM;
    std::uint32_t aggregators = 64;  // of an AA in one copy
    std::uint32_t copies = 1;        // 0: no region
    std::uint32_t copy = 0;
    std::uint8_t policy = ASK_POLICY_FIRST_COME;
    bool sized = false;  // its DATA is for a program loaded for its region's size
    std::uint8_t service = ASK_SERVICE_TUPLES;
    std::uint32_t receiver = kReceiver;
    std::uint32_t bucket = 0;
    BackBuckets back{};  // of its back level; zeros: it has none

    [[nodiscard]] unsigned aas() const { return short_slots + unsigned{groups} * m; }
};

// Of every task's back level.
inline constexpr std::uint64_t kBackSeed = 0x5eed;

// Of the flow with this index.
inline Secret flow_secret(std::uint32_t flow) {
    return {0x1111111122222222ULL + flow, 0x3333333344444444ULL * (flow + 1)};
}

// Of the flows of a group, which share one.
inline Secret group_secret(std::uint32_t task) {
    return flow_secret(0x100 + task);
}

// One tuple that a copy is expected to hold.
struct Held {
    unsigned slot = 0;
    std::string key;
    std::int32_t value = 0;
};

// What the switch remembers, all of it.
struct State {
    Bytes dedupe;
    Bytes pkt_state;
    Bytes regions;
    Bytes heats;
    Bytes carried;
    std::vector<std::pair<std::string, std::int64_t>> back;
    Bytes flow_stats;
    Bytes groups;
    Bytes value_slots;
    bool operator==(const State&) const = default;
};

// Numbers of table entries; small, so that they can be compared after every packet.
struct TableSizes {
    std::uint32_t channels = 4;
    std::uint32_t dedupe = 4;
    std::uint32_t pkt_state = 4;
    std::uint32_t flows = 8;
    std::uint32_t flow_stats = 8;
    std::uint32_t tasks = 4;
    std::uint32_t regions = 4;
    std::uint32_t value_slots = 16;
};

// What the harness knows of its own entries.
struct RegisteredTask {
    TaskSpec spec;
    UniqueFd region;
    UniqueFd heats;  // of a task that replaces
    std::array<UniqueFd, ASK_BACK_GROUPS> back;
    UniqueFd regions;  // of a sized one: where its program looks the region up
};
struct RegisteredFlow {
    std::uint32_t channel = 0;
    std::uint32_t task = 0;
    Secret secret{};
    UniqueFd carried;  // of a task that replaces
};

class Switch {
 public:
    // Loads the program. Doctest's REQUIRE reports what fails.
    explicit Switch(Way way, TableSizes sizes = {});
    // The one of this way, loaded once per process, blank again at each call.
    static Switch& get(Way way);
    Switch(const Switch&) = delete;
    Switch& operator=(const Switch&) = delete;

    void reset();
    void add_channel(std::uint32_t index, const ChannelSpec& spec = {});
    void add_task(std::uint32_t index, const TaskSpec& spec = {});
    // `flow`, `channel` and `task` are indices.
    void add_flow(std::uint32_t flow, std::uint32_t channel, std::uint32_t task);
    // A task of the values' service, with what `group` says but its instance and collector, which are the
    // task's; and the flow of its RESULTs.
    void add_group(std::uint32_t index, const TaskSpec& spec, const ask_group& group, std::uint32_t results);
    // The flow of a member of it.
    void add_member(std::uint32_t flow, std::uint32_t channel, std::uint32_t task, std::uint32_t bit);
    [[nodiscard]] ask_group group(std::uint32_t index) const;
    void set_group(std::uint32_t index, const ask_group& group) const;
    [[nodiscard]] ask_value_slot value_slot(std::uint32_t index) const;
    void set_value_slot(std::uint32_t index, const ask_value_slot& slot) const;
    // Channel, task and flow of index 0.
    void add_default(const TaskSpec& spec = {}, const ChannelSpec& channel = {});

    // A packet as the flow's sender makes it, without rows.
    [[nodiscard]] Packet packet(std::uint32_t flow = 0) const;

    struct Outcome {
        std::uint32_t action = 0;
        Bytes frame;
    };
    // One run of the program. ifindex 0: port `in`. Where tests run with IPv6 (family.h), so does this, and
    // what comes out is of IPv4 again.
    Outcome run(const Bytes& frame, std::uint32_t ifindex = 0) const;
    Outcome run_as_is(const Bytes& frame, std::uint32_t ifindex = 0) const;

    // Runs the frame and checks all that the file's comment promises; and where the counter says that the
    // packet did not prove itself or was not this switch's, that no state changed.
    void expect(const std::string& description, const Bytes& frame, std::uint32_t action, ask_counter counter,
                const Bytes& out, std::uint32_t ifindex = 0);
    void expect_as_is(const std::string& description, const Bytes& frame, std::uint32_t action,
                      ask_counter counter, const Bytes& out, std::uint32_t ifindex = 0);
    // The frame comes out as it went in.
    void expect(const std::string& description, const Packet& packet, std::uint32_t action,
                ask_counter counter);
    void expect_drop(const std::string& description, const Packet& packet, ask_counter counter,
                     std::uint32_t ifindex = 0);
    // The packet becomes its ACK.
    void expect_ack(const std::string& description, const Packet& packet, ask_counter counter,
                    std::uint32_t ifindex = 0);
    // What is left of the packet goes to the receiver.
    void expect_left(const std::string& description, const Packet& packet, ask_counter counter,
                     const std::vector<std::uint32_t>& bitmaps);
    // The packet goes on to the receiver as it is.
    void expect_routed(const std::string& description, const Packet& packet, ask_counter counter);

    // That the task's region holds exactly these, in the running CPU's set and the given copy.
    void expect_region(std::uint32_t task, const std::vector<Held>& held, std::uint32_t copy = 0) const;
    // The whole region: set by set, copy by copy, AA by AA.
    [[nodiscard]] std::vector<ask_aggregator> region(std::uint32_t task) const;
    // Writes a region by hand.
    void set_region(std::uint32_t task, const std::vector<ask_aggregator>& words) const;
    // Place of a slot's first word in the region of the running CPU; the slot's other words follow AA by AA.
    [[nodiscard]] std::size_t place(std::uint32_t task, unsigned slot, const std::string& key,
                                    std::uint32_t copy = 0) const;

    // Heats of a task that replaces: set by set, AA by AA.
    [[nodiscard]] std::vector<std::uint8_t> heats(std::uint32_t task) const;
    // The heat of a slot's aggregator, in the running CPU's set.
    [[nodiscard]] unsigned heat(std::uint32_t task, unsigned slot, const std::string& key) const;
    // What a flow's packets carried of others' tuples.
    [[nodiscard]] std::vector<std::uint64_t> carried(std::uint32_t flow) const;
    void set_carried(std::uint32_t flow, std::uint32_t index, std::uint64_t word) const;

    // What a task's back level holds, by key; one that has several entries is there several times.
    [[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> back(std::uint32_t task = 0) const;
    // A bucket of it, `Bucket` being the group's.
    template <typename Bucket>
    [[nodiscard]] Bucket bucket(std::uint32_t task, unsigned group, std::uint32_t index) const {
        Bucket bucket{};
        read_bucket(task, group, index, &bucket);
        return bucket;
    }
    void set_bucket(std::uint32_t task, unsigned group, std::uint32_t index, const void* bucket) const;

    [[nodiscard]] State state() const;
    [[nodiscard]] std::vector<std::uint64_t> counters() const;
    [[nodiscard]] ask_flow_stats stats(std::uint32_t flow = 0) const;
    [[nodiscard]] ask_dedupe_state dedupe_state(std::uint32_t channel = 0) const;
    [[nodiscard]] ask_pkt_state pkt_state(std::uint32_t channel = 0) const;
    void set_dedupe(std::uint32_t channel, const ask_dedupe_state& state) const;
    void set_pkt_state(std::uint32_t channel, const ask_pkt_state& state) const;
    void set_task(std::uint32_t index, const TaskSpec& spec) const;
    void set_copy(std::uint32_t task, std::uint32_t copy);

    [[nodiscard]] const Way& way() const { return way_; }
    [[nodiscard]] std::uint32_t sets() const;
    // Register set that a run on this thread uses.
    [[nodiscard]] std::uint32_t running_set() const;
    [[nodiscard]] int map(const char* name) const;
    [[nodiscard]] int program() const { return program_; }
    [[nodiscard]] int program(const char* name) const;
    // An entry of a map of devices.
    [[nodiscard]] bpf_devmap_val device(std::uint32_t port) const;
    [[nodiscard]] const TaskSpec& task(std::uint32_t index) const { return tasks_[index].spec; }

 private:
    void add_hosts() const;
    void write_flow(std::uint32_t flow, ask_flow value, std::uint32_t host, std::uint16_t port);
    void add_back(std::uint32_t index, const BackBuckets& buckets);
    UniqueFd load_sized(std::uint32_t index);
    [[nodiscard]] UniqueFd create_inner(const char* value_type, std::size_t value_size, std::uint32_t entries,
                                        std::uint32_t flags) const;
    void read_bucket(std::uint32_t task, unsigned group, std::uint32_t index, void* bucket) const;
    [[nodiscard]] Bytes read_all(const char* name, std::uint32_t entries, std::size_t size) const;

    Way way_;
    TableSizes sizes_;
    bpf_object* object_ = nullptr;
    std::shared_ptr<void> skeleton_;
    int program_ = -1;
    std::vector<ChannelSpec> channels_;
    std::vector<RegisteredTask> tasks_;
    std::vector<RegisteredFlow> flows_;
};

// Keeps the calling thread on one CPU; returns the CPUs that it may use.
std::vector<unsigned> allowed_cpus();
void run_on(unsigned cpu);
unsigned possible_cpu_count();

std::string counter_name(std::uint32_t counter);

}  // namespace ask::test
