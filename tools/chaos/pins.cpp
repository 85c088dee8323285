// SPDX-License-Identifier: Apache-2.0
#include "tools/chaos/pins.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "lib/abi/wire.h"

namespace ask::chaos {
namespace {

constexpr double kNanosPerMilli = 1e6;
constexpr std::array<const char*, kDirections> kDirectionNames = {"up", "down"};
struct TypeName {
    std::size_t type;
    const char* name;
};
constexpr auto kTypeNames = std::to_array<TypeName>({{0, "other"},
                                                     {ASK_DATA, "data"},
                                                     {ASK_LONG, "long"},
                                                     {ASK_ACK, "ack"},
                                                     {ASK_FIN, "fin"},
                                                     {ASK_VAR, "var"},
                                                     {ASK_VALUE, "value"},
                                                     {ASK_RESULT, "result"},
                                                     {ASK_NEED, "need"},
                                                     {ASK_HELD, "held"},
                                                     {ASK_HAVE, "have"}});
static_assert(CHAOS_TYPES == ASK_HAVE + 1);

double percent(unsigned long long limit) {
    return 100.0 * static_cast<double>(limit) / static_cast<double>(CHAOS_ALWAYS);
}

nlohmann::ordered_json span_json(const ChaosSpan& span) {
    return {static_cast<double>(span.from) / kNanosPerMilli,
            static_cast<double>(span.from + span.width) / kNanosPerMilli};
}

nlohmann::ordered_json rule_json(const ChaosRule& rule) {
    return {{"seed", rule.seed},
            {"loss", percent(rule.loss)},
            {"dup", percent(rule.duplicate)},
            {"dup_late_ms", span_json(rule.late)},
            {"reorder", percent(rule.reorder)},
            {"reorder_by_ms", span_json(rule.behind)},
            {"delay_ms", span_json(rule.delay)},
            {"corrupt", percent(rule.corrupt)},
            {"all_traffic", rule.all_traffic != 0}};
}

nlohmann::ordered_json counters_json(const ChaosDone& done, const ChaosHeld& held) {
    return {{"spared", done.spared},         {"packets", done.packets},     {"lost", done.lost},
            {"duplicated", done.duplicated}, {"corrupted", done.corrupted}, {"reordered", done.reordered},
            {"delayed", done.delayed},       {"hold_full", done.hold_full}, {"queue_full", done.queue_full},
            {"marked", done.marked},         {"held_now", held.waiting},    {"released", held.released},
            {"refused", held.refused},       {"send_failed", held.failed}};
}

nlohmann::ordered_json carried_json(const ChaosCarried& carried) {
    auto made = nlohmann::ordered_json::object();
    for (const auto& [type, name] : kTypeNames) {
        made[name] = {{"packets", carried.types[type].packets}, {"bytes", carried.types[type].bytes}};
    }
    // Types that nobody has are none.
    for (std::size_t type = 0; type < CHAOS_TYPES; ++type) {
        if (std::ranges::find(kTypeNames, type, &TypeName::type) == kTypeNames.end()) {
            made["other"]["packets"] =
                made["other"]["packets"].get<std::uint64_t>() + carried.types[type].packets;
            made["other"]["bytes"] = made["other"]["bytes"].get<std::uint64_t>() + carried.types[type].bytes;
        }
    }
    made["first_fins"] = carried.first_fins;
    return made;
}

void add(nlohmann::ordered_json& sum, const nlohmann::ordered_json& counters) {
    for (const auto& [name, value] : counters.items()) {
        sum[name] = sum.value(name, std::uint64_t{0}) + value.get<std::uint64_t>();
    }
}

std::uint64_t load(const unsigned long long& word) {
    // The daemon writes it at any time; atomic_ref of a const type is C++26.
    return std::atomic_ref(const_cast<unsigned long long&>(word)).load(std::memory_order_relaxed);
}

}  // namespace

Result<Pins> Pins::open(const std::filesystem::path& dir) {
    Pins pins;
    auto rules = bpf::open_pinned(dir / "rules");
    ASK_TRY(rules, "no fault injector runs here");
    auto adopted = bpf::Map<std::uint32_t, ChaosRule>::adopt(std::move(*rules), "rules");
    ASK_PASS(adopted);
    pins.rules_ = std::move(*adopted);
    auto done = bpf::open_pinned(dir / "done");
    ASK_PASS(done);
    auto counters = bpf::PerCpuArray<ChaosDone>::adopt(std::move(*done), "done");
    ASK_PASS(counters);
    pins.done_ = std::move(*counters);
    const auto held = bpf::open_pinned(dir / "held");
    ASK_PASS(held);
    auto view = bpf::ArrayView<const ChaosHeld>::map(held->get(), pins.rules_.max_entries());
    ASK_PASS(view);
    pins.held_ = std::move(*view);
    auto carried = bpf::open_pinned(dir / "carried");
    ASK_PASS(carried);
    auto amounts = bpf::PerCpuArray<ChaosCarried>::adopt(std::move(*carried), "carried");
    ASK_PASS(amounts);
    pins.carried_ = std::move(*amounts);
    return pins;
}

Result<> Pins::set(std::uint32_t port, const ChaosRule& rule) const {
    return rules_.set(port, rule);
}

Result<ChaosRule> Pins::rule(std::uint32_t port) const {
    auto found = rules_.find(port);
    ASK_PASS(found);
    return **found;
}

Result<ChaosDone> Pins::done(std::uint32_t port) const {
    auto parts = done_.read(port);
    ASK_PASS(parts);
    ChaosDone sum{};
    for (const ChaosDone& part : *parts) {
        sum.spared += part.spared;
        sum.packets += part.packets;
        sum.lost += part.lost;
        sum.duplicated += part.duplicated;
        sum.corrupted += part.corrupted;
        sum.reordered += part.reordered;
        sum.delayed += part.delayed;
        sum.hold_full += part.hold_full;
        sum.queue_full += part.queue_full;
        sum.marked += part.marked;
    }
    return sum;
}

Result<ChaosCarried> Pins::carried(std::uint32_t port) const {
    auto parts = carried_.read(port);
    ASK_PASS(parts);
    ChaosCarried sum{};
    for (const ChaosCarried& part : *parts) {
        for (std::size_t type = 0; type < CHAOS_TYPES; ++type) {
            sum.types[type].packets += part.types[type].packets;
            sum.types[type].bytes += part.types[type].bytes;
        }
        sum.first_fins += part.first_fins;
    }
    return sum;
}

ChaosHeld Pins::held(std::uint32_t port) const {
    const ChaosHeld& now = held_.span()[port];
    return {load(now.waiting), load(now.released), load(now.refused), load(now.failed)};
}

Result<nlohmann::ordered_json> to_json(const Pins& pins, const LinkNames& names) {
    auto links = nlohmann::ordered_json::array();
    auto sum = nlohmann::ordered_json::object();
    for (unsigned link = 1; link <= pins.links(); ++link) {
        nlohmann::ordered_json entry = {{"link", link}};
        if (names.empty()) {
            entry["host"] = "h" + std::to_string(link);
        } else {
            entry["from"] = names[link - 1][0];
            entry["to"] = names[link - 1][1];
        }
        for (unsigned direction = 0; direction < kDirections; ++direction) {
            const std::uint32_t port = port_of(link, direction);
            const auto rule = pins.rule(port);
            ASK_PASS(rule);
            const auto done = pins.done(port);
            ASK_PASS(done);
            const auto counters = counters_json(*done, pins.held(port));
            add(sum, counters);
            const auto carried = pins.carried(port);
            ASK_PASS(carried);
            entry[kDirectionNames[direction]] = {
                {"rule", rule_json(*rule)}, {"counters", counters}, {"carried", carried_json(*carried)}};
        }
        links.push_back(std::move(entry));
    }
    return nlohmann::ordered_json{{"links", links}, {"sum", sum}};
}

}  // namespace ask::chaos
