// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/follow.h"

#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

namespace ask::cli {
namespace {

constexpr std::size_t kPieceOfPipe = 64U << 10U;

// Hands on what comes until there is no more.
class Reading {
 public:
    Reading(const FollowRun& run, Input& input, client::StreamSender& stream, BadLines& bad)
        : input_(input), stream_(stream), parser_(input.name, run.rules.lines, &bad) {}

    Result<> run(const StopSignals& stop) {
        const auto sink = [this](std::span<const Tuple> tuples) { return stream_.send(tuples); };
        const auto buffer = std::make_unique_for_overwrite<char[]>(kPieceOfPipe);
        while (!stop.raised()) {
            const auto more = stream_.wait_for_input(input_.fd);
            if (!more && stop.raised()) {
                break;
            }
            ASK_PASS(more);
            if (!*more) {
                return {};
            }
            const ssize_t count = ::read(input_.fd, buffer.get(), kPieceOfPipe);
            if (count < 0 && errno != EINTR && errno != EAGAIN) {
                return Error::from_errno(errno, input_.name);
            }
            if (count == 0) {
                break;
            }
            if (count > 0) {
                ASK_PASS(parser_.feed({buffer.get(), static_cast<std::size_t>(count)}, sink));
            }
        }
        return parser_.finish(sink);
    }

 private:
    Input& input_;
    client::StreamSender& stream_;
    LineParser parser_;
};

}  // namespace

Result<client::StreamSent> follow_input(FollowRun run, StopSignals& stop, BadLines& bad,
                                        ProgressLine& progress) {
    auto input = open_input(run.file);
    ASK_PASS(input);
    if (input->regular()) {
        return Error(Errc::kUsage, input->name + ": --follow reads a pipe: tail -F " +
                                       (run.file == "-" ? "FILE" : run.file) + " | ask-send --follow ...");
    }
    bad.begin();
    const std::string name = run.stream.name;
    progress.show("looking for stream " + name + " at " + run.stream.to);
    run.stream.cancel_fd = stop.fd();
    run.stream.on_news = [&progress](const std::string& news) { progress.say(news); };
    auto stream = client::StreamSender::open(run.stream);
    ASK_PASS(stream);
    progress.show("stream " + name + ": sending");
    const auto read = Reading(run, *input, *stream, bad).run(stop);
    if (!read && !stop.raised()) {
        return read.error();
    }
    // The first signal ends the input, a second one the wait for what it has given.
    stop.take();
    progress.show("stream " + name + ": leaving");
    auto sent = stream->leave();
    ASK_PASS(sent);
    if (sent->left_out > 0) {
        return Error(Errc::kSwitchLost, "stream " + name + ": " + std::to_string(sent->left_out) +
                                            " window(s) were committed without this sender's tuples");
    }
    return sent;
}

}  // namespace ask::cli
