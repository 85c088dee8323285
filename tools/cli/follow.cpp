// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/follow.h"

#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "tools/cli/member_state.h"
#include "tools/cli/tail_input.h"

namespace ask::cli {
namespace {

// Stays in a core's cache between being read and being parsed.
constexpr std::size_t kPieceOfPipe = 256U << 10U;

// What does not end, piece by piece.
class Endless {
 public:
    virtual ~Endless() = default;
    // Readable when there may be more.
    [[nodiscard]] virtual int fd() const = 0;
    // Hands on what has come; false: it has ended all the same.
    virtual Result<bool> read(client::StreamSender& stream) = 0;
    // Nothing more is read.
    virtual void stop() {}
};

class EndlessPipe : public Endless {
 public:
    EndlessPipe(Input input, const LineRules& rules, BadLines& bad)
        : input_(std::move(input)), parser_(input_.name, rules, &bad) {}
    [[nodiscard]] int fd() const override { return input_.fd; }
    Result<bool> read(client::StreamSender& stream) override {
        const auto sink = [&stream](std::span<const Tuple> tuples) { return stream.send(tuples); };
        const ssize_t count = ::read(input_.fd, buffer_.get(), kPieceOfPipe);
        if (count < 0 && errno != EINTR && errno != EAGAIN) {
            return Error::from_errno(errno, input_.name);
        }
        if (count == 0) {
            ASK_PASS(parser_.finish(sink));
            return false;
        }
        if (count > 0) {
            ASK_PASS(parser_.feed({buffer_.get(), static_cast<std::size_t>(count)}, sink));
        }
        return true;
    }
    // A successor may read on while this one still waits for its windows.
    void stop() override { leave_pipe(input_); }

 private:
    Input input_;
    LineParser parser_;
    std::unique_ptr<char[]> buffer_ = std::make_unique_for_overwrite<char[]>(kPieceOfPipe);
};

class EndlessFile : public Endless {
 public:
    EndlessFile(TailInput tail, const std::string& name, const LineRules& rules, BadLines& bad)
        : tail_(std::move(tail)), parser_(name, rules, &bad) {}
    [[nodiscard]] int fd() const override { return tail_.fd(); }
    [[nodiscard]] const FilePlace& place() const { return tail_.place(); }
    [[nodiscard]] std::vector<FilePlace> take_left() { return tail_.take_left(); }
    [[nodiscard]] std::uint64_t lost() const { return tail_.lost(); }
    Result<bool> read(client::StreamSender& stream) override {
        const auto lines = tail_.next();
        ASK_PASS(lines);
        ASK_PASS(parser_.feed(*lines, [&stream](std::span<const Tuple> some) { return stream.send(some); }));
        return true;
    }

