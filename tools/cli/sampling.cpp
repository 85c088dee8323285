// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/sampling.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <string_view>

#include "lib/base/random.h"

namespace ask::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kPieceBytes = 32U << 10U;
constexpr std::uint64_t kMostPieces = 16;
constexpr std::uint32_t kPieceTuples = KeySampler::kMaxTuples / kMostPieces;
constexpr std::size_t kHeadBytes = 256U << 10U;
// Of what was compressed.
constexpr std::size_t kMostText = 1U << 20U;
constexpr std::size_t kStepBytes = 16U << 10U;
// Enough to tell compressed data by.
constexpr std::size_t kMagicBytes = 16;

// Takes samples out of pieces of text and estimates how many lines all of it has.
class TextSampler {
 public:
    explicit TextSampler(const LineRules& rules) : rules_(rules) {}

    // A piece's whole lines; what comes before the first newline is the end of a line that started earlier,
    // unless the piece is the `start` of a text.
    void take(std::string_view piece, bool start, bool end, std::uint32_t most) {
        const std::size_t first = start ? 0 : piece.find('\n') + 1;
        const std::size_t last = end ? piece.size() : piece.rfind('\n') + 1;
        if (last <= first || (!start && first == 0)) {
            return;
        }
        const std::string_view lines = piece.substr(first, last - first);
        bytes_ += lines.size();
        lines_ +=
            static_cast<std::uint64_t>(std::ranges::count(lines, '\n')) + (lines.back() == '\n' ? 0 : 1);
        std::uint32_t taken = 0;
        const auto sink = [&](std::span<const Tuple> tuples) -> Result<> {
            tuples = tuples.first(std::min<std::size_t>(tuples.size(), most - taken));
            for (const Tuple& tuple : tuples) {
                sampler_.add(tuple.key, tuple.value);
            }
            taken += static_cast<std::uint32_t>(tuples.size());
            return taken < most ? Result<>() : Error(Errc::kLimit, "enough");
        };
        BadLines passed_over(std::numeric_limits<std::uint64_t>::max(), nullptr);
        LineParser parser("", rules_, &passed_over);
        if (parser.feed(lines, sink)) {
            // Only the last line of a text may lack its newline.
            [[maybe_unused]] const auto enough = parser.finish(sink);
        }
    }
    void next_place() { sampler_.next_place(); }
    // What has been taken since the last time was out of `all_bytes` of text.
    void expect(std::uint64_t all_bytes) {
        if (bytes_ > 0) {
            const double lines_a_byte = static_cast<double>(lines_) / static_cast<double>(bytes_);
            expected_ += static_cast<std::uint64_t>(static_cast<double>(all_bytes) * lines_a_byte);
        }
        lines_ = 0;
        bytes_ = 0;
    }

    // `whole`: everything there is has been expected.
    [[nodiscard]] std::optional<KeySample> finish(bool whole) {
        if (sampler_.tuples() == 0) {
            return std::nullopt;
        }
        return sampler_.finish(whole ? expected_ : 0);
    }

 private:
    LineRules rules_;
    KeySampler sampler_{make_seed(random_u64)};
    std::uint64_t bytes_ = 0;
    std::uint64_t lines_ = 0;
    std::uint64_t expected_ = 0;
};

// The text at the start of an input.
struct Start {
    std::string text;
    bool whole = false;           // there is no more of it
    std::uint64_t all_bytes = 0;  // of text in all, estimated by how much this start was
};

// `bytes` at the start of an input that has `all` of them.
Start start_of(std::string_view bytes, std::uint64_t all, const ContentRules& content) {
    Start start;
    const TextSink sink = [&start](std::string_view text) -> Result<> {
        start.text += text;
        return start.text.size() < kMostText ? Result<>() : Error(Errc::kLimit, "enough");
    };
    TextStream stream("", content);
    Result<> read;
    std::size_t used = 0;
    while (read.ok() && used < bytes.size()) {
        const std::string_view step = bytes.substr(used, kStepBytes);
        used += step.size();
        read = stream.feed(step, sink);
    }
    if (read.ok() && used == all) {
        read = stream.finish(sink);
        start.whole = read.ok();
    }
    const double expansion =
        static_cast<double>(start.text.size()) / static_cast<double>(std::max<std::size_t>(used, 1));
    start.all_bytes = static_cast<std::uint64_t>(static_cast<double>(all) * expansion);
    return start;
}

// A regular file, from where it will be read on.
struct Stretch {
    Input input;
    off_t start = 0;
    std::uint64_t bytes = 0;

    [[nodiscard]] std::string read(std::uint64_t at, std::size_t most) const {
        std::string piece(std::min<std::uint64_t>(most, bytes - at), '\0');
        const ssize_t got = ::pread(input.fd, piece.data(), piece.size(), start + static_cast<off_t>(at));
        piece.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
        return piece;
    }
};

bool is_compressed(const Stretch& stretch, const ContentRules& content) {
    TextStream stream("", content);
    const auto no_text = [](std::string_view) { return Result<>(); };
    [[maybe_unused]] const auto read = stream.feed(stretch.read(0, kMagicBytes), no_text);
    return stream.compressed();
}

