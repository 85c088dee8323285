// SPDX-License-Identifier: Apache-2.0
#include "bench/switchagg/trial.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "bench/common/frame_source.h"
#include "bench/common/pinned.h"
#include "bench/switchagg/evict_model.h"
#include "bench/switchagg/tally.h"
#include "lib/abi/var.h"
#include "lib/control/member/convert.h"
#include "lib/control/member/patience.h"
#include "lib/engine/receiver.h"
#include "lib/tuples/fetch_codec.h"
#include "lib/tuples/key_hash.h"

namespace ask::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::uint8_t kAas = 32;  // of a row: a quarter of a packet's bytes each

// Slots for the longest key; as many rows as fit.
Geometry geometry_for(const Keys& keys) {
    const auto words = static_cast<std::uint8_t>((keys.longest + ASK_KPART_BYTES - 1) / ASK_KPART_BYTES);
    const std::uint8_t m = std::min<std::uint8_t>(words, ASK_MAX_M);
    Geometry geometry{.short_slots = 0, .groups = static_cast<std::uint8_t>(kAas / m), .m = m, .rows = 1};
    geometry.rows = static_cast<std::uint8_t>(most_rows(geometry, kMostPayload));
    return geometry;
}

class Run {
 public:
    Run(Rig& rig, const Trial& trial, PairSource& source, const PairTaker& taker, const Progress& progress)
        : rig_(rig),
          trial_(trial),
          source_(source),
          progress_(progress),
          geometry_(geometry_for(trial.keys)),
          evict_(trial.front_places),
          taker_([this, taker](std::string_view key, std::int64_t value) {
              ++outcome_.out;
              if (taker) {
                  taker(key, value);
              }
          }) {}

    Result<Outcome> run() {
        ASK_PASS(open());
        ASK_PASS(feed());
        ASK_PASS(collect());
        ASK_PASS(fetch());
        ASK_PASS(rig_.close(region_.instance));
        if (came_ != sent_) {
            return Error(Errc::kInternal, "the answer is not what was sent");
        }
        return outcome_;
    }

 private:
    void wish_back(v1::BackWish& wish) const;
    Result<> open();
    Result<> join(ChannelId channel);
    Result<> feed();
    void fill(FrameSource& mapper);
    Result<> drain(FrameSource& mapper);
    Result<> send_batch();
    Result<double> time_batch();
    Result<> collect();
    Result<> fetch();

    Rig& rig_;
    const Trial trial_;
    PairSource& source_;
    const Progress& progress_;
    const Geometry geometry_;
    EvictModel evict_;
    const PairTaker taker_;
    RegionId region_;
    Mark mark_;
    CheckKey key_{kSecret};
    Receiver receiver_;
    Tally sent_;
    Tally came_;
    TallySink sink_{geometry_, came_, taker_};
    std::vector<FrameSource> mappers_;
    std::vector<std::vector<std::byte>> batch_;  // as fed
    Outcome outcome_;
};

// Of each group as many as the keys' lengths make likely.
void Run::wish_back(v1::BackWish& wish) const {
    const Keys& keys = trial_.keys;
    std::array<std::uint64_t, ASK_BACK_GROUPS> lengths{};
    for (std::uint32_t size = keys.shortest; size <= keys.longest; ++size) {
        ++lengths[ask_var_group(size)];
    }
    const std::uint64_t all = keys.longest - keys.shortest + 1;
    for (const std::uint64_t part : lengths) {
        wish.add_keys((trial_.back_keys * part + all - 1) / all);
    }
}

Result<> Run::open() {
    v1::OpenTaskRequest request = rig_.new_task(geometry_);
    request.set_aggregators(
        static_cast<std::uint32_t>(std::max<std::uint64_t>(1, trial_.front_places / geometry_.slots())));
    if (trial_.replace) {
        request.set_policy(v1::POLICY_REPLACE);
    }
    if (trial_.back_keys != 0) {
        wish_back(*request.mutable_back());
    }
    const auto opened = rig_.open(request);
    ASK_PASS(opened);
    if (trial_.back_keys != 0 && opened->back_bytes() == 0) {
        return Error(Errc::kLimit, "no back level: " + opened->no_back_reason());
    }
    outcome_.geometry = to_string(geometry_);
    outcome_.front_places = std::uint64_t{opened->aggregators()} * geometry_.slots();
    outcome_.back_bytes = opened->back_bytes();
    evict_ = EvictModel(outcome_.front_places);
    const auto mark = mark_from_proto(opened->mark());
    ASK_PASS(mark);
    mark_ = *mark;
    region_ = {request.instance(), opened->nonce()};
    for (const ChannelId& channel : rig_.channels()) {
        ASK_PASS(join(channel));
    }
    return {};
}

