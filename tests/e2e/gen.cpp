// SPDX-License-Identifier: Apache-2.0
//
// ask-e2e-gen: random inputs for several senders, and the answer they must give, from a seed.
//
// The reference is a plain std::map with 128-bit values. It shares no code with the system: it has an
// escaping, a random generator and a word list of its own.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace {

__extension__ using Wide = __int128;

struct Options {
    std::uint64_t seed = 1;
    std::uint64_t senders = 1;
    std::uint64_t tuples = 10'000;  // of each sender
    std::uint64_t keys = 500;
    std::string op = "sum";
    std::string keys_form =
        "mixed";                   // mixed | short | whole: all classes, what fits any slot, up to 64 bytes
    std::string values = "mixed";  // mixed | small | one | wide | edge: see value_of()
    bool count_lines = false;      // lines for ask-send --count
    bool apart = false;            // no two senders have a key in common, see apart_key()
    std::string out;               // directory
};

// SplitMix64: a few lines, and the same numbers everywhere.
class Random {
 public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
    }
    std::uint64_t below(std::uint64_t limit) { return next() % limit; }

 private:
    std::uint64_t state_;
};

std::string random_bytes(Random& random, std::size_t length) {
    std::string bytes;
    while (bytes.size() < length) {
        bytes += static_cast<char>(1 + random.below(255));
    }
    return bytes;
}

std::string random_word(Random& random, std::size_t length) {
    std::string word;
    while (word.size() < length) {
        word += static_cast<char>('a' + random.below(26));
    }
    return word;
}

// One key of every awkward kind.
std::vector<std::string> special_keys(Random& random) {
    std::vector<std::string> keys = {"",   "k",         std::string("\0", 1), std::string("a\0b", 3),
                                     "\\", "\t\n\r\x7f"};
    constexpr std::array<std::size_t, 9> kLengths = {1, 3, 4, 5, 8, 9, 16, 17, 4096};
    for (const std::size_t length : kLengths) {
        const std::string key = random_bytes(random, length);
        keys.push_back(key);
        keys.push_back(key + '\0');
        keys.push_back('\0' + key);
    }
    return keys;
}

// Of any length to 64 bytes, every second one like a URL.
std::string random_whole(Random& random) {
    const std::size_t length = 1 + random.below(64);
    if (random.below(2) == 0) {
        return random_bytes(random, length);
    }
    return ("https://" + random_word(random, 1 + random.below(9)) + ".example/" + random_word(random, 64))
        .substr(0, std::max<std::size_t>(length, 12));
}

std::vector<std::string> make_keys(const Options& options, Random& random) {
    constexpr std::array<std::size_t, 9> kLengths = {1, 3, 4, 5, 8, 9, 12, 16, 17};
    std::vector<std::string> keys;
    if (options.keys_form == "mixed") {
        keys = special_keys(random);
    }
    while (keys.size() < options.keys) {
        if (options.keys_form == "whole") {
            keys.push_back(random_whole(random));
            continue;
        }
        const bool word = options.keys_form == "short" || random.below(2) == 0;
        const std::size_t length = word ? 1 + random.below(8) : kLengths[random.below(kLengths.size())];
        keys.push_back(word ? random_word(random, length) : random_bytes(random, length));
    }
    // Which of them are frequent should be chance too.
    for (std::size_t i = keys.size(); i > 1; --i) {
        std::swap(keys[i - 1], keys[random.below(i)]);
    }
    return keys;
}

// Some keys come again and again, most hardly ever. Keys of 4096 bytes are rare enough to keep files small.
const std::string& pick(const std::vector<std::string>& keys, Random& random) {
    for (;;) {
        const double u = static_cast<double>(random.below(1U << 30)) / (1U << 30);
        const std::string& key = keys[static_cast<std::size_t>(u * u * u * static_cast<double>(keys.size()))];
        if (key.size() < 1000 || random.below(20) == 0) {
            return key;
        }
    }
}

