// SPDX-License-Identifier: Apache-2.0
//
// Windows of an endless stream as tasks, by today's protocol: what they cost beside one long task. `recv`
// opens window after window, two at a time, writes each table to a file and confirms; `send` streams into the
// window that the clock says, and joins the next one meanwhile. Both print what they did, and when, as JSON.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <future>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "lib/client/receive_session.h"
#include "lib/client/send_session.h"
#include "lib/tuples/fit/key_sample.h"
#include "lib/tuples/tuple.h"

namespace ask::bench {
namespace {

using std::chrono::milliseconds;
using WallClock = std::chrono::system_clock;

struct Job {
    std::string task;
    std::string to;
    std::string dir;
    std::uint32_t senders = 1;
    std::uint32_t windows = 1;
    std::uint32_t every_ms = 1000;
    std::int64_t start_ms = 0;  // of the first window, since the epoch
    std::uint32_t keys = 1U << 16U;
    std::uint64_t tuples = 0;  // of a window and sender; 0: as many as go
    std::uint32_t seed = 1;
    std::optional<std::uint32_t> merge_window;
    bool plan = false;
};

std::int64_t now_ms() {
    return std::chrono::duration_cast<milliseconds>(WallClock::now().time_since_epoch()).count();
}

std::string id_of(const Job& job, std::uint32_t window) {
    return job.task + "-" + std::to_string(window);
}

// Zipf's law, exponent 1.
class Keys {
 public:
    explicit Keys(const Job& job) : random_(job.seed) {
        names_.reserve(job.keys);
        std::vector<double> weights;
        weights.reserve(job.keys);
        for (std::uint32_t rank = 0; rank < job.keys; ++rank) {
            std::array<char, 16> text{};
            std::snprintf(text.data(), text.size(), "%x", rank);
            names_.emplace_back(text.data());
            weights.push_back(1.0 / (rank + 1.0));
        }
        std::discrete_distribution<std::uint32_t> rank(weights.begin(), weights.end());
        drawn_.reserve(kDrawn);
        for (std::size_t i = 0; i < kDrawn; ++i) {
            drawn_.emplace_back(names_[rank(random_)], 1);
        }
    }
    // The next ones, at most so many.
    std::span<const Tuple> next(std::uint64_t most) {
        const std::size_t count = std::min<std::uint64_t>({most, kBatch, drawn_.size() - at_});
        const std::span<const Tuple> some(&drawn_[at_], count);
        at_ = (at_ + count) % drawn_.size();
        return some;
    }
    [[nodiscard]] KeySample sample(std::uint64_t expected) const {
        KeySampler sampler(public_seed(1));
        for (const Tuple& tuple : drawn_) {
            if (sampler.full()) {
                break;
            }
            sampler.add(tuple.key, tuple.value);
        }
        return sampler.finish(expected);
    }

