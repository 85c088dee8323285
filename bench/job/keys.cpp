// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <random>
#include <string_view>
#include <unordered_set>

#include "bench/job/job.h"

namespace ask::bench {
namespace {

// Whatever the draw of tuples is: all senders draw from the same keys.
constexpr std::uint64_t kSeed = 20231;
constexpr std::uint32_t kMostKeys = 1U << 24U;

constexpr std::array<std::string_view, 40> kWords = {
    "account", "admin",   "album",   "archive", "article", "basket",  "blue",   "camera",
    "city",    "classic", "coffee",  "detail",  "event",   "family",  "garden", "gallery",
    "history", "image",   "kitchen", "light",   "market",  "message", "mobile", "news",
    "offer",   "order",   "outdoor", "photo",   "price",   "profile", "red",    "report",
    "review",  "season",  "service", "shoe",    "summer",  "travel",  "video",  "winter"};

// Not by the library's distributions, which differ from library to library.
class Draw {
 public:
    [[nodiscard]] std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
    [[nodiscard]] std::string number(std::uint64_t limit) { return std::to_string(below(limit)); }
    [[nodiscard]] std::string word() { return std::string(kWords[below(kWords.size())]); }
    [[nodiscard]] std::string words(std::uint64_t count, char between) {
        std::string out = word();
        while (--count > 0) {
            out += between + word();
        }
        return out;
    }
    [[nodiscard]] std::string hex(unsigned digits) {
        std::string out;
        while (digits-- > 0) {
            out += "0123456789abcdef"[below(16)];
        }
        return out;
    }

 private:
    std::mt19937_64 random_{kSeed};
};

// Of the ranges that hosts on the Internet have.
std::string address(Draw& draw) {
    std::uint64_t first = 0;
    do {
        first = 1 + draw.below(223);
    } while (first == 10 || first == 127);
    return std::to_string(first) + '.' + draw.number(256) + '.' + draw.number(256) + '.' + draw.number(256);
}

std::string page(Draw& draw) {
    switch (draw.below(6)) {
        case 0:
            return "/api/v" + draw.number(4) + '/' + draw.word() + "s/" + draw.number(10'000'000);
        case 1:
            return '/' + draw.word() + '/' + draw.word() + '/' + draw.number(100'000);
        case 2:
            return "/products/" + draw.words(2 + draw.below(3), '-') + '-' + draw.number(1'000'000);
        case 3:
            return "/static/" + draw.word() + '.' + draw.hex(8) + ".js";
        case 4:
            return "/20" + std::to_string(10 + draw.below(16)) + '/' + draw.words(3 + draw.below(4), '-') +
                   ".html";
        default:
            return "/search?q=" + draw.words(1 + draw.below(4), '+') + "&page=" + draw.number(50);
    }
}

// One of 32 leads here from elsewhere, and says so at length.
std::string path(Draw& draw) {
    std::string out = page(draw);
    if (draw.below(32) == 0) {
        out += out.find('?') == std::string::npos ? '?' : '&';
        out += "utm_source=" + draw.word() + "&utm_medium=" + draw.word() +
               "&utm_campaign=" + draw.words(3, '-');
    }
    return out;
}

}  // namespace

Result<std::vector<std::string>> keys_of(Form form, std::uint32_t keys) {
    if (keys > kMostKeys) {
        return Error(Errc::kLimit, "there are up to " + std::to_string(kMostKeys) +
                                       " addresses and paths, not " + std::to_string(keys) +
                                       ": ask for fewer with --keys");
    }
    Draw draw;
    std::unordered_set<std::string> seen;
    std::vector<std::string> out;
    out.reserve(keys);
    while (out.size() < keys) {
        std::string key = form == Form::kAddress ? address(draw) : path(draw);
        if (seen.insert(key).second) {
            out.push_back(std::move(key));
        }
    }
    return out;
}

}  // namespace ask::bench
