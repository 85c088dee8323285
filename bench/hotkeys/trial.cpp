// SPDX-License-Identifier: Apache-2.0
#include "bench/hotkeys/trial.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "agent/memfd_table.h"
#include "bench/common/frame_source.h"
#include "bench/common/pinned.h"
#include "lib/client/result_map.h"
#include "lib/control/member/convert.h"
#include "lib/control/member/copy_reader.h"
#include "lib/control/member/mailbox.h"
#include "lib/control/member/patience.h"
#include "lib/control/receive/swapper.h"
#include "lib/engine/receiver.h"
#include "lib/tuples/table_sink.h"

namespace ask::bench {
namespace {

using Seconds = std::chrono::duration<double>;

// Sorted keys: a packet holds at most as many tuples of a key as it has rows, so more slots would stay empty.
constexpr std::uint8_t kRows = 8;
constexpr std::uint8_t kMaxSlots = 16;

Geometry geometry_for(const Trial& trial) {
    const bool sorted = trial.order == Order::kHotFirst || trial.order == Order::kHotLast;
    const std::uint32_t fit = std::min<std::uint32_t>(kMaxSlots, trial.aggregators / 4);
    return {.short_slots = sorted ? std::uint8_t{1} : static_cast<std::uint8_t>(fit),
            .groups = 0,
            .m = 0,
            .rows = kRows};
}

bool swaps(Way way) {
    return way == Way::kSwap || way == Way::kBoth;
}

// Frames one behind another, each after its length, in blocks that never move.
class FrameStore {
 public:
    void add(std::span<const std::byte> frame) {
        if (blocks_.empty() || kBlock - blocks_.back().used < sizeof(std::uint32_t) + frame.size()) {
            blocks_.push_back({std::make_unique_for_overwrite<std::byte[]>(kBlock), 0});
        }
        Block& block = blocks_.back();
        const auto size = static_cast<std::uint32_t>(frame.size());
        std::memcpy(&block.bytes[block.used], &size, sizeof(size));
        std::memcpy(&block.bytes[block.used + sizeof(size)], frame.data(), size);
        block.used += sizeof(size) + size;
    }

    class Cursor;
    [[nodiscard]] Cursor begin() const;

 private:
    static constexpr std::size_t kBlock = std::size_t{1} << 24U;
    struct Block {
        std::unique_ptr<std::byte[]> bytes;
        std::size_t used = 0;
    };
    std::vector<Block> blocks_;
};

class FrameStore::Cursor {
 public:
    explicit Cursor(const std::vector<Block>& blocks) : blocks_(blocks) { load(); }
    [[nodiscard]] bool done() const { return block_ == blocks_.size(); }
    [[nodiscard]] std::span<const std::byte> frame() const {
        return {&blocks_[block_].bytes[at_ + sizeof(size_)], size_};
    }
    void next() {
        at_ += sizeof(size_) + size_;
        if (at_ == blocks_[block_].used) {
            at_ = 0;
            ++block_;
        }
        load();
    }

 private:
    void load() {
        if (!done()) {
            std::memcpy(&size_, &blocks_[block_].bytes[at_], sizeof(size_));
        }
    }
    const std::vector<Block>& blocks_;
    std::size_t block_ = 0;
    std::size_t at_ = 0;
    std::uint32_t size_ = 0;
};

FrameStore::Cursor FrameStore::begin() const {
    return Cursor(blocks_);
}

class Run {
 public:
    Run(Rig& rig, const Trial& trial)
        : rig_(rig), trial_(trial), geometry_(geometry_for(trial)), stream_(trial.order, trial.tuples) {}

    Result<Outcome> run() {
        ASK_PASS(open());
        ASK_PASS(pack());
        if (swaps(trial_.way)) {
            ASK_PASS(start_swapper());
        }
        ASK_PASS(feed());
        ASK_PASS(collect());
        ASK_PASS(check_answer());
        ASK_PASS(rig_.close(region_.instance));
        return outcome_;
    }

 private:
    Result<> open();
    Result<> start_swapper();
    Result<> pack();
    Result<> feed();
    Result<> send_batch();
    Result<> collect();
    Result<> check_answer();
    void note_packets(std::uint64_t packets);