 private:
    static constexpr std::size_t kDrawn = std::size_t{1} << 20U;
    static constexpr std::size_t kBatch = 512;
    std::mt19937 random_;
    std::vector<std::string> names_;
    std::vector<Tuple> drawn_;
    std::size_t at_ = 0;
};

// What came of a window at this end; times since the epoch.
struct Window {
    std::int64_t opened = 0;
    std::int64_t ended = 0;  // send: its last tuple was handed in; receive: its result is here
    std::int64_t done = 0;   // send: told of success; receive: its file has its name
    std::uint64_t keys = 0;
    std::uint64_t tuples = 0;
};

void print(const char* end, const std::vector<Window>& windows) {
    std::printf("{\"end\": \"%s\", \"windows\": [", end);
    for (std::size_t i = 0; i < windows.size(); ++i) {
        const Window& window = windows[i];
        std::printf("%s{\"opened\": %lld, \"ended\": %lld, \"done\": %lld, \"keys\": %llu, \"tuples\": %llu}",
                    i == 0 ? "" : ", ", static_cast<long long>(window.opened),
                    static_cast<long long>(window.ended), static_cast<long long>(window.done),
                    static_cast<unsigned long long>(window.keys),
                    static_cast<unsigned long long>(window.tuples));
    }
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    const auto ms = [](const timeval& time) { return time.tv_sec * 1000 + time.tv_usec / 1000; };
    std::printf("], \"cpu_ms\": %ld}\n", ms(used.ru_utime) + ms(used.ru_stime));
}

// The file, as a commit has it: written beside, on disk, renamed.
Result<> write_table(const Job& job, std::uint32_t window, const client::ResultMap& table, Window& report) {
    const std::string path = job.dir + "/" + std::to_string(window) + ".tsv";
    const std::string beside = path + ".new";
    std::FILE* const file = std::fopen(beside.c_str(), "we");
    if (file == nullptr) {
        return Error::from_errno(errno, beside);
    }
    auto walked = table.each_sorted([&](std::string_view key, std::int64_t value) -> Result<> {
        ++report.keys;
        report.tuples += static_cast<std::uint64_t>(value);
        std::fprintf(file, "%.*s\t%lld\n", static_cast<int>(key.size()), key.data(),
                     static_cast<long long>(value));
        return {};
    });
    const bool written = std::fflush(file) == 0 && ::fsync(::fileno(file)) == 0;
    std::fclose(file);
    ASK_PASS(walked);
    if (!written || std::rename(beside.c_str(), path.c_str()) != 0) {
        return Error::from_errno(errno, path);
    }
    return {};
}

Result<> receive_window(const Job& job, std::uint32_t number, Window& window) {
    client::ReceiveOptions options;
    options.task = id_of(job, number);
    options.senders = job.senders;
    options.default_geometry = !job.plan;
    options.aggregators = job.plan ? 0 : 4096;
    window.opened = now_ms();
    auto session = client::ReceiveSession::open(std::move(options));
    ASK_PASS(session);
    auto result = session->wait();
    ASK_PASS(result);
    window.ended = now_ms();
    ASK_PASS(write_table(job, number, result->table, window));
    ASK_PASS(session->confirm());
    window.done = now_ms();
    return {};
}

// The first two windows at once, each further one when the last but one is committed.
Result<> receive(const Job& job) {
    std::vector<Window> windows(job.windows);
    std::vector<std::future<Result<>>> open;
    open.reserve(job.windows);
    const auto begin = [&](std::uint32_t number) {
        open.push_back(std::async(std::launch::async,
                                  [&, number] { return receive_window(job, number, windows[number]); }));
    };
    for (std::uint32_t number = 0; number < std::min(2U, job.windows); ++number) {
        begin(number);
    }
    for (std::uint32_t number = 0; number < job.windows; ++number) {
        ASK_TRY(open[number].get(), "window " + std::to_string(number));
        if (number + 2 < job.windows) {
            begin(number + 2);
        }
    }
    print("receive", windows);
    return {};
}

Result<client::SendSession> join(const Job& job, std::uint32_t number,
                                 const std::optional<KeySample>& sample) {
    client::SendOptions options;
    options.task = id_of(job, number);
    options.to = job.to;
    options.sample = sample;
    options.merge_window = job.merge_window;
    options.can_repeat = true;
    return client::SendSession::open(std::move(options));
}

// Until the window's time is over, and the next one can take what comes.
Result<> stream(const Job& job, std::uint32_t number, const std::future<Result<client::SendSession>>* next,
                client::SendSession& session, Keys& keys, Window& window) {
    const std::int64_t until = job.start_ms + std::int64_t{number + 1} * job.every_ms;
    std::uint64_t left = job.tuples == 0 ? UINT64_MAX : job.tuples;
    for (;;) {
        if (now_ms() >= until &&
            (next == nullptr || next->wait_for(milliseconds(0)) == std::future_status::ready)) {
            break;
        }
        if (left == 0) {
            ASK_PASS(session.flush());
            std::this_thread::sleep_for(
                milliseconds(1));  // all is sent: until the window ends, or the next one is open
            continue;
        }
        const auto some = keys.next(left);
        ASK_PASS(session.send(some));
        left -= some.size();
        window.tuples += some.size();
    }
    window.ended = now_ms();
    return {};
}

Result<> finish(client::SendSession session, Window& window) {
    auto stats = session.finish();
    ASK_PASS(stats);
    window.done = now_ms();
    return {};
}

Result<> send(const Job& job) {
    Keys keys(job);
    const std::optional<KeySample> sample = job.plan ? std::optional(keys.sample(job.tuples)) : std::nullopt;
    std::vector<Window> windows(job.windows);
    std::vector<std::future<Result<>>> ends;
    ends.reserve(job.windows);
    const auto joining = [&](std::uint32_t number) {
        return std::async(std::launch::async, [&, number] { return join(job, number, sample); });
    };
    auto next = joining(0);
    for (std::uint32_t number = 0; number < job.windows; ++number) {
        auto session = next.get();
        ASK_TRY(session, "window " + std::to_string(number));
        const bool last = number + 1 == job.windows;
        if (!last) {
            next = joining(number + 1);
        }
        std::this_thread::sleep_until(WallClock::time_point(milliseconds(job.start_ms)));
        windows[number].opened = now_ms();
        ASK_TRY(stream(job, number, last ? nullptr : &next, *session, keys, windows[number]),
                "window " + std::to_string(number));
        ends.push_back(std::async(
            std::launch::async,
            [&windows, number](client::SendSession of) { return finish(std::move(of), windows[number]); },
            *std::move(session)));
    }
    for (auto& end : ends) {
        ASK_PASS(end.get());
    }
    print("send", windows);
    return {};
}

int report(const Result<>& done) {
    if (done) {
        return 0;
    }
    std::fprintf(stderr, "ask-bench-windows: %s\n", done.error().text().c_str());
    return static_cast<int>(done.error().code());
}

}  // namespace
}  // namespace ask::bench

int main(int argc, char** argv) {
    ask::bench::Job job;
    CLI::App app("Windows of a stream as tasks of today's protocol.", "ask-bench-windows");
    app.require_subcommand(1);
    CLI::App* const receiver = app.add_subcommand("recv", "opens the windows, and writes a file of each");
    CLI::App* const sender = app.add_subcommand("send", "streams Zipf keys into them");
    for (CLI::App* const end : {receiver, sender}) {
        end->add_option("--task", job.task, "what the windows' ids begin with")->required();
        end->add_option("--windows", job.windows)->check(CLI::Range(1U, 1U << 20U));
        end->add_option("--every", job.every_ms, "length of a window, ms")->check(CLI::Range(10U, 1U << 30U));
        end->add_flag("--plan", job.plan, "geometry and memory by samples");
    }
    receiver->add_option("--senders", job.senders);
    receiver->add_option("--dir", job.dir)->required();
    sender->add_option("--to", job.to)->required();
    sender->add_option("--start", job.start_ms, "of the first window, ms since the epoch")->required();
    sender->add_option("--keys", job.keys)->check(CLI::Range(1U, 1U << 24U));
    sender->add_option("--tuples", job.tuples, "of a window; 0: as many as go");
    sender->add_option("--seed", job.seed);
    sender->add_option("--merge-window", job.merge_window);
    CLI11_PARSE(app, argc, argv);
    return ask::bench::report(receiver->parsed() ? ask::bench::receive(job) : ask::bench::send(job));
}
