// SPDX-License-Identifier: Apache-2.0
//
// ask-bench-wire: watches one task pass through a lab's switch, or a reflector in its place, and says how
// fast packets came and whose CPU time they took. It prints "ready", watches until its standard input ends,
// and prints one line of JSON.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/wire/poll_clock.h"
#include "bench/wire/reflector.h"
#include "lib/abi/map_types.h"
#include "lib/bpf/map.h"

namespace ask::bench {
namespace {

using Json = nlohmann::ordered_json;
using Counters = bpf::PerCpuArray<std::uint64_t>;

constexpr int kSampleMs = 5;

struct Options {
    std::filesystem::path pins;
    std::vector<std::string> reflect;
    std::vector<std::string> nodes;
    bool time_polls = false;
};

// DATA packets that the switch had seen so far.
struct Sample {
    std::chrono::steady_clock::time_point at;
    std::uint64_t packets = 0;
};

Result<std::uint64_t> sum_of(const Counters& counters, std::initializer_list<std::uint32_t> reasons) {
    std::uint64_t sum = 0;
    for (const std::uint32_t reason : reasons) {
        const auto parts = counters.read(reason);
        ASK_PASS(parts);
        sum += std::accumulate(parts->begin(), parts->end(), std::uint64_t{0});
    }
    return sum;
}

Result<std::uint64_t> new_packets(const Counters& counters) {
    return sum_of(counters, {ASK_CNT_ack_new, ASK_CNT_fwd_new, ASK_CNT_fwd_no_region});
}

Result<Counters> open_counters(const std::filesystem::path& pins) {
    auto fd = bpf::open_pinned(pins / "maps" / "counters");
    ASK_TRY(fd, "a running switch's map counters");
    return Counters::adopt(std::move(*fd), "counters");
}

// Samples until standard input ends.
Result<std::vector<Sample>> sample(const Counters& counters) {
    std::vector<Sample> samples;
    while (true) {
        const auto packets = new_packets(counters);
        ASK_PASS(packets);
        samples.push_back({std::chrono::steady_clock::now(), *packets});
        pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
        if (::poll(&input, 1, kSampleMs) < 0 && errno != EINTR) {
            return Error::from_errno(errno, "wait for the end of standard input");
        }
        std::array<char, 64> ignored{};
        if (input.revents != 0 && ::read(STDIN_FILENO, ignored.data(), ignored.size()) <= 0) {
            break;
        }
    }
    const auto packets = new_packets(counters);
    ASK_PASS(packets);
    samples.push_back({std::chrono::steady_clock::now(), *packets});
    return samples;
}

// Packets a second from the first tenth of them to the last: joining, filling the pipe and the result's way
// home are not the wire's pace. Nothing if that was too short to tell.
std::optional<double> steady_rate(const std::vector<Sample>& samples) {
    const std::uint64_t first = samples.front().packets;
    const std::uint64_t all = samples.back().packets - first;
    const auto reached = [&samples](std::uint64_t packets) {
        return std::ranges::find_if(samples, [packets](const Sample& at) { return at.packets >= packets; });
    };
    const auto from = reached(first + std::max<std::uint64_t>(all / 10, 1));
    const auto to = reached(first + all - all / 10);
    if (from == samples.end() || to == samples.end() || to->at <= from->at) {
        return std::nullopt;
    }
    return static_cast<double>(to->packets - from->packets) /
           std::chrono::duration<double>(to->at - from->at).count();
}

Json seconds(std::uint64_t nanoseconds) {
    return static_cast<double>(nanoseconds) / 1e9;
}

class Watch {
 public:
    static Result<Json> run(const Options& options) {
        Watch watch;
        ASK_PASS(watch.begin(options));
        return watch.finish();
    }

 private:
    Result<> begin(const Options& options) {
        for (const std::string& text : options.nodes) {
            auto node = find_node(text);
            ASK_PASS(node);
            nodes_.push_back(std::move(*node));
        }
        auto counters = open_counters(options.pins);
        ASK_PASS(counters);
        counters_ = std::move(*counters);
        if (!options.reflect.empty()) {
            auto reflector = Reflector::put(options.pins, options.reflect);
            ASK_PASS(reflector);
            reflector_.emplace(std::move(*reflector));
        }
        if (options.time_polls) {
            auto polls = PollClock::start();
            ASK_PASS(polls);
            polls_.emplace(std::move(*polls));
        }
        return daemon_times(before_);
    }

    Result<> daemon_times(std::vector<std::uint64_t>& times) const {
        for (const Node& node : nodes_) {
            const auto time = daemon_nanoseconds(node);
            ASK_PASS(time);
            times.push_back(*time);
        }
        return {};
    }

    Result<Json> finish() {
        const auto again_before = repeated();
        ASK_PASS(again_before);
        std::puts("ready");
        std::fflush(stdout);
        const auto samples = sample(counters_);
        ASK_PASS(samples);
        const auto again = repeated();
        ASK_PASS(again);
        auto nodes = describe_nodes();
        ASK_PASS(nodes);
        if (reflector_) {
            ASK_PASS(reflector_->take_away());
        }
        const auto rate = steady_rate(*samples);
        return Json{{"packets", samples->back().packets - samples->front().packets},
                    {"packets_again", *again - *again_before},
                    {"packets_per_second", rate ? Json(*rate) : Json()},
                    {"nodes", std::move(*nodes)}};
    }

    [[nodiscard]] Result<std::uint64_t> repeated() const {
        return sum_of(counters_,
                      {ASK_CNT_ack_seen, ASK_CNT_fwd_seen, ASK_CNT_drop_in_flight, ASK_CNT_drop_stale});
    }

    Result<Json> describe_nodes() {
        std::vector<std::uint64_t> after;
        ASK_PASS(daemon_times(after));
        auto polls = polls_ ? polls_->read(nodes_) : std::vector<NodePolls>(nodes_.size());
        ASK_PASS(polls);
        Json all = Json::object();
        for (std::size_t i = 0; i < nodes_.size(); ++i) {
            const NodePolls& node = (*polls)[i];
            all[nodes_[i].name] = {{"daemon_seconds", seconds(after[i] - before_[i])},
                                   {"polls_in_tasks_seconds", seconds(node.in_tasks)},
                                   {"polls_of_devices_seconds", seconds(node.of_devices)},
                                   {"packets_polled", node.packets}};
        }
        return all;
    }

    std::vector<Node> nodes_;
    Counters counters_;
    std::optional<Reflector> reflector_;
    std::optional<PollClock> polls_;
    std::vector<std::uint64_t> before_;
};

}  // namespace
}  // namespace ask::bench

int main(int argc, char** argv) {
    ask::bench::Options options;
    CLI::App app("Watches a task pass through a lab's switch.", "ask-bench-wire");
    app.add_option("--pins", options.pins, "the switch's directory under bpffs")->required();
    app.add_option("--node", options.nodes, "NAME=PID: a daemon, alone in a network namespace")->required();
    app.add_option("--reflect", options.reflect,
                   "a port of the switch that a reflector takes over meanwhile");
    app.add_flag("--time-polls", options.time_polls,
                 "how long devices are polled, for whom and in whose time");
    CLI11_PARSE(app, argc, argv);
    const auto watched = ask::bench::Watch::run(options);
    if (!watched) {
        std::fprintf(stderr, "ask-bench-wire: %s\n", watched.error().text().c_str());
        return static_cast<int>(watched.error().code());
    }
    std::puts(watched->dump().c_str());
    return 0;
}