// Just inside and outside of what slots and whole keys can carry: 32 and 63 bits. `turn`: how many values of
// the key its sender had before. Every second sum is taken back, so that all together reach 63 bits and
// not 64.
std::int64_t edge_of(const Options& options, std::uint64_t turn, Random& random) {
    constexpr std::int64_t k32 = std::int64_t{1} << 31;
    constexpr std::int64_t k63 = std::int64_t{1} << 62;
    const std::int64_t off = static_cast<std::int64_t>(random.below(5)) - 2;
    if (options.op != "sum") {
        const std::int64_t edge = (random.below(2) == 0 ? k63 : k32) + off;
        return random.below(2) == 0 ? edge : -edge;
    }
    // What any part of the tuples sums up to is to fit, too.
    const std::int64_t edge = options.apart ? k32 : k63 / static_cast<std::int64_t>(options.senders);
    return (turn % 2 == 0 ? edge : -edge) + off;
}

std::int64_t value_of(const Options& options, std::uint64_t turn, Random& random) {
    const auto in_range = [&random](std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(high - low) + 1));
    };
    if (options.values == "one") {
        return 1;
    }
    if (options.values == "wide") {
        // Of sums as many as there are stay within 63 bits.
        const std::int64_t most = std::int64_t{1} << (options.op == "sum" ? 46 : 61);
        return in_range(-most, most);
    }
    if (options.values == "edge") {
        return edge_of(options, turn, random);
    }
    const std::uint64_t kind = options.values == "small" ? 99 : random.below(100);
    if (kind < 8) {
        return INT32_MAX;
    }
    if (kind < 12) {
        return INT32_MIN;
    }
    if (kind < 30) {
        return in_range(INT32_MIN, INT32_MAX);
    }
    if (kind < 34) {
        return in_range(-(1LL << 45), 1LL << 45);
    }
    if (kind == 34 && (options.op == "min" || options.op == "max")) {
        return random.below(2) == 0 ? INT64_MIN : INT64_MAX;
    }
    return in_range(-1000, 1000);
}

std::string hexadecimal(unsigned char byte) {
    std::array<char, 8> hex{};
    std::snprintf(hex.data(), hex.size(), "\\x%02x", byte);
    return hex.data();
}

std::string escape(const std::string& key) {
    std::string out;
    for (const char c : key) {
        const auto byte = static_cast<unsigned char>(c);
        const std::map<char, std::string> named = {
            {'\\', "\\\\"}, {'\t', "\\t"}, {'\n', "\\n"}, {'\r', "\\r"}, {'\0', "\\0"}};
        if (const auto found = named.find(c); found != named.end()) {
            out += found->second;
        } else if (byte < 32 || byte == 127) {
            out += hexadecimal(byte);
        } else if (byte >= 0x80 && byte < 0xa0 && out.ends_with('\xc2')) {
            out.back() = '\\';
            out += "xc2" + hexadecimal(byte);
        } else {
            out += c;
        }
    }
    return out;
}

std::string decimal(Wide value) {
    std::string digits;
    const bool negative = value < 0;
    do {
        const int digit = static_cast<int>(value % 10);
        digits += static_cast<char>('0' + (negative ? -digit : digit));
        value /= 10;
    } while (value != 0);
    if (negative) {
        digits += '-';
    }
    std::ranges::reverse(digits);
    return digits;
}

// What is expected of a key, and between what the values of any of its tuples, but one at least, are.
struct Expected {
    Wide value = 0;
    Wide low = 0;
    Wide high = 0;
};
using Answer = std::map<std::string, Expected>;

void account(Answer& answer, const std::string& op, const std::string& key, std::int64_t value) {
    const auto [entry, fresh] = answer.try_emplace(key);
    Expected& held = entry->second;
    if (op == "count" || op == "sum") {
        const Wide more = op == "count" ? 1 : value;
        held.low = fresh ? more : std::min({held.low, held.low + more, more});
        held.high = fresh ? more : std::max({held.high, held.high + more, more});
        held.value += more;
        return;
    }
    held.low = fresh ? value : std::min<Wide>(held.low, value);
    held.high = fresh ? value : std::max<Wide>(held.high, value);
    held.value = op == "min" ? held.low : held.high;
}

// The sender's number before it tells a key from all that others send; a digit and a colon keep most forms
// what they are.
std::string apart_key(std::uint64_t sender, const std::string& key) {
    return std::to_string(sender) + ":" + key;
}

