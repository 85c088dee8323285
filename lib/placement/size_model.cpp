// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/size_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>

namespace ask::placement {
namespace {

bool is_positive(double value) {
    return std::isfinite(value) && value > 0;
}

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// The text as a sequence of word numbers, and each word.
struct Corpus {
    std::vector<std::uint32_t> words;
    std::vector<std::string> spelled;
};

Corpus read_corpus(std::string_view text) {
    Corpus corpus;
    std::unordered_map<std::string, std::uint32_t> number;
    std::string word;
    for (std::size_t at = 0; at <= text.size(); ++at) {
        if (at < text.size() && is_letter(text[at])) {
            word.push_back(static_cast<char>(text[at] | 0x20));
            continue;
        }
        if (word.empty()) {
            continue;
        }
        const auto [entry, fresh] =
            number.try_emplace(word, static_cast<std::uint32_t>(corpus.spelled.size()));
        if (fresh) {
            corpus.spelled.push_back(word);
        }
        corpus.words.push_back(entry->second);
        word.clear();
    }
    return corpus;
}

// The paper's messages: the letters of each word, and its count.
class SummedList final : public WordList {
 public:
    explicit SummedList(double bytes_per_count) : bytes_per_count_(bytes_per_count) {}
    void clear() override { bytes_ = 0; }
    void add(std::string_view word) override {
        bytes_ += static_cast<double>(word.size()) + bytes_per_count_;
    }
    [[nodiscard]] double bytes() const override { return bytes_; }

 private:
    double bytes_per_count_;
    double bytes_ = 0;
};

// Adds up, for every m that is asked for, the size of the union of the first m shards in `order`.
void measure_order(const Corpus& corpus, const std::vector<std::uint32_t>& order, WordList& list,
                   std::vector<SizePoint>& points) {
    std::vector<bool> seen(corpus.spelled.size(), false);
    const std::size_t shards = order.size();
    list.clear();
    std::size_t next = 0;
    for (std::size_t taken = 0; taken < shards; ++taken) {
        const std::size_t begin = corpus.words.size() * order[taken] / shards;
        const std::size_t end = corpus.words.size() * (order[taken] + std::size_t{1}) / shards;
        for (std::size_t at = begin; at < end; ++at) {
            const std::uint32_t word = corpus.words[at];
            if (!seen[word]) {
                seen[word] = true;
                list.add(corpus.spelled[word]);
            }
        }
        if (next < points.size() && points[next].servers == taken + 1) {
            points[next++].bytes += list.bytes();
        }
    }
}

// `points` come with their numbers of servers.
Result<std::vector<SizePoint>> measure_points(std::string_view text, std::vector<SizePoint> points,
                                              std::uint32_t rounds, std::uint64_t seed, WordList& list) {
    const auto shards = static_cast<std::uint32_t>(points.back().servers);
    if (shards == 0 || rounds == 0) {
        return Error(Errc::kInput, "word count needs at least one shard and one round");
    }
    const Corpus corpus = read_corpus(text);
    if (corpus.words.size() < shards) {
        return Error(Errc::kInput, "the text has " + std::to_string(corpus.words.size()) + " words for " +
                                       std::to_string(shards) +
                                       " shards; give a longer text or fewer shards");
    }
    std::vector<std::uint32_t> order(shards);
    std::iota(order.begin(), order.end(), 0U);
    std::mt19937_64 random(seed);
    for (std::uint32_t round = 0; round < rounds; ++round) {
        std::shuffle(order.begin(), order.end(), random);
        measure_order(corpus, order, list, points);
    }
    for (SizePoint& point : points) {
        point.bytes /= rounds;
    }
    return points;
}

}  // namespace

Result<SizeModel> SizeModel::constant(double bytes) {
    if (!is_positive(bytes)) {
        return Error(Errc::kInput,
                     "message size " + std::to_string(bytes) + " is not a positive number of bytes");
    }
    SizeModel model;
    model.full_ = bytes;
    return model;
}

Result<SizeModel> SizeModel::parameter_server(std::uint64_t features, double dropout,
                                              double bytes_per_value) {
    if (features == 0 || !is_positive(bytes_per_value)) {
        return Error(Errc::kInput,
                     "a parameter server needs at least one feature and a positive size for it");
    }
    if (!(dropout >= 0 && dropout < 1)) {
        return Error(Errc::kInput, "dropout " + std::to_string(dropout) + " is outside [0, 1)");
    }
    SizeModel model;
    model.kind_ = Kind::kParameterServer;
    model.full_ = static_cast<double>(features) * bytes_per_value;
    model.dropout_ = dropout;
    return model;
}

Result<SizeModel> SizeModel::measured(std::vector<SizePoint> points) {
    if (points.empty()) {
        return Error(Errc::kInput, "a measured size model needs at least one point");
    }
    for (std::size_t at = 0; at < points.size(); ++at) {
        const std::string name = "size point " + std::to_string(at);
        if (!is_positive(points[at].bytes)) {
            return Error(Errc::kInput, name + ": " + std::to_string(points[at].bytes) +
                                           " is not a positive number of bytes");
        }
        if (points[at].servers <= (at == 0 ? 0 : points[at - 1].servers)) {
            return Error(Errc::kInput, name + ": " + std::to_string(points[at].servers) +
                                           " servers; points need strictly increasing numbers from 1");
        }
    }
    SizeModel model;
    model.kind_ = Kind::kMeasured;
    model.points_ = std::move(points);
    return model;
}

double SizeModel::bytes(std::uint64_t servers) const {
    if (servers == 0) {
        return 0;
    }
    switch (kind_) {
        case Kind::kConstant:
            return full_;
        case Kind::kParameterServer:
            return full_ * (1 - std::pow(dropout_, static_cast<double>(servers)));
        case Kind::kMeasured:
            break;
    }
    return interpolate(servers);
}

double SizeModel::interpolate(std::uint64_t servers) const {
    const auto after =
        std::lower_bound(points_.begin(), points_.end(), servers,
                         [](const SizePoint& point, std::uint64_t m) { return point.servers < m; });
    if (after == points_.begin()) {
        return points_.front().bytes;
    }
    if (after == points_.end()) {
        return points_.back().bytes;
    }
    const auto before = after - 1;
    const double share = static_cast<double>(servers - before->servers) /
                         static_cast<double>(after->servers - before->servers);
    return before->bytes + share * (after->bytes - before->bytes);
}

Result<std::vector<SizePoint>> measure_word_count(std::string_view text, std::uint32_t shards,
                                                  std::uint32_t rounds, std::uint64_t seed,
                                                  double bytes_per_count) {
    std::vector<SizePoint> points;
    for (std::uint64_t m = 1; m < shards; m *= 2) {
        points.push_back({m, 0});
    }
    points.push_back({shards, 0});
    SummedList list(bytes_per_count);
    return measure_points(text, std::move(points), rounds, seed, list);
}

Result<std::vector<SizePoint>> measure_word_count(std::string_view text, std::uint32_t shards,
                                                  std::uint32_t rounds, std::uint64_t seed, WordList& list) {
    std::vector<SizePoint> points;
    for (std::uint64_t m = 1; m < shards; m += std::max<std::uint64_t>(1, m / 8)) {
        points.push_back({m, 0});
    }
    points.push_back({shards, 0});
    return measure_points(text, std::move(points), rounds, seed, list);
}

}  // namespace ask::placement