 private:
    TailInput tail_;
    LineParser parser_;
};

Result<> read_all(Endless& input, client::StreamSender& stream, const StopSignals& stop) {
    while (!stop.raised()) {
        const auto more = stream.wait_for_input(input.fd());
        if (!more && stop.raised()) {
            return {};
        }
        ASK_PASS(more);
        if (!*more) {
            return {};
        }
        const auto goes_on = input.read(stream);
        if (!goes_on && stop.raised()) {
            return {};
        }
        ASK_PASS(goes_on);
        if (!*goes_on) {
            return {};
        }
    }
    return {};
}

Result<client::StreamSent> run_to_end(const FollowRun& run, Endless& input, const StopSignals& stop,
                                      ProgressLine& progress) {
    const std::string& name = run.stream.name;
    progress.show("looking for stream " + name + " at " + run.stream.to);
    auto stream = client::StreamSender::open(run.stream);
    ASK_PASS(stream);
    progress.show("stream " + name + ": sending");
    ASK_PASS(read_all(input, *stream, stop));
    input.stop();
    // The first signal ends the input, a second one the wait for what it has given.
    stop.take();
    progress.show("stream " + name + ": leaving");
    return stream->leave();
}

Result<> read_before(TailInput& tail, const FilePlace& end, LineParser& parser,
                     const std::function<Result<>(std::span<const Tuple>)>& sink) {
    for (;;) {
        const auto piece = tail.next_before(end);
        ASK_PASS(piece);
        if (piece->empty()) {
            return {};
        }
        ASK_PASS(parser.feed(*piece, sink));
    }
}

// What an earlier process has given to a window, once more.
Result<> give_again(const FollowRun& run, const MemberState& state, BadLines& bad, std::uint64_t window,
                    const std::function<Result<>(std::span<const Tuple>)>& sink) {
    for (const WindowLines& lines : state.windows()) {
        if (lines.number != window) {
            continue;
        }
        LineParser parser(run.file, run.rules.lines, &bad);
        FilePlace from = lines.from;
        for (std::size_t i = 0; i <= lines.left.size(); ++i) {
            const FilePlace& end = i < lines.left.size() ? lines.left[i] : lines.to;
            if (i > 0) {
                from = {.device = end.device, .inode = end.inode};
            }
            auto tail = TailInput::open({.path = run.file, .from = from});
            ASK_PASS(tail);
            ASK_PASS(read_before(*tail, end, parser, sink));
        }
    }
    return {};
}

void remember(FollowRun& run, const MemberState& state, BadLines& bad) {
    client::StreamMemory& memory = run.stream.memory;
    memory.member = state.member();
    memory.nonce = state.nonce();
    memory.committed = state.committed();
    memory.inside = state.inside();
    for (const WindowLines& lines : state.windows()) {
        memory.ended.push_back(lines.number);
    }
    memory.again = [&run, &state, &bad](std::uint64_t window,
                                        const std::function<Result<>(std::span<const Tuple>)>& sink) {
        return give_again(run, state, bad, window, sink);
    };
}

void say_lost(const FollowRun& run, const EndlessFile& input, ProgressLine& progress) {
    if (input.lost() > 0) {
        progress.warn(run.file + ": " + std::to_string(input.lost()) +
                      " file(s) were rotated and compressed before they could be read");
    }
}

Result<client::StreamSent> follow_file(FollowRun run, const StopSignals& stop, BadLines& bad,
                                       ProgressLine& progress) {
    std::optional<MemberState> state;
    std::optional<FilePlace> from;
    if (!run.state.empty()) {
        auto opened = MemberState::open(run.state, run.stream.name + " at " + run.stream.to, run.file);
        ASK_PASS(opened);
        state = *std::move(opened);
        from = state->is_new() ? std::nullopt : std::optional(state->place());
    }
    auto tail =
        TailInput::open({.path = run.file, .from = from, .on_news = [&progress](const std::string& news) {
                             progress.warn(news);
                         }});
    ASK_PASS(tail);
    EndlessFile input(*std::move(tail), run.file, run.rules.lines, bad);
    if (!state) {
        auto sent = run_to_end(run, input, stop, progress);
        say_lost(run, input, progress);
        return sent;
    }
    ASK_PASS(state->is_new() ? state->begin(input.place()) : Result<>());
    remember(run, *state, bad);
    run.stream.on_step = [&state, &input](const client::StreamStep& step) {
        return state->step(step, input.place(), input.take_left());
    };
    auto sent = run_to_end(run, input, stop, progress);
    say_lost(run, input, progress);
    ASK_PASS(sent);
    ASK_PASS(state->leave(input.place()));
    return sent;
}

}  // namespace

Result<client::StreamSent> follow_input(FollowRun run, const StopSignals& stop, BadLines& bad,
                                        ProgressLine& progress) {
    auto input = open_input(run.file);
    ASK_PASS(input);
    bad.begin();
    run.stream.cancel_fd = stop.fd();
    run.stream.on_news = [&progress](const client::StreamNews& news) {
        if (news.is_loss) {
            progress.warn(news.text);
        } else {
            progress.say(news.text);
        }
    };
    if (input->regular() && run.file != "-") {
        run.stream.in_pieces = true;
        return follow_file(std::move(run), stop, bad, progress);
    }
    if (input->regular()) {
        return Error(Errc::kUsage, "standard input is a file: --follow FILE follows it by its name");
    }
    if (!run.state.empty()) {
        return Error(
            Errc::kUsage,
            "--state: what comes through a pipe comes but once: name a file that stays, or leave it out");
    }
    ASK_PASS(take_pipe(*input));
    EndlessPipe pipe(*std::move(input), run.rules.lines, bad);
    return run_to_end(run, pipe, stop, progress);
}

}  // namespace ask::cli
