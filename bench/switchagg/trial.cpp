// SPDX-License-Identifier: Apache-2.0
#include "bench/switchagg/trial.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "bench/switchagg/evict_model.h"
#include "bench/switchagg/mapper.h"
#include "bench/switchagg/tally.h"
#include "lib/control/member/convert.h"
#include "lib/control/member/patience.h"
#include "lib/engine/receiver.h"
#include "lib/net/frame.h"
#include "lib/tuples/fetch_codec.h"
#include "lib/tuples/key_hash.h"

namespace ask::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr CheckSecret kSecret{0x1234, 0x5678};
constexpr std::uint8_t kAas = 32;  // of a row: a quarter of a packet's bytes each

// Slots for the longest key; as many rows as fit.
Geometry geometry_for(const Keys& keys) {
    const auto words = static_cast<std::uint8_t>((keys.longest + ASK_KPART_BYTES - 1) / ASK_KPART_BYTES);
    const std::uint8_t m = std::min<std::uint8_t>(words, ASK_MAX_M);
    Geometry geometry{.short_slots = 0, .groups = static_cast<std::uint8_t>(kAas / m), .m = m, .rows = 1};
    geometry.rows = static_cast<std::uint8_t>(most_rows(geometry, kMostPayload));
    return geometry;
}

// Keeps this thread on one CPU while it lives: one register set is in use then.
class Pinned {
 public:
    Pinned() {
        ::sched_getaffinity(0, sizeof(before_), &before_);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
        ::sched_setaffinity(0, sizeof(one), &one);
    }
    ~Pinned() { ::sched_setaffinity(0, sizeof(before_), &before_); }
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;

 private:
    cpu_set_t before_{};
};

std::uint64_t draw_instance() {
    static std::uint64_t last = 0x1000;
    return ++last;
}

class Run {
 public:
    Run(Rig& rig, const Trial& trial)
        : rig_(rig),
          trial_(trial),
          geometry_(geometry_for(trial.keys)),
          draw_(trial.keys, trial.turns),
          instance_(draw_instance()),
          evict_(trial.front_places) {}

    Result<Outcome> run() {
        ASK_PASS(open());
        ASK_PASS(feed());
        ASK_PASS(collect());
        ASK_PASS(fetch());
        ASK_PASS(rig_.close(instance_));
        if (came_ != sent_) {
            return Error(Errc::kInternal, "the answer is not what was sent");
        }
        return outcome_;
    }

 private:
    Result<> open();
    Result<> join(ChannelId channel);
    Result<> feed();
    void fill(Mapper& mapper);
    Result<> drain(Mapper& mapper);
    Result<> send_batch();
    Result<double> time_batch();
    Result<> receive(std::span<const std::byte> frame);
    Result<> collect();
    Result<> fetch();

    Rig& rig_;
    const Trial trial_;
    const Geometry geometry_;
    KeyDraw draw_;
    const std::uint64_t instance_;
    EvictModel evict_;
    RegionId region_;
    Mark mark_;
    CheckKey key_{kSecret};
    Receiver receiver_;
    Tally sent_;
    Tally came_;
    TallySink sink_{geometry_, came_};
    std::vector<Mapper> mappers_;
    std::vector<std::vector<std::byte>> batch_;  // as fed
    Outcome outcome_;
};

Result<> Run::open() {
    v1::OpenTaskRequest request;
    request.set_id("switchagg");
    request.set_instance(instance_);
    *request.mutable_geometry() = geometry_to_proto(geometry_);
    request.set_op(v1::OPERATOR_SUM);
    request.set_aggregators(
        static_cast<std::uint32_t>(std::max<std::uint64_t>(1, trial_.front_places / geometry_.slots())));
    request.set_copies(1);
    request.set_require_region(true);
    request.set_wire_version(ASK_WIRE_VERSION);
    request.set_policy(v1::POLICY_FIRST_COME);
    request.set_senders(static_cast<std::uint32_t>(rig_.channels().size()));
    if (trial_.back_keys != 0) {
        const bool is_short = trial_.keys.longest <= kBackKeyBytes[ASK_BACK_8];
        request.mutable_back()->add_keys(is_short ? trial_.back_keys : 0);
        request.mutable_back()->add_keys(is_short ? 0 : trial_.back_keys);
    }
    const auto opened = rig_.open(request, kSecret);
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
    region_ = {instance_, opened->nonce()};
    for (const ChannelId& channel : rig_.channels()) {
        ASK_PASS(join(channel));
    }
    return {};
}

