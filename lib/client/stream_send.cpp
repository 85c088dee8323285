// SPDX-License-Identifier: Apache-2.0
#include "lib/client/stream_send.h"

#include <algorithm>
#include <utility>

#include "lib/abi/consts.h"
#include "lib/base/random.h"
#include "lib/base/runtime.h"
#include "lib/base/waiting.h"
#include "lib/base/wall_clock.h"
#include "lib/client/convert.h"
#include "lib/client/stream_follower.h"
#include "lib/client/stream_name.h"
#include "lib/client/task_tuples.h"
#include "lib/client/window_send.h"
#include "lib/tuples/combiner.h"

namespace ask::client {
namespace {

using std::chrono::milliseconds;

// Between two looks at what nobody wakes for.
constexpr milliseconds kLook{200};
// Windows that it may keep: as many as a receiver opens (R10 of docs/design/windows.md).
constexpr std::size_t kMostKept = 8;
// Tuples that the combiner has given out and that are worth waking the thread that sends them: it wakes two
// others. The rest goes with those that come after, at the end of the window at the latest.
constexpr std::uint64_t kWorthWaking = 512;
// That a run may take to hear of its window's commit, as the stream has said it.
constexpr milliseconds kToHear{2'000};
// Between two looks at how far it has read ahead of what is sent.
constexpr milliseconds kLookAhead{20};

std::vector<std::uint64_t> kept(const StreamMemory& memory) {
    std::vector<std::uint64_t> windows = memory.ended;
    if (memory.inside != 0) {
        windows.push_back(memory.inside);
    }
    return windows;
}

std::chrono::system_clock::time_point time_of_wall() {
    return std::chrono::system_clock::time_point(milliseconds(unix_ms()));
}

}  // namespace

class StreamSender::Impl {
 public:
    explicit Impl(StreamSendOptions options)
        : options_(std::move(options)),
          member_(options_.memory.member != 0 ? options_.memory.member : random_u64()),
          room_(options_.spool_bytes),
          follower_({.agent = options_.agent,
                     .name = options_.name,
                     .to = options_.to,
                     .token = options_.token,
                     .member = member_,
                     .nonce = options_.memory.nonce,
                     .committed = options_.memory.committed,
                     .keeps = kept(options_.memory),
                     .deadline = options_.deadline}) {}

    Result<> begin();
    [[nodiscard]] TaskOp op() const { return view_.op; }
    [[nodiscard]] bool over() const { return over_; }
    Result<> send(std::span<const Tuple> tuples);
    Result<bool> wait_for_input(int fd);
    Result<StreamSent> leave();

 private:
    [[nodiscard]] std::string about() const { return "stream " + options_.name + ": "; }
    Result<> hear();
    [[nodiscard]] Result<> check_cut_short() const;
    Result<> go_on();
    Result<> take_place();
    void let_go();
    void enter(const OpenStreamWindow& window);
    void add_window(std::uint64_t number);
    Result<> resume();
    Result<> enter_first();
    Result<> cut(const OpenStreamWindow& next);
    [[nodiscard]] Result<> step(std::uint64_t ended, std::uint64_t entered) const;
    [[nodiscard]] bool may_cut(const OpenStreamWindow& next) const;
    [[nodiscard]] milliseconds until_cut() const;
    void end_window();
    void pass_on();
    void tell_kept();
    Result<> append(std::span<const Tuple> tuples);
    [[nodiscard]] bool is_to_look() const;
    [[nodiscard]] bool is_far_ahead();
    // Until something happens, or `fd` is readable: true.
    Result<bool> sleep(int fd);