// Whole keys go with a back level, as the product agrees on them.
Result<> Run::join(ChannelId channel) {
    const bool whole_keys = outcome_.back_bytes != 0;
    mappers_.emplace_back(FrameSource::Task{.geometry = geometry_,
                                            .instance = region_.instance,
                                            .incarnation = rig_.incarnation(),
                                            .key = &key_,
                                            .whole_keys = whole_keys},
                          channel);
    FlowTerms terms = rig_.terms(region_.instance, channel, mark_);
    terms.whole_keys = whole_keys;
    return receiver_.join(terms, &sink_);
}

// The mappers take turns, a packet each.
Result<> Run::feed() {
    const Pinned pinned;
    while (outcome_.tuples < trial_.tuples) {
        for (FrameSource& mapper : mappers_) {
            fill(mapper);
            ASK_PASS(drain(mapper));
        }
    }
    for (FrameSource& mapper : mappers_) {
        mapper.finish();
        ASK_PASS(drain(mapper));
        outcome_.packets += mapper.packets();
    }
    outcome_.distinct = source_.distinct();
    outcome_.evict_left = evict_.left();
    return send_batch();
}

void Run::fill(FrameSource& mapper) {
    while (outcome_.tuples < trial_.tuples && mapper.has_room()) {
        const Pair pair = source_.next();
        mapper.add(pair.key, pair.value);
        sent_.add(pair.key, pair.value);
        evict_.add(key_hash(pair.key) | 1U);
        ++outcome_.tuples;
    }
}

Result<> Run::drain(FrameSource& mapper) {
    while (mapper.has_frame()) {
        const auto frame = mapper.frame();
        rig_.feeder().add(frame);
        if (trial_.twice) {
            batch_.emplace_back(frame.begin(), frame.end());
        }
        if (rig_.feeder().full()) {
            ASK_PASS(send_batch());
        }
    }
    return {};
}

Result<double> Run::time_batch() {
    const auto started = Clock::now();
    ASK_PASS(rig_.feeder().run());
    return Seconds(Clock::now() - started).count();
}

Result<> Run::send_batch() {
    Feeder& feeder = rig_.feeder();
    const auto spent = time_batch();
    ASK_PASS(spent);
    std::uint64_t fed = 0;
    for (const FrameSource& mapper : mappers_) {
        fed += mapper.tuples();
    }
    const bool first = trial_.turns == Turns::kFirst && fed <= trial_.keys.count;
    (first ? outcome_.first_seconds : outcome_.seconds) += *spent;
    for (std::size_t i = 0; i < feeder.size(); ++i) {
        if (const auto out = feeder.out(i); !out.empty()) {
            ASK_PASS(receive(receiver_, out));
        }
    }
    feeder.clear();
    if (progress_) {
        progress_(static_cast<double>(fed) / static_cast<double>(trial_.tuples));
    }
    if (batch_.empty()) {
        return {};
    }
    for (const auto& frame : batch_) {
        feeder.add(frame);
    }
    batch_.clear();
    const auto again = time_batch();
    ASK_PASS(again);
    outcome_.again_seconds += *again;
    feeder.clear();
    return {};
}

Result<> Run::collect() {
    const std::uint64_t times = trial_.twice ? 2 : 1;
    const auto counts = rig_.counts(region_.instance, outcome_.packets * times, outcome_.tuples);
    ASK_PASS(counts);
    outcome_.back = counts->tuples_back;
    outcome_.left = tuples_left(*counts);
    outcome_.left_collision = counts->tuples_collision;
    outcome_.left_back_full = counts->tuples_back_full;
    outcome_.acked = counts->packets_acked / times;
    return {};
}

Result<> Run::fetch() {
    const auto started = Clock::now();
    const auto end = rig_.client()->stream_copy(
        {.region = region_, .mark = mark_, .epoch = 0, .close = false, .wait = kFetchWait},
        [this](const std::string& entries) -> Result<std::uint64_t> {
            EntryReader reader(entries);
            std::uint64_t count = 0;
            while (!reader.done()) {
                const auto entry = reader.next();
                ASK_PASS(entry);
                came_.add(entry->key, entry->value);
                taker_(entry->key, entry->value);
                ++count;
            }
            return count;
        });
    ASK_PASS(end);
    outcome_.fetch_seconds = Seconds(Clock::now() - started).count();
    outcome_.fetched = end->count;
    return {};
}

class Drawn final : public PairSource {
 public:
    explicit Drawn(const Trial& trial) : draw_(trial.keys, trial.turns) {}
    Pair next() override { return {.key = draw_.next()}; }
    [[nodiscard]] std::uint64_t distinct() const override { return draw_.distinct(); }

 private:
    KeyDraw draw_;
};

}  // namespace

Result<Outcome> run_trial(Rig& rig, const Trial& trial, PairSource& source, const PairTaker& taker,
                          const Progress& progress) {
    auto outcome = Run(rig, trial, source, taker, progress).run();
    ASK_TRY(outcome, std::to_string(trial.keys.count) + " keys, " + std::to_string(trial.tuples) + " tuples");
    return outcome;
}

Result<Outcome> run_trial(Rig& rig, const Trial& trial, const Progress& progress) {
    Drawn source(trial);
    return run_trial(rig, trial, source, {}, progress);
}

}  // namespace ask::bench