    Rig& rig_;
    const Trial trial_;
    const Geometry geometry_;
    Stream stream_;
    RegionId region_;
    Mark mark_;
    CheckKey key_{kSecret};
    Receiver receiver_;
    MemoryBudget budget_{std::size_t{1} << 30U};
    std::optional<ResultTable> table_;
    std::optional<TableSink> sink_;
    std::shared_ptr<TaskArrivals> arrivals_ = std::make_shared<TaskArrivals>();
    std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
    std::unique_ptr<Swapper> swapper_;
    FrameStore frames_;
    std::uint64_t base_grace_periods_ = 0;
    Outcome outcome_;
    std::array<double, 2> seconds_{};  // without and with a swap under way
    std::array<std::uint64_t, 2> sent_{};
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

Result<> Run::open() {
    v1::OpenTaskRequest request = rig_.new_task(geometry_);
    request.set_aggregators(trial_.aggregators / geometry_.slots());
    request.set_copies(swaps(trial_.way) ? 2 : 1);
    request.set_policy(trial_.way == Way::kReplace || trial_.way == Way::kBoth ? v1::POLICY_REPLACE
                                                                               : v1::POLICY_FIRST_COME);
    const auto opened = rig_.open(request);
    ASK_PASS(opened);
    const auto mark = mark_from_proto(opened->mark());
    ASK_PASS(mark);
    mark_ = *mark;
    region_ = {request.instance(), opened->nonce()};
    auto table = ResultTable::create(std::make_unique<MemfdTableMemory>(&budget_), Op::kSum);
    ASK_PASS(table);
    table_ = std::move(*table);
    sink_.emplace(geometry_, Op::kSum, *table_);
    ASK_PASS(receiver_.join(rig_.terms(region_.instance, kChannel, mark_), &*sink_));
    const auto report = rig_.report();
    ASK_PASS(report);
    base_grace_periods_ = report->swap_grace_periods;
    return {};
}

Result<> Run::start_swapper() {
    auto table = ResultTable::create(make_heap_memory(), Op::kSum);
    ASK_PASS(table);
    swapper_ = std::make_unique<Swapper>(Swapper::Options{.id = "hotkeys",
                                                          .region = region_,
                                                          .mark = mark_,
                                                          .client = rig_.client(),
                                                          .standstill = kFetchWait,
                                                          .settings = {},
                                                          .places = trial_.aggregators / 2,
                                                          .arrivals = arrivals_,
                                                          .mailbox = mailbox_},
                                         std::move(*table));
    return {};
}

// Everything that a sender does, before the time that is measured: the switch is to be fed faster than one
// sender on this CPU could.
Result<> Run::pack() {
    FrameSource source({.geometry = geometry_,
                        .instance = region_.instance,
                        .incarnation = rig_.incarnation(),
                        .key = &key_},
                       kChannel);
    char key[Stream::kKeyBytes];
    std::uint64_t left = stream_.size();
    while (left > 0 || !source.empty()) {
        while (left > 0 && source.has_room()) {
            Stream::write_key(stream_.next(), key);
            source.add({key, sizeof(key)}, 1);
            --left;
        }
        if (left == 0) {
            source.finish();
        }
        while (source.has_frame()) {
            frames_.add(source.frame());
        }
    }
    outcome_.tuples = stream_.size();
    outcome_.packets = source.packets();
    outcome_.geometry = to_string(geometry_);
    return {};
}

Result<> Run::feed() {
    const Pinned pinned;
    const auto started = std::chrono::steady_clock::now();
    last_ = started;
    for (FrameStore::Cursor cursor = frames_.begin(); !cursor.done(); cursor.next()) {
        rig_.feeder().add(cursor.frame());
        if (rig_.feeder().full()) {
            ASK_PASS(send_batch());
        }
    }
    ASK_PASS(send_batch());
    outcome_.seconds = Seconds(std::chrono::steady_clock::now() - started).count();
    outcome_.swap_seconds = seconds_[1];
    // A packet holds as many tuples as another, or nearly.
    const double tuples = static_cast<double>(outcome_.tuples) / static_cast<double>(outcome_.packets);
    for (std::size_t which : {0U, 1U}) {
        double& rate = which == 0 ? outcome_.rate_between : outcome_.rate_during;
        rate = seconds_[which] == 0 ? 0 : tuples * static_cast<double>(sent_[which]) / seconds_[which];
    }
    frames_ = {};
    return {};
}

Result<> Run::send_batch() {
    Feeder& feeder = rig_.feeder();
    ASK_PASS(feeder.run());
    for (std::size_t i = 0; i < feeder.size(); ++i) {
        if (const auto out = feeder.out(i); !out.empty()) {
            const auto verdict = receive(receiver_, out);
            ASK_PASS(verdict);
            arrivals_->note(*verdict);
        }
    }
    note_packets(feeder.size());
    feeder.clear();
    return {};
}

void Run::note_packets(std::uint64_t packets) {
    const auto now = std::chrono::steady_clock::now();
    const std::size_t which = swapper_ && swapper_->under_way() ? 1 : 0;
    seconds_[which] += Seconds(now - last_).count();
    sent_[which] += packets;
    last_ = now;
}

Result<> Run::collect() {
    std::uint64_t epoch = 0;
    if (swapper_) {
        swapper_->finish(Clock::now() + kFetchWait);
        const Swapper::Times times = swapper_->times();
        auto swapped = swapper_->take();
        ASK_PASS(swapped);
        ASK_PASS(table_->merge(swapped->table));
        epoch = swapped->epoch;
        outcome_.fetched = swapped->fetched;
        outcome_.swaps = epoch;
        outcome_.longest_swap_seconds = static_cast<double>(times.longest) / kSecond;
    }
    const auto last = rig_.client()->fetch_copy(
        {.region = region_, .mark = mark_, .epoch = epoch, .close = false, .wait = kFetchWait});
    ASK_PASS(last);
    ASK_PASS(merge_copy(*table_, *last));
    outcome_.fetched += last->count;
    const auto counts = rig_.counts(region_.instance, outcome_.packets, outcome_.tuples);
    ASK_PASS(counts);
    outcome_.aggregated = counts->tuples_aggregated;
    outcome_.forwarded = tuples_left(*counts);
    outcome_.evicted = counts->tuples_evicted;
    const auto report = rig_.report();
    ASK_PASS(report);
    outcome_.barrier_grace_periods = static_cast<double>(report->swap_grace_periods - base_grace_periods_);
    return {};
}

Result<> Run::check_answer() {
    ASK_PASS(table_->finish());
    auto sealed = static_cast<MemfdTableMemory&>(table_->memory()).take_sealed();
    ASK_PASS(sealed);
    const std::vector<int> blocks = (*sealed)->descriptors();
    const auto answer = client::ResultMap::open(UniqueFd(::fcntl(blocks.at(0), F_DUPFD_CLOEXEC, 0)),
                                                UniqueFd(::fcntl(blocks.at(1), F_DUPFD_CLOEXEC, 0)));
    ASK_PASS(answer);
    std::vector<std::uint64_t> wanted = stream_.counts();
    ASK_PASS(answer->each_sorted([&wanted](std::string_view key, std::int64_t value) -> Result<> {
        wanted[Stream::read_key(key.data())] -= static_cast<std::uint64_t>(value);
        return {};
    }));
    if (std::ranges::any_of(wanted, [](std::uint64_t left) { return left != 0; })) {
        return Error(Errc::kInternal, "the answer is not what was sent");
    }
    return {};
}

}  // namespace

const char* to_string(Way way) {
    switch (way) {
        case Way::kFirstCome:
            return "first-come";
        case Way::kSwap:
            return "swap";
        case Way::kReplace:
            return "replace";
        default:
            return "replace+swap";
    }
}

Result<Outcome> run_trial(Rig& rig, const Trial& trial) {
    auto outcome = Run(rig, trial).run();
    ASK_TRY(outcome, std::string(to_string(trial.order)) + ", " + to_string(trial.way) + ", " +
                         std::to_string(trial.aggregators) + " aggregators");
    return outcome;
}

}  // namespace ask::bench
