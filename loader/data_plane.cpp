// SPDX-License-Identifier: Apache-2.0
#include "loader/data_plane.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "lib/abi/wire.h"
#include "lib/bpf/kernel.h"
#include "lib/daemon/log.h"
#include "lib/rpc/types.h"
#include "lib/tuples/back.h"
#include "switch.skel.h"

namespace ask {
namespace {

using SwitchSkeleton = switch_bpf;
using Skeleton = bpf::Skeleton<SwitchSkeleton>;

constexpr std::string_view kUnloadHint =
    "stop the switch's traffic and run ask-switchd --unload to start afresh";

// Its tasks cannot be carried on: their hosts speak as it does.
constexpr std::string_view kDrainHint =
    "start the release that it belongs to, wait until `askctl tasks --switch` lists no task, stop it, run "
    "ask-switchd --unload, and start this one; to unload at once has its tasks begin again without it";

std::string_view memory_name(std::uint32_t memory) {
    return memory == ASK_MEMORY_SHARED ? "shared" : "pipelines";
}

std::string_view dedupe_name(std::uint32_t dedupe) {
    return dedupe == ASK_DEDUPE_COMPACT ? "compact" : "tagged";
}

// Register sets per CPU are exact only while nothing else that aggregates can run on a CPU in between.
std::uint32_t choose_memory(const std::string& wanted) {
    if (wanted != "auto") {
        spdlog::info("memory: {} (configured)", wanted);
        return wanted == "shared" ? ASK_MEMORY_SHARED : ASK_MEMORY_PIPELINES;
    }
    if (bpf::is_preempt_rt()) {
        spdlog::info("memory: shared (this kernel is PREEMPT_RT, where programs may interleave on one CPU)");
        return ASK_MEMORY_SHARED;
    }
    spdlog::info("memory: pipelines (softirqs are not preempted on this kernel)");
    return ASK_MEMORY_PIPELINES;
}

Result<std::uint32_t> draw_incarnation() {
    std::uint32_t incarnation = 0;
    while (incarnation == 0) {
        if (::getrandom(&incarnation, sizeof(incarnation), 0) != static_cast<ssize_t>(sizeof(incarnation))) {
            return Error::from_errno(errno, "draw the switch's incarnation");
        }
    }
    return incarnation;
}

// What a fresh load would write as meta, but for the incarnation.
Result<ask_meta> wanted_meta(const SwitchConfig& config, std::uint32_t memory) {
    const auto boot = bpf::boot_id();
    ASK_PASS(boot);
    const auto cpus = bpf::possible_cpus();
    ASK_PASS(cpus);
    ask_meta meta{};
    meta.abi_version = ASK_ABI_VERSION;
    meta.wire_version = ASK_WIRE_VERSION;
    meta.switch_id = config.switch_id;
    meta.memory = memory;
    meta.dedupe = config.dedupe == "compact" ? ASK_DEDUPE_COMPACT : ASK_DEDUPE_TAGGED;
    meta.max_channels = config.max_channels;
    meta.max_flows = config.max_flows;
    meta.max_tasks = config.max_tasks;
    meta.possible_cpus = *cpus;
    boot->copy(static_cast<char*>(meta.boot_id), sizeof(meta.boot_id) - 1);
    return meta;
}

Result<> set_sizes(const Skeleton& skeleton, const ask_meta& meta, std::uint32_t value_slots) {
    const std::pair<const char*, std::uint32_t> sizes[] = {
        {"channel_ids", meta.max_channels},
        {"channels", meta.max_channels},
        {"dedupe", meta.max_channels},
        {"pkt_state", meta.max_channels},
        {"flow_ids", meta.max_flows},
        {"flows", meta.max_flows},
        {"flow_stats", meta.max_flows},
        {"tasks", meta.max_tasks},
        {"regions", meta.max_tasks},
        {"buckets", meta.max_tasks + 1},
        {"heats", meta.max_tasks},
        {"carried", meta.max_flows},
        {"backs", meta.max_tasks},
        {"back8", meta.max_tasks},
        {"back16", meta.max_tasks},
        {"back32", meta.max_tasks},
        {"back64", meta.max_tasks},
        {"presence", meta.possible_cpus},
        {"groups", meta.max_tasks},
        {"value_slots", std::max(value_slots, 1U)},
        {"hosts", meta.max_channels + meta.max_tasks},
    };
    for (const auto& [name, entries] : sizes) {
        bpf_map* map = bpf_object__find_map_by_name(skeleton.object(), name);
        if (map == nullptr) {
            return Error(Errc::kInternal, std::string("the switch program has no map ") + name);
        }
        if (const int error = bpf_map__set_max_entries(map, entries); error != 0) {
            return Error::from_errno(-error, std::string("size map ") + name);
        }
    }
    // Of the frames that one turn sends to one device the kernel runs the first one's program on all.
    if (const int error = bpf_map__set_value_size(bpf_object__find_map_by_name(skeleton.object(), "ports"),
                                                  sizeof(bpf_devmap_val));
        error != 0) {
        return Error::from_errno(-error, "size the values of map ports");
    }
    return {};
}

// Maps with a name of their own; the others are sections of the object.
std::vector<const bpf_map*> named_maps(const Skeleton& skeleton) {
    std::vector<const bpf_map*> maps;
    const bpf_map* map = nullptr;
    bpf_object__for_each_map(map, skeleton.object()) {
        if (!bpf_map__is_internal(map)) {
            maps.push_back(map);
        }
    }
    return maps;
}

// Where the verifier's words went, for an error text.
std::string save_verifier_log(const std::string& text) {
    const char* directory =
        std::getenv("RUNTIME_DIRECTORY");  // NOLINT(concurrency-mt-unsafe): nobody sets it
    std::string path =
        std::string(directory == nullptr ? "/tmp" : directory) + "/ask-switchd-verifier-XXXXXX.log";
    const UniqueFd file(::mkstemps(path.data(), 4));
    if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
        return "its log could not be written to " + path;
    }
    return "its log is in " + path;
}

Result<> load_program(Skeleton& skeleton, const ask_meta& meta) {
    skeleton->rodata->ask_memory = meta.memory;
    skeleton->rodata->ask_dedupe = meta.dedupe;
    skeleton->rodata->ask_switch_id = meta.switch_id;
    skeleton->rodata->ask_mark_incarnation = meta.incarnation;
    const LibbpfCapture capture;
    if (const int error = bpf_object__load_skeleton(skeleton->skeleton); error != 0) {
        return Error::from_errno(-error, "the kernel refused the switch program or a map of it (" +
                                             save_verifier_log(capture.text()) + ")");
    }
    return {};
}

// Pins meta last: only then is there something to adopt.
Result<> load_and_pin(Skeleton& skeleton, const PinDir& pins, const ask_meta& meta) {
    ASK_PASS(load_program(skeleton, meta));
    const std::uint32_t zero = 0;
    if (bpf_map_update_elem(bpf_map__fd(skeleton->maps.meta), &zero, &meta, BPF_ANY) != 0) {
        return Error::from_errno(errno, "write map meta");
    }
    ASK_PASS(pins.make_directories());
    ASK_PASS(bpf::pin(bpf_program__fd(skeleton->progs.ask_switch), pins.program()));
    ASK_PASS(bpf::pin(bpf_program__fd(skeleton->progs.ask_fan_copy), pins.fan_program()));
    for (const bpf_map* map : named_maps(skeleton)) {
        if (map != skeleton->maps.meta) {
            ASK_PASS(bpf::pin(bpf_map__fd(map), pins.map(bpf_map__name(map))));
        }
    }
    return bpf::pin(bpf_map__fd(skeleton->maps.meta), pins.map("meta"));
}

// The pinned meta; nothing if there is none.
Result<std::optional<ask_meta>> read_meta(const PinDir& pins) {
    auto fd = bpf::open_pinned(pins.map("meta"));
    if (!fd.ok()) {
        return fd.error().code() == Errc::kUnknown ? Result<std::optional<ask_meta>>(std::nullopt)
                                                   : Result<std::optional<ask_meta>>(std::move(fd).error());
    }
    const auto foreign = [&pins](const std::string& why) {
        return Error(Errc::kUnsupported, pins.root().string() + " holds another version's switch (" + why +
                                             "): " + std::string(kUnloadHint));
    };
    auto map = bpf::Map<std::uint32_t, ask_meta>::adopt(std::move(*fd), "meta");
    if (!map.ok()) {
        return map.error().code() == Errc::kUnsupported ? foreign(map.error().text())
                                                        : std::move(map).error();
    }
    const auto meta = map->find(0);
    ASK_PASS(meta);
    if (*meta && (*meta)->wire_version != ASK_WIRE_VERSION) {
        return Error(Errc::kUnsupported,
                     pins.root().string() + " holds a switch that speaks ASK packets of " +
                         wire_version_name((*meta)->wire_version) + ", and this release speaks " +
                         wire_version_name(ASK_WIRE_VERSION) + ": " + std::string(kDrainHint));
    }
    if (!*meta || (*meta)->abi_version != ASK_ABI_VERSION) {
        return foreign("ABI " + std::to_string(*meta ? (*meta)->abi_version : 0) + ", this is " +
                       std::to_string(ASK_ABI_VERSION));
    }
    return *meta;
}

// Names everything in which the pinned switch differs from the wanted one.
Result<> check_same(const ask_meta& pinned, const ask_meta& wanted) {
    std::string differences;
    const auto compare = [&differences](std::string_view name, const auto& is, const auto& should) {
        if (is != should) {
            differences +=
                (differences.empty() ? "" : ", ") + fmt::format("{} is {}, configured {}", name, is, should);
        }
    };
    compare("switch_id", pinned.switch_id, wanted.switch_id);
    compare("memory", memory_name(pinned.memory), memory_name(wanted.memory));
    compare("dedupe", dedupe_name(pinned.dedupe), dedupe_name(wanted.dedupe));
    compare("max_channels", pinned.max_channels, wanted.max_channels);
    compare("max_flows", pinned.max_flows, wanted.max_flows);
    compare("max_tasks", pinned.max_tasks, wanted.max_tasks);
    compare("possible CPUs", pinned.possible_cpus, wanted.possible_cpus);
    compare("boot", std::string_view(static_cast<const char*>(pinned.boot_id)),
            std::string_view(static_cast<const char*>(wanted.boot_id)));
    if (!differences.empty()) {
        return Error(Errc::kUnsupported, "the running switch cannot change: " + differences +
                                             "; configure it as it is, or " + std::string(kUnloadHint));
    }
    return {};
}

// What is pinned of the switch. What is not there, though its meta is, was taken away by somebody.
Result<UniqueFd> open_part(const std::filesystem::path& path) {
    auto fd = bpf::open_pinned(path);
    if (!fd.ok() && fd.error().code() == Errc::kUnknown) {
        return Error(Errc::kUnsupported, "the running switch has lost a pin (" + fd.error().text() +
                                             "): " + std::string(kUnloadHint));
    }
    return fd;
}

// A pinned map must be what this version would have made.
Result<> check_maps(const Skeleton& skeleton, const PinDir& pins) {
    for (const bpf_map* map : named_maps(skeleton)) {
        const std::string name = bpf_map__name(map);
        const auto fd = open_part(pins.map(name));
        ASK_PASS(fd);
        const auto info = bpf::map_info(fd->get());
        ASK_TRY(info, "adopt map " + name);
        if (name == "value_slots" && info->max_entries != bpf_map__max_entries(map)) {
            return Error(Errc::kUnsupported, "the running switch cannot change: value_slots is " +
                                                 std::to_string(info->max_entries) + ", configured " +
                                                 std::to_string(bpf_map__max_entries(map)) +
                                                 "; configure it as it is, or " + std::string(kUnloadHint));
        }
        if (info->type != static_cast<std::uint32_t>(bpf_map__type(map)) ||
            info->key_size != bpf_map__key_size(map) || info->value_size != bpf_map__value_size(map) ||
            info->max_entries != bpf_map__max_entries(map)) {
            return Error(
                Errc::kUnsupported,
                "pinned map " + name + " has another shape than this version's: " + std::string(kUnloadHint));
        }
    }
    return {};
}

template <typename M>
Result<> open_map(const PinDir& pins, const char* name, M& map) {
    auto fd = open_part(pins.map(name));
    ASK_PASS(fd);
    auto opened = M::adopt(std::move(*fd), name);
    ASK_PASS(opened);
    map = std::move(*opened);
    return {};
}

Result<> open_maps(const PinDir& pins, SwitchMaps& maps) {
    ASK_PASS(open_map(pins, "meta", maps.meta));
    ASK_PASS(open_map(pins, "counters", maps.counters));
    ASK_PASS(open_map(pins, "ports", maps.ports));
    ASK_PASS(open_map(pins, "bridges", maps.bridges));
    ASK_PASS(open_map(pins, "vlan_in", maps.vlan_in));
    ASK_PASS(open_map(pins, "vlan_out", maps.vlan_out));
    ASK_PASS(open_map(pins, "port_kinds", maps.port_kinds));
    ASK_PASS(open_map(pins, "hosts", maps.hosts));
    ASK_PASS(open_map(pins, "channel_ids", maps.channel_ids));
    ASK_PASS(open_map(pins, "channels", maps.channels));
    ASK_PASS(open_map(pins, "dedupe", maps.dedupe));
    ASK_PASS(open_map(pins, "pkt_state", maps.pkt_state));
    ASK_PASS(open_map(pins, "flow_ids", maps.flow_ids));
    ASK_PASS(open_map(pins, "flows", maps.flows));
    ASK_PASS(open_map(pins, "flow_stats", maps.flow_stats));
    ASK_PASS(open_map(pins, "tasks", maps.tasks));
    ASK_PASS(open_map(pins, "buckets", maps.buckets));
    ASK_PASS(open_map(pins, "heats", maps.heats));
    ASK_PASS(open_map(pins, "carried", maps.carried));
    ASK_PASS(open_map(pins, "backs", maps.backs));
    ASK_PASS(open_map(pins, "groups", maps.groups));
    ASK_PASS(open_map(pins, "value_slots", maps.value_slots));
    ASK_PASS(open_map(pins, "fan_members", maps.fan_members));
    ASK_PASS(open_map(pins, "fans", maps.fans));
    for (unsigned group = 0; group < maps.back.size(); ++group) {
        ASK_PASS(open_map(pins, kBackNames[group], maps.back[group]));
    }
    ASK_PASS(open_map(pins, "back_programs", maps.back_programs));
    ASK_PASS(open_map(pins, "data_programs", maps.data_programs));
    ASK_PASS(open_map(pins, "presence", maps.presence));
    return open_map(pins, "regions", maps.regions);
}

}  // namespace

