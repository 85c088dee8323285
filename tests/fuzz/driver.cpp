// SPDX-License-Identifier: Apache-2.0
//
// Runs a fuzz target without libFuzzer, for the tests: every input of its corpus, then so many inputs made of
// those by chance. The same corpus, seed and count give the same inputs. An input that fails is written to
// crash-NAME in the working directory, to be kept in the corpus.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fuzz/fuzz.h"

// AddressSanitizer's reports end the process without a signal.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kLongest = 4096;

// What the handlers below read.
const Bytes* current = nullptr;
std::string crash_path;

void keep_input() {
    if (current == nullptr) {
        return;
    }
    const int fd = ::open(crash_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    constexpr std::string_view kSaid = "the input is in ";
    if (fd < 0 || ::write(fd, current->data(), current->size()) < 0 ||
        ::write(STDERR_FILENO, kSaid.data(), kSaid.size()) < 0 ||
        ::write(STDERR_FILENO, crash_path.c_str(), crash_path.size()) < 0 ||
        ::write(STDERR_FILENO, "\n", 1) < 0) {
        return;
    }
}

extern "C" void on_signal(int number) {
    keep_input();
    std::signal(number, SIG_DFL);
    std::raise(number);
}

void keep_inputs_that_fail(const std::string& target) {
    crash_path = "crash-" + target;
    for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
        std::signal(number, on_signal);
    }
    if (__sanitizer_set_death_callback != nullptr) {
        __sanitizer_set_death_callback(keep_input);
    }
}

// Makes inputs out of others as fuzzers do, one change upon the other.
class Mutator {
 public:
    Mutator(std::uint64_t seed, const std::vector<Bytes>& corpus) : random_(seed), corpus_(corpus) {}

    Bytes next() {
        Bytes bytes = any_input();
        for (std::uint64_t left = 1 + below(8); left > 0; --left) {
            change(bytes);
        }
        bytes.resize(std::min(bytes.size(), kLongest));
        return bytes;
    }

 private:
    std::uint64_t below(std::uint64_t count) { return random_() % count; }
    const Bytes& any_input() { return corpus_[below(corpus_.size())]; }
    // A place in `bytes`, or its end.
    std::ptrdiff_t place(const Bytes& bytes) { return static_cast<std::ptrdiff_t>(below(bytes.size() + 1)); }

    void change(Bytes& bytes) {
        if (bytes.empty()) {
            bytes.push_back(static_cast<std::uint8_t>(random_()));
            return;
        }
        std::uint8_t& byte = bytes[below(bytes.size())];
        switch (below(7)) {
            case 0:
                byte = static_cast<std::uint8_t>(byte ^ 1U << below(8));
                break;
            case 1:
                byte = static_cast<std::uint8_t>(random_());
                break;
            case 2:
                byte = static_cast<std::uint8_t>(byte + below(33) - 16);
                break;
            case 3:
                write_number(bytes);
                break;
            case 4:
                bytes.resize(1 + below(bytes.size()));
                break;
            case 5:
                insert(bytes);
                break;
            default:
                splice(bytes);
                break;
        }
    }

    // Over what is there: a number at which something ends.
    void write_number(Bytes& bytes) {
        constexpr std::array<std::uint64_t, 12> kNumbers{0,          1,          0x7f,   0x80,
                                                         0xff,       0x7fff,     0xffff, 0x7fffffff,
                                                         0x80000000, 0xffffffff, 1500,   ~std::uint64_t{0}};
        const std::uint64_t number = kNumbers[below(kNumbers.size())];
        const std::size_t size = std::size_t{1} << below(4);
        const auto at = static_cast<std::size_t>(place(bytes));
        for (std::size_t i = 0; i < size && at + i < bytes.size(); ++i) {
            bytes[at + i] = static_cast<std::uint8_t>(number >> (8 * (size - 1 - i)));
        }
    }

    void insert(Bytes& bytes) {
        Bytes more(1 + below(16));
        const auto value = static_cast<std::uint8_t>(random_());
        const bool same = below(2) == 0;
        std::ranges::generate(more, [&] { return same ? value : static_cast<std::uint8_t>(random_()); });
        bytes.insert(bytes.begin() + place(bytes), more.begin(), more.end());
    }

    // A piece of any input into this one.
    void splice(Bytes& bytes) {
        const Bytes& other = any_input();
        const std::ptrdiff_t from = place(other);
        const auto most = static_cast<std::uint64_t>(static_cast<std::ptrdiff_t>(other.size()) - from);
        const Bytes piece(other.begin() + from,
                          other.begin() + from + static_cast<std::ptrdiff_t>(below(most + 1)));
        bytes.insert(bytes.begin() + place(bytes), piece.begin(), piece.end());
    }

    std::mt19937_64 random_;
    const std::vector<Bytes>& corpus_;
};

// From a block of just its size, so that AddressSanitizer sees what is read past it.
void run(const Bytes& bytes) {
    const Bytes input(bytes.begin(), bytes.end());
    current = &input;
    LLVMFuzzerTestOneInput(input.data(), input.size());
    current = nullptr;
}

bool parse_number(std::string_view text, std::uint64_t& value, int base = 10) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    return error == std::errc() && end == text.data() + text.size();
}

// The files of an archive as tools/fuzz makes them (ustar: a block of header, then the bytes in whole
// blocks). Nothing if it is damaged.
std::vector<Bytes> read_archive(const Bytes& archive) {
    constexpr std::size_t kBlock = 512;
    constexpr std::size_t kSizeAt = 124;
    constexpr std::size_t kSizeDigits = 11;
    std::vector<Bytes> files;
    std::size_t at = 0;
    // A block of zeros ends it.
    while (at + kBlock <= archive.size() && archive[at] != 0) {
        const std::string digits(archive.begin() + static_cast<std::ptrdiff_t>(at + kSizeAt),
                                 archive.begin() + static_cast<std::ptrdiff_t>(at + kSizeAt + kSizeDigits));
        std::uint64_t size = 0;
        at += kBlock;
        if (!parse_number(digits, size, 8) || size > archive.size() - at) {
            return {};
        }
        const auto from = archive.begin() + static_cast<std::ptrdiff_t>(at);
        files.emplace_back(from, from + static_cast<std::ptrdiff_t>(size));
        at += (size + kBlock - 1) / kBlock * kBlock;
    }
    return files;
}

// Of an archive, or one input.
std::vector<Bytes> read_corpus(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) {
        return {};
    }
    Bytes bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    if (path.extension() == ".tar") {
        return read_archive(bytes);
    }
    return {std::move(bytes)};
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> args(argv, argv + argc);
    const std::string name = std::filesystem::path(args[0]).filename();
    std::uint64_t runs = 0;
    std::uint64_t seed = 0;
    if (args.size() != 4 || !parse_number(args[2], runs) || !parse_number(args[3], seed)) {
        std::fprintf(stderr, "Usage: %s CORPUS.tar|INPUT RUNS SEED\n", name.c_str());
        return 2;
    }
    const std::vector<Bytes> corpus = read_corpus(args[1]);
    if (corpus.empty()) {
        std::fprintf(stderr, "%s: no input in %s: tools/fuzz gathers some\n", name.c_str(), args[1].c_str());
        return 1;
    }
    keep_inputs_that_fail(name);
    std::ranges::for_each(corpus, run);
    Mutator mutator(seed, corpus);
    for (std::uint64_t i = 0; i < runs; ++i) {
        run(mutator.next());
    }
    std::printf("%s: %zu inputs of the corpus, %llu made of them\n", name.c_str(), corpus.size(),
                static_cast<unsigned long long>(runs));
    return 0;
}