    StreamSendOptions options_;
    std::uint64_t member_;
    SpoolRoom room_;
    SendPace pace_;
    StreamFollower follower_;
    std::uint64_t seen_ = 0;  // of the follower's versions
    StreamView view_;
    std::optional<TaskTuples> tuples_;
    std::optional<Combiner> combiner_;
    std::uint64_t merged_before_ = 0;                          // by the combiner, when the window began
    Clock::time_point pass_on_at_ = Clock::time_point::max();  // what is held back to be merged
    std::vector<std::unique_ptr<WindowSend>> windows_;         // that are not committed, in their order
    std::uint64_t woken_ = 0;     // tuples of the spool, when the thread that sends them was last woken
    std::int64_t looked_ms_ = 0;  // coarse; when it last went on
    bool inside_ = false;         // the last one of these is the one it is in
    struct Ending {
        std::unique_ptr<WindowSend> window;
        Clock::time_point since;
    };
    std::vector<Ending> ending_;  // committed ones
    bool is_far_ahead_ = false;   // of what its runs have taken
    bool leaving_ = false;
    bool over_ = false;
    StreamSent sent_;
};

Result<> StreamSender::Impl::begin() {
    while (view_.nonce == 0) {
        ASK_PASS(hear());
        if (view_.nonce == 0) {
            ASK_PASS(sleep(-1));
        }
    }
    ASK_PASS(resume());
    while (!inside_ && !over_ && !view_.ended) {
        ASK_PASS(go_on());
        if (!inside_ && !over_) {
            ASK_PASS(sleep(-1));
        }
    }
    return inside_ || over_ ? Result<>() : Error(Errc::kAborted, about() + "it has ended");
}

// Where an earlier process of this member has stopped.
Result<> StreamSender::Impl::resume() {
    for (const std::uint64_t number : options_.memory.ended) {
        if (number <= view_.committed) {
            continue;
        }
        add_window(number);
        ASK_PASS(options_.memory.again(number, [this](std::span<const Tuple> tuples) {
            return tuples_->each(tuples, [this](std::span<const Tuple> some) {
                Spool& spool = windows_.back()->spool();
                std::ranges::for_each(some, [&spool](const Tuple& tuple) { spool.append(tuple); });
                spool.wake();
                return Result<>();
            });
        }));
        windows_.back()->spool().close();
    }
    if (options_.memory.inside == 0) {
        return {};
    }
    if (options_.memory.inside <= view_.committed) {
        return Error(Errc::kSwitchLost, about() + "window " + std::to_string(options_.memory.inside) +
                                            " was committed while this sender was away: how much of it is in "
                                            "there, nobody knows");
    }
    add_window(options_.memory.inside);
    inside_ = true;
    tell_kept();
    return {};
}

// Takes in what the follower has heard.
Result<> StreamSender::Impl::hear() {
    const std::uint64_t version = follower_.version();
    if (version == seen_) {
        return {};
    }
    seen_ = version;
    const std::vector<StreamNews> news = follower_.take_news();
    if (options_.on_news) {
        for (const StreamNews& each : news) {
            options_.on_news({.text = about() + each.text, .is_loss = each.is_loss});
        }
    }
    ASK_PASS(follower_.failed());
    view_ = follower_.view();
    for (const auto& window : windows_) {
        window->hear(view_);
    }
    ASK_PASS(check_cut_short());
    if (view_.nonce != 0 && !tuples_) {
        tuples_.emplace(options_.as_count || view_.op == TaskOp::kCount, view_.op == TaskOp::kMean);
        if (options_.merge_window > 0) {
            combiner_.emplace(combined_by(view_.op), options_.merge_window, make_seed(random_u64));
        }
    }
    return {};
}

// Whoever has left it, and has nothing there any more, need not care.
Result<> StreamSender::Impl::check_cut_short() const {
    const bool has_all = leaving_ && (windows_.empty() || windows_.back()->number() <= view_.committed);
    return view_.cut_short() && !has_all ? Error(Errc::kAborted, about() + view_.trouble) : Result<>();
}

// Whatever is due now.
Result<> StreamSender::Impl::go_on() {
    looked_ms_ = coarse_ms();
    ASK_PASS(hear());
    if (combiner_ && Clock::now() >= pass_on_at_) {
        pass_on();
    }
    let_go();
    if (over_ || !tuples_) {
        return {};
    }
    if (!inside_) {
        ASK_PASS(enter_first());
    }
    if (!inside_) {
        return {};
    }
    if (const OpenStreamWindow* const next = view_.next(windows_.back()->number());
        next != nullptr && may_cut(*next)) {
        ASK_PASS(cut(*next));
    }
    if (view_.last != 0 && windows_.back()->number() >= view_.last) {
        ASK_PASS(step(windows_.back()->number(), 0));
        end_window();
        over_ = true;
    }
    return {};
}

// Before the one that has ended can be sent to its end.
Result<> StreamSender::Impl::step(std::uint64_t ended, std::uint64_t entered) const {
    return options_.on_step
               ? options_.on_step(
                     {.ended = ended, .entered = entered, .committed = view_.committed, .nonce = view_.nonce})
               : Result<>();
}

// Windows that are committed, with it or without.
void StreamSender::Impl::let_go() {
    const auto now = Clock::now();
    bool any = false;
    while (!windows_.empty() && windows_.front()->number() <= view_.committed) {
        const std::uint64_t number = windows_.front()->number();
        // Committed while it was in it, so without it.
        const bool inside = inside_ && windows_.size() == 1;
        const bool without =
            inside || std::ranges::any_of(view_.left_out, [number](const LeftOutOf& left_out) {
                return left_out.window == number;
            });
        ++(without ? sent_.left_out : sent_.windows);
        if (inside) {
            end_window();
        }
        ending_.push_back({std::move(windows_.front()), now});
        windows_.erase(windows_.begin());
        any = true;
    }
    std::erase_if(ending_, [this, now](const Ending& ending) {
        const bool done = ending.window->done();
        if (done && ending.window->stats()) {
            add_stats(sent_.stats, *ending.window->stats());
        }
        return done || now - ending.since > kToHear;
    });
    if (any) {
        tell_kept();
    }
}

void StreamSender::Impl::tell_kept() {
    std::vector<std::uint64_t> numbers;
    numbers.reserve(windows_.size());
    for (const auto& window : windows_) {
        numbers.push_back(window->number());
    }
    follower_.keep(std::move(numbers), leaving_);
}

Result<> StreamSender::Impl::enter_first() {
    if (view_.first == 0) {
        return {};
    }
    // Nor one that an earlier process of this member has ended, which may have been about to leave with it.
    const std::uint64_t ended = windows_.empty() ? 0 : windows_.back()->number();
    const std::uint64_t behind = std::max({view_.first - 1, view_.committed, ended});
    if (const OpenStreamWindow* const window = view_.next(behind); window != nullptr) {
        ASK_PASS(step(0, window->number));
        enter(*window);
    } else if (view_.last != 0 && view_.last <= view_.committed) {
        over_ = true;
    }
    return {};
}

void StreamSender::Impl::add_window(std::uint64_t number) {
    windows_.push_back(std::make_unique<WindowSend>(number,
                                                    SendOptions{
                                                        .agent = options_.agent,
                                                        .to = options_.to,
                                                        .merge_window = 0,
                                                        .deadline = options_.deadline,
                                                        .as_count = options_.as_count,
                                                        .can_repeat = true,
                                                        .stream_member = member_,
                                                        .max_rate = options_.max_rate,
                                                        .token = options_.token,
                                                    },
                                                    room_, pace_, follower_));
}

void StreamSender::Impl::enter(const OpenStreamWindow& window) {
    add_window(window.number);
    inside_ = true;
    woken_ = 0;
    merged_before_ = combiner_ ? combiner_->merged() : 0;
    tell_kept();
}

// Whoever leaves has nothing more to say in the windows that are left.
bool StreamSender::Impl::may_cut(const OpenStreamWindow& next) const {
    if (windows_.size() >= kMostKept) {
        return false;
    }
    if (view_.last != 0 && next.number > view_.last) {
        return false;
    }
    if (leaving_) {
        return view_.last != 0;  // which window it leaves with, the stream says
    }
    return until(next, view_.clock_ms, time_of_wall()) == milliseconds(0);
}

milliseconds StreamSender::Impl::until_cut() const {
    const OpenStreamWindow* const next = inside_ ? view_.next(windows_.back()->number()) : nullptr;
    if (next == nullptr) {
        return kLook;
    }
    if (may_cut(*next)) {
        return milliseconds(0);
    }
    // One that has begun, and that it may not enter, waits for the stream's word and not for the clock.
    const milliseconds begins_in = until(*next, view_.clock_ms, time_of_wall());
    return begins_in > milliseconds(0) ? begins_in : kLook;
}

Result<> StreamSender::Impl::cut(const OpenStreamWindow& next) {
    ASK_PASS(step(windows_.back()->number(), next.number));
    end_window();
    enter(next);
    return {};
}

void StreamSender::Impl::end_window() {
    pass_on();
    windows_.back()->spool().close();
    inside_ = false;
}

// What has been held back to be merged.
void StreamSender::Impl::pass_on() {
    pass_on_at_ = Clock::time_point::max();
    if (!combiner_ || !inside_) {
        return;
    }
    Spool& spool = windows_.back()->spool();
    spool.set_merged(combiner_->merged() - merged_before_);
    [[maybe_unused]] const auto drained = combiner_->drain([&spool](const Tuple& tuple) {
        spool.append(tuple);
        return Result<>();
    });
    woken_ = spool.tuples();
    spool.wake();
}

Result<> StreamSender::Impl::append(std::span<const Tuple> tuples) {
    Spool& spool = windows_.back()->spool();
    // The combiner keeps shorter keys only, so that none is missed here; most are never looked at again.
    const auto push = [&spool](const Tuple& tuple) {
        if (tuple.key.size() > ASK_MAX_KEY) {
            return Result<>(Error(Errc::kLimit, "a key of " + std::to_string(tuple.key.size()) +
                                                    " bytes; the limit is " + std::to_string(ASK_MAX_KEY)));
        }
        spool.append(tuple);
        return Result<>();
    };
    if (combiner_) {
        ASK_PASS(combiner_->add(tuples, push));
        spool.set_merged(combiner_->merged() - merged_before_);
        if (options_.linger.count() > 0 && pass_on_at_ == Clock::time_point::max()) {
            pass_on_at_ = Clock::now() + options_.linger;
        }
    } else {
        for (const Tuple& tuple : tuples) {
            ASK_PASS(push(tuple));
        }
    }
    if (!combiner_ || spool.tuples() - woken_ >= kWorthWaking) {
        woken_ = spool.tuples();
        spool.wake();
    }
    return {};
}

Result<> StreamSender::Impl::send(std::span<const Tuple> tuples) {
    ASK_PASS(options_.in_pieces || !is_to_look() ? Result<>() : take_place());
    if (over_ || !inside_) {
        sent_.late += tuples.size();
        return {};
    }
    sent_.tuples += tuples.size();
    return tuples_->each(tuples, [this](std::span<const Tuple> some) { return append(some); });
}

Result<bool> StreamSender::Impl::sleep(int fd) {
    const auto linger =
        std::chrono::ceil<milliseconds>(std::min<Clock::duration>(pass_on_at_ - Clock::now(), kLook));
    const auto most =
        std::clamp(std::min(until_cut(), linger), milliseconds(0), is_far_ahead_ ? kLookAhead : kLook);
    const auto ready = wait_readable({options_.cancel_fd, follower_.changed().fd(), fd}, most);
    ASK_TRY(ready, "wait for input");
    if ((*ready & 1U) != 0) {
        return Error(Errc::kAborted, about() + "cancelled: its cancel_fd is readable");
    }
    if ((*ready & 2U) != 0) {
        follower_.changed().drain();
    }
    return (*ready & 4U) != 0;
}

// In a window, and with room.
Result<> StreamSender::Impl::take_place() {
    ASK_PASS(go_on());
    while (!over_ && (!inside_ || room_.full() || is_far_ahead())) {
        ASK_PASS(sleep(-1));
        ASK_PASS(go_on());
    }
    return {};
}

bool StreamSender::Impl::is_far_ahead() {
    std::uint64_t waiting = 0;
    for (const auto& window : windows_) {
        waiting += window->waiting();
    }
    is_far_ahead_ = pace_.is_enough(waiting, view_.every, Clock::now());
    return is_far_ahead_;
}

// Between two handfuls of tuples hardly anything changes.
bool StreamSender::Impl::is_to_look() const {
    return !inside_ || room_.full() || follower_.version() != seen_ || coarse_ms() != looked_ms_;
}

Result<bool> StreamSender::Impl::wait_for_input(int fd) {
    for (;;) {
        ASK_PASS(take_place());
        if (over_) {
            return false;
        }
        auto has = sleep(fd);
        if (!has || *has) {
            return has;
        }
    }
}

Result<StreamSent> StreamSender::Impl::leave() {
    leaving_ = true;
    tell_kept();
    for (;;) {
        ASK_PASS(go_on());
        const bool is_out = windows_.empty() && (over_ || view_.ended || (!inside_ && view_.first == 0));
        // The runs that were committed last are about to say so.
        if (is_out && ending_.empty()) {
            return sent_;
        }
        if (!is_out && view_.ended) {
            return Error(Errc::kAborted, about() + "it has ended with window " +
                                             std::to_string(view_.committed) +
                                             ", and what came after that is in none");
        }
        ASK_PASS(sleep(-1));
    }
}

StreamSender::StreamSender(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StreamSender::StreamSender(StreamSender&&) noexcept = default;
StreamSender& StreamSender::operator=(StreamSender&&) noexcept = default;
StreamSender::~StreamSender() = default;

Result<StreamSender> StreamSender::open(StreamSendOptions options) {
    ASK_PASS(check_stream_name(options.name));
    if (options.to.empty()) {
        return Error(Errc::kUsage, "stream " + options.name + ": the receiver's host is empty");
    }
    if (options.deadline.count() <= 0 || options.deadline.count() > UINT32_MAX) {
        return Error(Errc::kUsage, "stream " + options.name + ": the deadline must be from 1 ms to 49 days");
    }
    auto impl = std::make_unique<Impl>(std::move(options));
    ASK_PASS(impl->begin());
    return StreamSender(std::move(impl));
}

TaskOp StreamSender::op() const {
    return impl_->op();
}
Result<> StreamSender::send(std::span<const Tuple> tuples) {
    return impl_->send(tuples);
}
Result<bool> StreamSender::wait_for_input(int fd) {
    return impl_->wait_for_input(fd);
}
bool StreamSender::over() const {
    return impl_->over();
}
Result<StreamSent> StreamSender::leave() {
    return impl_->leave();
}

}  // namespace ask::client
