// SPDX-License-Identifier: Apache-2.0
//
// Members and their collector, with no switch between them and a network that loses, repeats and delays.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/values/collector.h"
#include "lib/values/member.h"

namespace ask::values {
namespace {

constexpr Nanos kMost = 100 * kSecond;

GroupTerms some_terms(std::mt19937_64& chance) {
    GroupTerms terms;
    terms.instance = chance();
    terms.secret = {chance(), chance()};
    const auto members = static_cast<std::uint32_t>(2 + chance() % 5);
    for (std::uint32_t rank = 0; rank < members; ++rank) {
        terms.seats.push_back({.channel = {.host = 0xc6120001 + rank, .port = 49200}, .incarnation = 1});
    }
    terms.root = static_cast<std::uint32_t>(chance() % members);
    terms.window = static_cast<std::uint32_t>(1 + chance() % 16);
    terms.streams = static_cast<std::uint32_t>(1 + chance() % 3);
    terms.blocks = static_cast<std::uint32_t>(1 + chance() % 3);
    terms.fan_out = chance() % 2 == 0;
    return terms;
}

// Everybody's part of one operation, and what must come of it.
struct Job {
    Operation operation;
    std::vector<std::vector<std::byte>> in;
    std::vector<std::vector<std::byte>> out;
    std::vector<std::byte> expected;
};

template <typename T>
void fill_job(Job& job, std::uint32_t members, std::mt19937_64& chance, std::uint64_t spread) {
    std::vector<T> sum(job.operation.count);
    for (std::uint32_t rank = 0; rank < members; ++rank) {
        std::vector<T> values(job.operation.count);
        for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] = static_cast<T>(static_cast<std::int64_t>(chance() % spread) -
                                       static_cast<std::int64_t>(spread / 2));
            sum[i] = static_cast<T>(sum[i] + values[i]);
        }
        job.in.emplace_back(values.size() * sizeof(T));
        std::memcpy(job.in.back().data(), values.data(), job.in.back().size());
        job.out.emplace_back(job.in.back().size());
    }
    job.expected.resize(sum.size() * sizeof(T));
    std::memcpy(job.expected.data(), sum.data(), job.expected.size());
}

Job some_job(std::uint64_t number, std::uint32_t members, std::mt19937_64& chance) {
    Job job;
    job.operation = {.number = number, .op = Operator::kSum, .count = chance() % 400};
    switch (chance() % 4) {
        case 0:
            job.operation.dtype = Dtype::kInt32;
            fill_job<std::int32_t>(job, members, chance, std::uint64_t{1} << 28);
            break;
        case 1:
            job.operation.dtype = Dtype::kInt64;
            fill_job<std::int64_t>(job, members, chance, std::uint64_t{1} << 60);
            break;
        case 2:  // sums of such integers are exact, scaled or raw
            job.operation.dtype = Dtype::kFloat32;
            fill_job<float>(job, members, chance, std::uint64_t{1} << 20);
            break;
        default:
            job.operation.dtype = Dtype::kFloat64;
            fill_job<double>(job, members, chance, std::uint64_t{1} << (chance() % 2 == 0 ? 10 : 45));
            break;
    }
    return job;
}

class History {
 public:
    explicit History(std::uint64_t seed)
        : chance_(seed), terms_(some_terms(chance_)), wire_(terms_), collector_(terms_) {
        constexpr std::uint64_t kLosses[] = {0, 1, 10, 100, 300};
        loss_ = kLosses[chance_() % 5];
        for (std::uint32_t rank = 0; rank < terms_.size(); ++rank) {
            members_.push_back(std::make_unique<Member>(terms_, rank));
            starts_.push_back(chance_() % 2 == 0 ? 0 : static_cast<Nanos>(chance_() % 50) * kMillisecond);
            started_.push_back(0);
        }
        for (std::uint64_t number = 1 + chance_() % 3; jobs_.size() < 4; ++number) {
            jobs_.push_back(some_job(number, terms_.size(), chance_));
        }
    }