std::optional<Stretch> stretch_of(Input input) {
    struct stat info{};
    const off_t start = ::lseek(input.fd, 0, SEEK_CUR);
    if (start < 0 || ::fstat(input.fd, &info) != 0 || info.st_size <= start) {
        return std::nullopt;
    }
    return Stretch{std::move(input), start, static_cast<std::uint64_t>(info.st_size - start)};
}

// The piece at `at` of all stretches together.
void take_piece(const std::vector<Stretch>& stretches, std::uint64_t at, TextSampler& sampler) {
    for (const Stretch& stretch : stretches) {
        if (at >= stretch.bytes) {
            at -= stretch.bytes;
            continue;
        }
        const std::string piece = stretch.read(at, kPieceBytes);
        sampler.take(piece, at == 0, at + piece.size() == stretch.bytes, kPieceTuples);
        return;
    }
}

// Reads into the input's head until it is long enough, has ended, or time is up.
Result<> read_head(Input& input, int stop_fd, Clock::time_point until) {
    while (input.head.size() < kHeadBytes && !input.ended) {
        if (auto go_on = check_stop(stop_fd); !go_on) {
            return go_on;
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
        std::array<pollfd, 2> polls{pollfd{input.fd, POLLIN, 0}, pollfd{stop_fd, POLLIN, 0}};
        const int ready =
            ::poll(polls.data(), polls.size(), static_cast<int>(std::max<std::int64_t>(left, 0)));
        if (ready == 0) {
            return {};
        }
        if (ready < 0 || polls[0].revents == 0) {
            continue;
        }
        std::array<char, 65536> buffer;
        const ssize_t count = ::read(input.fd, buffer.data(), buffer.size());
        if (count < 0 && errno != EINTR && errno != EAGAIN) {
            return Error::from_errno(errno, input.name);
        }
        input.ended = count == 0;
        input.head.append(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    }
    return {};
}

// What there is to sample.
struct Inputs {
    std::vector<Stretch> stretches;
    std::uint64_t bytes = 0;  // of all stretches
    std::vector<Stretch> compressed;
    bool others = false;         // besides, and besides the first file
    std::optional<Input> first;  // the first file, if it is not regular
    // How much there is in all. A pipe that has ended is known as well as a file.
    [[nodiscard]] bool all_known() const { return !others && (!first || first->ended); }
};

Result<Inputs> open_inputs(const std::vector<std::string>& files, const ContentRules& content) {
    Inputs inputs;
    for (std::size_t i = 0; i < files.size(); ++i) {
        struct stat info{};
        if (i > 0 && ::stat(files[i].c_str(), &info) == 0 && S_ISFIFO(info.st_mode)) {
            inputs.others = true;  // its writer would lose its reader if this look were all
            continue;
        }
        auto input = open_input(files[i]);
        if (!input) {
            return std::move(input).error();
        }
        if (!input->regular()) {
            inputs.others = inputs.others || i > 0;
            if (i == 0) {
                inputs.first = *std::move(input);
            }
        } else if (auto stretch = stretch_of(*std::move(input)); !stretch) {
            continue;
        } else if (is_compressed(*stretch, content)) {
            inputs.compressed.push_back(*std::move(stretch));
        } else {
            inputs.bytes += stretch->bytes;
            inputs.stretches.push_back(*std::move(stretch));
        }
    }
    return inputs;
}

}  // namespace

Result<Sampled> sample_inputs(const std::vector<std::string>& files, const InputRules& rules, int stop_fd,
                              std::chrono::milliseconds patience) {
    auto inputs = open_inputs(files, rules.content);
    if (!inputs) {
        return std::move(inputs).error();
    }
    TextSampler sampler(rules.lines);
    if (inputs->first) {
        const Input& first = *inputs->first;
        if (auto read = read_head(*inputs->first, stop_fd, Clock::now() + patience); !read) {
            return std::move(read).error();
        }
        const Start start = start_of(first.head, first.head.size() + (first.ended ? 0 : 1), rules.content);
        sampler.take(start.text, true, start.whole, KeySampler::kMaxTuples);
        sampler.expect(start.all_bytes);
    }
    for (const Stretch& stretch : inputs->compressed) {
        const Start start = start_of(stretch.read(0, kHeadBytes), stretch.bytes, rules.content);
        const auto share = static_cast<std::uint32_t>(KeySampler::kMaxTuples / inputs->compressed.size());
        sampler.take(start.text, true, start.whole, std::max(share, 1U));
        sampler.expect(start.all_bytes);
    }
    const std::uint64_t pieces = std::clamp(inputs->bytes / kPieceBytes, std::uint64_t{1}, kMostPieces);
    for (std::uint64_t piece = 0; piece < pieces && inputs->bytes > 0; ++piece) {
        if (pieces > 1) {
            sampler.next_place();
        }
        take_piece(inputs->stretches, inputs->bytes / pieces * piece, sampler);
    }
    sampler.expect(inputs->bytes);
    return Sampled{sampler.finish(inputs->all_known()), std::move(inputs->first)};
}

}  // namespace ask::cli