Result<> Run::join(ChannelId channel) {
    mappers_.emplace_back(
        Mapper::Task{
            .geometry = geometry_, .instance = instance_, .incarnation = rig_.incarnation(), .key = &key_},
        channel);
    return receiver_.join({.instance = instance_,
                           .channel = channel,
                           .incarnation = rig_.incarnation(),
                           .secret = kSecret,
                           .mark = mark_,
                           .first_seq = 1},
                          &sink_);
}

// The mappers take turns, a packet each.
Result<> Run::feed() {
    const Pinned pinned;
    while (outcome_.tuples < trial_.tuples) {
        for (Mapper& mapper : mappers_) {
            fill(mapper);
            ASK_PASS(drain(mapper));
        }
    }
    for (Mapper& mapper : mappers_) {
        mapper.finish();
        ASK_PASS(drain(mapper));
        outcome_.packets += mapper.packets();
    }
    outcome_.distinct = draw_.distinct();
    outcome_.evict_left = evict_.left();
    return send_batch();
}

void Run::fill(Mapper& mapper) {
    while (outcome_.tuples < trial_.tuples && mapper.has_room()) {
        const std::string_view key = draw_.next();
        mapper.add(key, 1);
        sent_.add(key, 1);
        evict_.add(key_hash(key) | 1U);
        ++outcome_.tuples;
    }
}

Result<> Run::drain(Mapper& mapper) {
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
    for (const Mapper& mapper : mappers_) {
        fed += mapper.tuples();
    }
    const bool first = trial_.turns == Turns::kFirst && fed <= trial_.keys.count;
    (first ? outcome_.first_seconds : outcome_.seconds) += *spent;
    for (std::size_t i = 0; i < feeder.size(); ++i) {
        if (const auto out = feeder.out(i); !out.empty()) {
            ASK_PASS(receive(out));
        }
    }
    feeder.clear();
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

Result<> Run::receive(std::span<const std::byte> frame) {
    std::array<std::byte, sizeof(ask_hdr)> ack{};
    const auto payload = frame.subspan(kFrameHeaderBytes);
    const auto packet = parse_packet(payload);
    if (!packet) {
        return Error(Errc::kInternal, "the switch made a packet that is none");
    }
    const RxVerdict verdict = receiver_.on_packet(
        payload, {.source = packet->header.channel.port, .dest = ASK_UDP_PORT}, false, ack);
    if (verdict.counter != ReceiverCounter::k_accepted_data) {
        return Error(Errc::kInternal, "the receiver refused a packet, verdict " +
                                          std::to_string(static_cast<int>(verdict.counter)));
    }
    return {};
}

Result<> Run::collect() {
    const auto counts = rig_.counts(instance_);
    ASK_PASS(counts);
    outcome_.back = counts->tuples_back;
    outcome_.left = counts->tuples_collision + counts->tuples_overflow + counts->tuples_contention +
                    counts->tuples_back_full + counts->tuples_back_contention;
    const std::uint64_t times = trial_.twice ? 2 : 1;
    outcome_.acked = counts->packets_acked / times;
    if (counts->packets_acked + counts->packets_forwarded != outcome_.packets * times) {
        return Error(Errc::kInternal, "the switch's counts do not add up to the packets that were sent");
    }
    if (counts->tuples_aggregated + outcome_.left != outcome_.tuples) {
        return Error(Errc::kInternal, "the switch's counts do not add up to the tuples that were sent");
    }
    return {};
}

Result<> Run::fetch() {
    const auto started = Clock::now();
    const auto end = rig_.client()->stream_copy(
        {.region = region_, .mark = mark_, .epoch = 0, .close = false, .wait = kFetchWait},
        [this](std::string entries) -> Result<std::uint64_t> {
            EntryReader reader(entries);
            std::uint64_t count = 0;
            while (!reader.done()) {
                const auto entry = reader.next();
                ASK_PASS(entry);
                came_.add(entry->key, entry->value);
                ++count;
            }
            return count;
        });
    ASK_PASS(end);
    outcome_.fetch_seconds = Seconds(Clock::now() - started).count();
    outcome_.fetched = end->count;
    return {};
}

}  // namespace

Result<Outcome> run_trial(Rig& rig, const Trial& trial) {
    auto outcome = Run(rig, trial).run();
    ASK_TRY(outcome, std::to_string(trial.keys.count) + " keys, " + std::to_string(trial.tuples) + " tuples");
    return outcome;
}

}  // namespace ask::bench