    // Whether all ended, each with its sum.
    void run() {
        while (!all_done()) {
            REQUIRE(now_ < kMost);
            start();
            send();
            Nanos next = kNever;
            for (const auto& member : members_) {
                next = std::min(next, member->next_deadline(now_));
            }
            next = std::min(next, collector_.next_deadline(now_));
            next = ways_.empty() ? next : std::min(next, ways_.begin()->first);
            for (std::size_t rank = 0; rank < members_.size(); ++rank) {
                next = started_[rank] == jobs_.size() ? next : std::min(next, starts_[rank]);
            }
            REQUIRE(next != kNever);
            now_ = std::max(now_, next);
            deliver();
            take();
        }
        REQUIRE_FALSE(collector_.failure());
    }

 private:
    void start() {
        for (std::size_t rank = 0; rank < members_.size(); ++rank) {
            while (now_ >= starts_[rank] && started_[rank] < jobs_.size()) {
                Job& job = jobs_[started_[rank]++];
                Operation operation = job.operation;
                operation.in = job.in[rank];
                operation.out = job.out[rank];
                if (operation.number % 2 == 0) {
                    job.out[rank] = job.in[rank];  // in place
                    operation.out = job.out[rank];
                    operation.in = job.out[rank];
                }
                REQUIRE(members_[rank]->submit(operation).ok());
            }
        }
    }
    void send() {
        std::vector<std::byte> bytes(ASK_VALUES_FRONT + terms_.blocks * ASK_VALUES_BLOCK_BYTES);
        for (const auto& member : members_) {
            while (const auto sent = member->next_packet(bytes, now_)) {
                post(bytes, *sent);
            }
        }
        while (const auto sent = collector_.next_packet(bytes, now_)) {
            post(bytes, *sent);
        }
    }
    void post(std::span<const std::byte> bytes, const Outgoing& sent) {
        const std::size_t copies = sent.to.to_all ? members_.size() : 1;
        for (std::size_t copy = 0; copy < copies; ++copy) {
            const std::uint32_t host = sent.to.to_all ? terms_.seats[copy].channel.host : sent.to.host;
            if (sent.to.to_all && copy == terms_.root) {
                continue;
            }
            for (std::uint64_t i = chance_() % 1000 < 20 ? 2 : 1; i > 0; --i) {
                if (chance_() % 1000 >= loss_) {
                    const auto delay = static_cast<Nanos>(20 + chance_() % 40 +
                                                          (chance_() % 50 == 0 ? chance_() % 8000 : 0));
                    ways_.emplace(
                        now_ + delay * kMicrosecond,
                        Way{.bytes = {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(sent.bytes)},
                            .ports = sent.to.ports,
                            .host = host});
                }
            }
        }
    }
    void deliver() {
        while (!ways_.empty() && ways_.begin()->first <= now_) {
            const Way way = std::move(ways_.begin()->second);
            ways_.erase(ways_.begin());
            Refusal why{};
            const auto packet = wire_.open(way.bytes, way.ports, why);
            REQUIRE(packet);
            if (packet->front.type == ASK_VALUE || packet->front.type == ASK_HAVE) {
                collector_.on_packet(*packet, now_);
            } else {
                members_[way.host - 0xc6120001]->on_packet(*packet, now_);
            }
        }
    }
    void take() {
        for (std::size_t rank = 0; rank < members_.size(); ++rank) {
            while (const auto completion = members_[rank]->next_completion()) {
                REQUIRE_FALSE(completion->error);
                const Job& job = jobs_[completion->number - jobs_.front().operation.number];
                REQUIRE(job.out[rank] == job.expected);
                ++done_;
            }
        }
    }
    [[nodiscard]] bool all_done() const { return done_ == jobs_.size() * members_.size(); }

    struct Way {
        std::vector<std::byte> bytes;
        Ports ports;
        std::uint32_t host = 0;
    };

    std::mt19937_64 chance_;
    GroupTerms terms_;
    Wire wire_;
    Collector collector_;
    std::vector<std::unique_ptr<Member>> members_;
    std::vector<Nanos> starts_;
    std::vector<std::size_t> started_;
    std::deque<Job> jobs_;
    std::multimap<Nanos, Way> ways_;
    std::uint64_t loss_ = 0;
    std::size_t done_ = 0;
    Nanos now_ = 0;
};

TEST_CASE("values ends: members and a collector alone are exact and end, whatever the network loses") {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        CAPTURE(seed);
        History(seed).run();
    }
}

}  // namespace
}  // namespace ask::values