bool write_input(const Options& options, const std::vector<std::string>& keys, std::uint64_t sender,
                 Random& random, Answer& answer) {
    std::ofstream file(options.out + "/in" + std::to_string(sender) + ".tsv", std::ios::binary);
    std::map<std::string, std::uint64_t> turns;
    for (std::uint64_t i = 0; i < options.tuples; ++i) {
        // Every sender has every key at least once, if it has tuples enough.
        const std::string& drawn = i < keys.size() ? keys[i] : pick(keys, random);
        const std::string key = options.apart ? apart_key(sender, drawn) : drawn;
        const std::int64_t value = value_of(options, turns[key]++, random);
        account(answer, options.op, key, value);
        file << escape(key);
        if (!options.count_lines) {
            file << '\t' << value;
        }
        file << '\n';
    }
    return file.flush().good();
}

bool write_answer(const Options& options, const Answer& answer) {
    std::ofstream file(options.out + "/expected.tsv", std::ios::binary);
    std::ofstream bounds;
    if (options.apart) {
        bounds.open(options.out + "/bounds.tsv", std::ios::binary);
    }
    // std::map<std::string> sorts by unsigned bytes, as std::char_traits compares them.
    for (const auto& [key, expected] : answer) {
        const Wide low = options.apart ? std::min(expected.value, expected.low) : expected.value;
        const Wide high = options.apart ? std::max(expected.value, expected.high) : expected.value;
        if (low < INT64_MIN || high > INT64_MAX) {
            std::cerr << "ask-e2e-gen: a result leaves int64: choose other options\n";
            return false;
        }
        file << escape(key) << '\t' << decimal(expected.value) << '\n';
        if (options.apart) {
            bounds << escape(key) << '\t' << decimal(expected.low) << '\t' << decimal(expected.high) << '\n';
        }
    }
    return file.flush().good() && bounds.flush().good();
}

bool parse(int argc, char** argv, Options& options) {
    const std::map<std::string, std::uint64_t*> numbers = {{"--seed", &options.seed},
                                                           {"--senders", &options.senders},
                                                           {"--tuples", &options.tuples},
                                                           {"--keys", &options.keys}};
    const std::map<std::string, std::string*> texts = {{"--op", &options.op},
                                                       {"--key-form", &options.keys_form},
                                                       {"--values", &options.values},
                                                       {"--out", &options.out}};
    for (int i = 1; i < argc; ++i) {
        const std::string flag = argv[i];
        if (flag == "--count-lines") {
            options.count_lines = true;
            options.op = "count";
        } else if (flag == "--apart") {
            options.apart = true;
        } else if (const auto number = numbers.find(flag); number != numbers.end() && i + 1 < argc) {
            *number->second = std::strtoull(argv[++i], nullptr, 10);
        } else if (const auto text = texts.find(flag); text != texts.end() && i + 1 < argc) {
            *text->second = argv[++i];
        } else {
            std::cerr << "ask-e2e-gen: unknown or incomplete option " << flag << "\n";
            return false;
        }
    }
    return !options.out.empty();
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    if (!parse(argc, argv, options)) {
        std::cerr << "Usage: ask-e2e-gen --out DIR [--seed N] [--senders N] [--tuples N] [--keys N]\n"
                     "       [--op sum|count|min|max] [--key-form mixed|short|whole] [--values "
                     "mixed|small|one|wide|edge] "
                     "[--count-lines]\n"
                     "       [--apart: senders have no key in common; bounds.tsv: KEY LOWEST HIGHEST, of any "
                     "part of its tuples]\n";
        return 2;
    }
    Random random(options.seed);
    const std::vector<std::string> keys = make_keys(options, random);
    Answer answer;
    bool good = true;
    for (std::uint64_t sender = 1; sender <= options.senders && good; ++sender) {
        good = write_input(options, keys, sender, random, answer);
    }
    if (!good || !write_answer(options, answer)) {
        std::cerr << "ask-e2e-gen: no files written to " << options.out << "\n";
        return 1;
    }
    return 0;
}
