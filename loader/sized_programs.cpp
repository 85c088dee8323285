// SPDX-License-Identifier: Apache-2.0
#include "loader/sized_programs.h"

#include <charconv>
#include <string>
#include <utility>

#include <spdlog/spdlog.h>

#include "lib/bpf/object.h"
#include "lib/tuples/sram.h"
#include "loader/data_program.h"

namespace ask {
namespace {

constexpr std::string_view kPrefix = "regions_";

std::string pin_name(std::uint8_t number, std::uint32_t aggregators) {
    return std::string(kPrefix) + std::to_string(number) + "_" + std::to_string(aggregators);
}

// NUMBER and AGGREGATORS of a pin's name; zeros if it has none.
std::pair<std::uint8_t, std::uint32_t> read_name(std::string_view name) {
    std::uint32_t number = 0;
    std::uint32_t aggregators = 0;
    if (!name.starts_with(kPrefix)) {
        return {};
    }
    const char* const end = name.data() + name.size();
    const auto first = std::from_chars(name.data() + kPrefix.size(), end, number);
    if (first.ec != std::errc() || first.ptr == end || *first.ptr != '_' || number == 0 ||
        number >= ASK_SERVICE_PROGRAMS) {
        return {};
    }
    const auto second = std::from_chars(first.ptr + 1, end, aggregators);
    if (second.ec != std::errc() || second.ptr != end || aggregators == 0) {
        return {};
    }
    return {static_cast<std::uint8_t>(number), aggregators};
}

}  // namespace

Result<std::unique_ptr<SizedPrograms>> SizedPrograms::adopt(const DataPlane& plane, const PinDir& pins) {
    std::unique_ptr<SizedPrograms> programs(new SizedPrograms(plane, pins));
    ASK_TRY(programs->adopt_slots(), "programs for regions of one size");
    return programs;
}

Result<> SizedPrograms::adopt_slots() {
    const std::lock_guard lock(mutex_);
    const auto names = pins_.map_names();
    ASK_PASS(names);
    for (const std::string& name : *names) {
        const auto [number, aggregators] = read_name(name);
        if (number != 0) {
            ASK_PASS(adopt_slot(number, aggregators, name));
        }
    }
    return {};
}

// A predecessor may have died between pinning and putting the program in; or there are two of a number, of
// which one was on its way out. Then nobody uses it.
Result<> SizedPrograms::adopt_slot(std::uint8_t number, std::uint32_t aggregators, const std::string& pin) {
    const auto program = plane_.maps().data_programs.find(number);
    ASK_PASS(program);
    if (!*program || slots_[number].aggregators != 0) {
        return bpf::unpin(pins_.map(pin));
    }
    auto fd = bpf::open_pinned(pins_.map(pin));
    ASK_PASS(fd);
    auto regions = Regions::adopt(std::move(*fd), pin);
    ASK_PASS(regions);
    slots_[number].regions = std::move(*regions);
    slots_[number].aggregators = aggregators;
    return {};
}

std::uint8_t SizedPrograms::take(std::uint32_t aggregators) {
    const std::lock_guard lock(mutex_);
    const std::uint8_t number = choose_slot(aggregators);
    if (number == 0) {
        spdlog::warn(
            "all {} programs for regions of one size are in use: a region of {} aggregators will "
            "take the slower one for any size",
            ASK_SERVICE_PROGRAMS - 1, aggregators);
        return 0;
    }
    if (!provide(number, aggregators)) {
        return 0;
    }
    Slot& slot = slots_[number];
    slot.users++;
    slot.used = ++opened_;
    return number;
}

bool SizedPrograms::provide(std::uint8_t number, std::uint32_t aggregators) {
    if (slots_[number].aggregators == aggregators) {
        return true;
    }
    if (const auto loaded = load(number, aggregators); !loaded.ok()) {
        spdlog::warn("no program for regions of {} aggregators: {}; the slower one for any size will do",
                     aggregators, loaded.error().text());
        return false;
    }
    spdlog::info("loaded a program for regions of {} aggregators", aggregators);
    return true;
}

// Of one copy: two copies of the size below take the same. Only free places are filled, since what is there
// stays for the tasks that it was loaded for.
void SizedPrograms::prepare(unsigned sizes) {
    const std::lock_guard lock(mutex_);
    const std::uint32_t sets = plane_.meta().memory == ASK_MEMORY_PIPELINES ? plane_.meta().possible_cpus : 1;
    for (unsigned at = 0; at < sizes; ++at) {
        const std::uint32_t aggregators = sets * kLeastRegionWords << at;
        const std::uint8_t number = choose_slot(aggregators);
        const bool is_free =
            number != 0 && (slots_[number].aggregators == 0 || slots_[number].aggregators == aggregators);
        if (!is_free || !provide(number, aggregators)) {
            return;
        }
    }
}

// Its own, else a free one, else the one that has been without users for longest; 0: none.
std::uint8_t SizedPrograms::choose_slot(std::uint32_t aggregators) const {
    const auto age = [](const Slot& slot) { return std::pair(slot.aggregators != 0, slot.used); };
    std::uint8_t best = 0;
    for (std::uint8_t number = 1; number < ASK_SERVICE_PROGRAMS; ++number) {
        const Slot& slot = slots_[number];
        if (slot.aggregators == aggregators) {
            return number;
        }
        if (slot.users == 0 && (best == 0 || age(slot) < age(slots_[best]))) {
            best = number;
        }
    }
    return best;
}

// The pin first: what is pinned without a program is undone by a successor, and a program without a pin could
// not be.
Result<> SizedPrograms::load(std::uint8_t number, std::uint32_t aggregators) {
    ASK_PASS(free_slot(number));
    const auto like = plane_.types().create_region(aggregators, RegionSize::kOne);
    ASK_PASS(like);
    auto loaded = load_data_program(plane_.meta(), like->get(), [this](const std::string& name) {
        return bpf::open_pinned(pins_.map(name));
    });
    ASK_PASS(loaded);
    const std::string pin = pin_name(number, aggregators);
    ASK_PASS(bpf::pin(loaded->regions.get(), pins_.map(pin)));
    Slot slot;
    auto regions = Regions::adopt(std::move(loaded->regions), pin);
    ASK_PASS(regions);
    ASK_PASS(plane_.maps().data_programs.set(number, static_cast<std::uint32_t>(loaded->program.get())));
    slot.aggregators = aggregators;
    slot.regions = std::move(*regions);
    slots_[number] = std::move(slot);
    return {};
}

// Nobody uses it: what it was for is closed, and a barrier has passed since.
Result<> SizedPrograms::free_slot(std::uint8_t number) {
    Slot& slot = slots_[number];
    if (slot.aggregators == 0) {
        return {};
    }
    ASK_PASS(plane_.maps().data_programs.erase(number));
    ASK_PASS(bpf::unpin(pins_.map(pin_name(number, slot.aggregators))));
    slot = {};
    return {};
}

bool SizedPrograms::adopt_user(std::uint8_t number) {
    const std::lock_guard lock(mutex_);
    if (number == 0) {
        return true;
    }
    if (number >= ASK_SERVICE_PROGRAMS || slots_[number].aggregators == 0) {
        return false;
    }
    slots_[number].users++;
    return true;
}

void SizedPrograms::give_back(std::uint8_t number) {
    const std::lock_guard lock(mutex_);
    if (number != 0) {
        slots_.at(number).users--;
    }
}

const SizedPrograms::Regions* SizedPrograms::regions(std::uint8_t number) const {
    const std::lock_guard lock(mutex_);
    if (number == 0) {
        return &plane_.maps().regions;
    }
    return number < ASK_SERVICE_PROGRAMS && slots_[number].aggregators != 0 ? &slots_[number].regions
                                                                            : nullptr;
}

Result<UniqueFd> SizedPrograms::create_region(std::uint8_t number, std::uint32_t aggregators) const {
    return plane_.types().create_region(aggregators, number == 0 ? RegionSize::kAny : RegionSize::kOne);
}

}  // namespace ask