Result<> DataPlane::open(const PinDir& pins) {
    auto program = open_part(pins.program());
    ASK_PASS(program);
    program_ = std::move(*program);
    auto fan_program = open_part(pins.fan_program());
    ASK_PASS(fan_program);
    fan_program_ = std::move(*fan_program);
    const auto info = bpf::prog_info(program_.get());
    ASK_PASS(info);
    program_id_ = info->id;
    return open_maps(pins, maps_);
}

Result<DataPlane> DataPlane::load_or_adopt(const SwitchConfig& config, const PinDir& pins) {
    auto skeleton = Skeleton::open("switch");
    ASK_PASS(skeleton);
    const auto pinned = read_meta(pins);
    ASK_PASS(pinned);
    DataPlane plane;
    plane.adopted_ = pinned->has_value();
    const bool keep_memory = plane.adopted_ && config.memory == "auto";
    auto wanted = wanted_meta(config, keep_memory ? (*pinned)->memory : choose_memory(config.memory));
    ASK_PASS(wanted);
    if (plane.adopted_) {
        ASK_TRY(check_same(**pinned, *wanted), "adopt " + pins.root().string());
        wanted->incarnation = (*pinned)->incarnation;
    } else {
        const auto incarnation = draw_incarnation();
        ASK_PASS(incarnation);
        wanted->incarnation = *incarnation;
    }
    plane.meta_ = *wanted;
    plane.value_slots_ = config.value_slots;
    ASK_PASS(set_sizes(*skeleton, *wanted, config.value_slots));
    if (plane.adopted_) {
        ASK_PASS(check_maps(*skeleton, pins));
    } else {
        // Whatever is here was left half made by a predecessor that died.
        ASK_PASS(pins.remove_contents());
        ASK_PASS(load_and_pin(*skeleton, pins, *wanted));
    }
    auto types = RegionTypes::load(skeleton->object());
    ASK_PASS(types);
    plane.types_ = std::move(*types);
    ASK_TRY(plane.open(pins), plane.adopted_ ? "adopt" : "load");
    spdlog::info("{} the switch program (id {}) in {}: memory {}, dedupe {}, mark {}:{:08x}",
                 plane.adopted_ ? "adopted" : "loaded", plane.program_id_, pins.root().string(),
                 memory_name(wanted->memory), dedupe_name(wanted->dedupe), wanted->switch_id,
                 wanted->incarnation);
    return plane;
}

Result<> DataPlane::check_pinned(const SwitchConfig& config, const PinDir& pins) {
    const auto pinned = read_meta(pins);
    ASK_PASS(pinned);
    if (!pinned->has_value()) {
        return {};
    }
    auto skeleton = Skeleton::open("switch");
    ASK_PASS(skeleton);
    const auto wanted =
        wanted_meta(config, config.memory == "auto" ? (*pinned)->memory : choose_memory(config.memory));
    ASK_PASS(wanted);
    ASK_TRY(check_same(**pinned, *wanted), "adopt " + pins.root().string());
    ASK_PASS(set_sizes(*skeleton, *wanted, config.value_slots));
    ASK_PASS(check_maps(*skeleton, pins));
    DataPlane plane;
    return plane.open(pins);
}

}  // namespace ask
