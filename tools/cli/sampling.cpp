// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/sampling.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>

namespace ask::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kPieceBytes = 32U << 10U;
constexpr std::uint64_t kMostPieces = 16;
constexpr std::uint32_t kPieceTuples = KeySampler::kMaxTuples / kMostPieces;
constexpr std::size_t kHeadBytes = 256U << 10U;

// Takes samples out of pieces of text and estimates how many lines all of it has.
class TextSampler {
 public:
    explicit TextSampler(LineForm form) : form_(form) {}

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
        for (std::string_view left = lines; !left.empty() && most > 0;) {
            const std::uint32_t taken = take_lines(left, most);
            most -= taken;
            left = without_lines(left, taken + 1);  // the one that is malformed, if there is more
        }
    }

    // `all_bytes` of text in all, 0: nobody knows.
    [[nodiscard]] std::optional<KeySample> finish(std::uint64_t all_bytes) {
        if (sampler_.tuples() == 0) {
            return std::nullopt;
        }
        const double lines_a_byte = static_cast<double>(lines_) / static_cast<double>(bytes_);
        return sampler_.finish(static_cast<std::uint64_t>(static_cast<double>(all_bytes) * lines_a_byte));
    }

 private:
    // Samples lines up to a malformed one, `most` of them at most; says how many.
    std::uint32_t take_lines(std::string_view lines, std::uint32_t most) {
        std::uint32_t taken = 0;
        const auto sink = [&](std::span<const Tuple> tuples) -> Result<> {
            tuples = tuples.first(std::min<std::size_t>(tuples.size(), most - taken));
            for (const Tuple& tuple : tuples) {
                sampler_.add(tuple.key, tuple.value);
            }
            taken += static_cast<std::uint32_t>(tuples.size());
            return taken < most ? Result<>() : Error(Errc::kLimit, "enough");
        };
        LineParser parser("", form_);
        if (parser.feed(lines, sink)) {
            // Only the last line of a text may lack its newline.
            [[maybe_unused]] const auto malformed = parser.finish(sink);
        }
        return taken;
    }
    static std::string_view without_lines(std::string_view lines, std::uint32_t count) {
        for (; count > 0 && !lines.empty(); --count) {
            lines.remove_prefix(std::min(lines.find('\n'), lines.size() - 1) + 1);
        }
        return lines;
    }

    LineForm form_;
    KeySampler sampler_;
    std::uint64_t bytes_ = 0;
    std::uint64_t lines_ = 0;
};

// A regular file, from where it will be read on.
struct Stretch {
    Input input;
    off_t start = 0;
    std::uint64_t bytes = 0;
};

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
        std::string piece(std::min(kPieceBytes, stretch.bytes - at), '\0');
        const ssize_t got =
            ::pread(stretch.input.fd, piece.data(), piece.size(), stretch.start + static_cast<off_t>(at));
        piece.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
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
    std::uint64_t bytes = 0;     // of all stretches
    bool others = false;         // besides, and besides the first file
    std::optional<Input> first;  // the first file, if it is not regular
    // Of all files; 0: nobody knows. A pipe that has ended is known as well as a file.
    [[nodiscard]] std::uint64_t all_bytes() const {
        return others || (first && !first->ended) ? 0 : bytes + (first ? first->head.size() : 0);
    }
};

Result<Inputs> open_inputs(const std::vector<std::string>& files) {
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
        } else if (auto stretch = stretch_of(*std::move(input))) {
            inputs.bytes += stretch->bytes;
            inputs.stretches.push_back(*std::move(stretch));
        }
    }
    return inputs;
}

}  // namespace

Result<Sampled> sample_inputs(const std::vector<std::string>& files, LineForm form, int stop_fd,
                              std::chrono::milliseconds patience) {
    auto inputs = open_inputs(files);
    if (!inputs) {
        return std::move(inputs).error();
    }
    TextSampler sampler(form);
    if (inputs->first) {
        if (auto read = read_head(*inputs->first, stop_fd, Clock::now() + patience); !read) {
            return std::move(read).error();
        }
        sampler.take(inputs->first->head, true, inputs->first->ended, KeySampler::kMaxTuples);
    }
    const std::uint64_t all_bytes = inputs->all_bytes();
    const std::uint64_t pieces = std::clamp(inputs->bytes / kPieceBytes, std::uint64_t{1}, kMostPieces);
    for (std::uint64_t piece = 0; piece < pieces && inputs->bytes > 0; ++piece) {
        take_piece(inputs->stretches, inputs->bytes / pieces * piece, sampler);
    }
    return Sampled{sampler.finish(all_bytes), std::move(inputs->first)};
}

}  // namespace ask::cli
