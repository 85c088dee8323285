// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/switchd.h"

#include <algorithm>

#include "lib/control/switch/fetch.h"
#include "tests/sim/switch_store.h"

namespace ask::sim {

namespace {

// Small, so that much happens between two pieces of a stream.
constexpr std::size_t kChunkBytes = 64;
constexpr Nanos kTick = 300 * kMillisecond;
constexpr std::uint64_t kChunkUs = 20;

}  // namespace

SwitchDaemon::SwitchDaemon(World& world, DataPlane& plane, const Network& network, std::uint32_t number,
                           std::function<bool()> die)
    : world_(world),
      plane_(plane),
      network_(network),
      number_(number),
      die_(std::move(die)),
      threads_(world) {}

SwitchDaemon::~SwitchDaemon() {
    process.kill();
    threads_.kill();
}

void SwitchDaemon::start() {
    world_.note("switchd %u: starts", number_);
    store_ = make_switch_store(world_, plane_, network_, number_, die_);
    process.boot();
    threads_.spawn([this] { life(); });
}

void SwitchDaemon::kill() {
    world_.note("switchd %u: is killed", number_);
    process.kill();
    controller_ = nullptr;
    threads_.kill();
    store_.reset();
}

void SwitchDaemon::stop() {
    world_.note("switchd %u: is stopped", number_);
    threads_.stop();
}

void SwitchDaemon::go_on() {
    if (threads_.stopped()) {
        world_.note("switchd %u: goes on", number_);
        threads_.go_on();
    }
}

void SwitchDaemon::life() {
    const auto controller = Controller::create(
        *store_, {.sram_bytes = 0,
                  .allow_over_budget = true,
                  .lease = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::nanoseconds(kLease)),
                  .rcu_only = world_.plan.rcu_only != 0});
    if (!controller.ok()) {
        world_.fail(Promise::kLeft, "switch " + std::to_string(number_) +
                                        ": its daemon cannot adopt: " + controller.error().text());
        return;
    }
    controller_ = controller->get();
    serving_.notify(world_.clock);
    for (;;) {
        controller_->expire_leases();
        park(nullptr, world_.clock.now() + kTick);
    }
}

template <typename T>
Job<Result<T>> SwitchDaemon::serve(std::function<Result<T>(Controller&)> body) {
    struct Call {
        std::optional<Result<T>> result;
        Signal ended;
    };
    // Calls that come while it adopts wait at its door.
    while (controller_ == nullptr) {
        co_await serving_.wait_until(world_.clock, kNever);
    }
    auto call = std::make_shared<Call>();
    threads_.spawn([this, call, body] {
        // One that comes while the process is stopped is taken up when it goes on.
        while (threads_.stopped()) {
            park(nullptr, world_.clock.now() + kMicrosecond);
        }
        call->result.emplace(body(*controller_));
        call->ended.notify(world_.clock);
    });
    while (!call->result) {
        co_await call->ended.wait_until(world_.clock, kNever);
    }
    co_return std::move(*call->result);
}

Job<Result<SwitchDaemon::Registration>> SwitchDaemon::register_channel(ChannelId channel,
                                                                       std::uint32_t incarnation,
                                                                       std::uint32_t replaces) {
    std::function<Result<Registration>(Controller&)> body =
        [=](Controller& controller) -> Result<Registration> {
        const auto done = controller.register_channel(channel, incarnation, replaces);
        ASK_PASS(done);
        return Registration{controller.mark(), done->incarnation};
    };
    Job<Result<Registration>> job = serve(std::move(body));
    co_return co_await job;
}

Job<Result<Done>> SwitchDaemon::unregister_channel(ChannelId channel, std::uint32_t incarnation) {
    std::function<Result<Done>(Controller&)> body = [=](Controller& controller) -> Result<Done> {
        ASK_PASS(controller.unregister_channel(channel, incarnation));
        return Done{};
    };
    Job<Result<Done>> job = serve(std::move(body));
    co_return co_await job;
}

Job<Result<Grant>> SwitchDaemon::open_task(OpenRequest request) {
    std::function<Result<Grant>(Controller&)> body = [request](Controller& controller) -> Result<Grant> {
        const std::uint32_t copies = request.aggregators == 0 ? 0 : request.copies;
        const auto grant = controller.open_task({.id = request.id,
                                                 .instance = request.instance,
                                                 .geometry = request.geometry,
                                                 .op = request.op,
                                                 .aggregators = request.aggregators * copies,
                                                 .may_shrink = false,
                                                 .copies = copies,
                                                 .require_region = false,
                                                 .policy = static_cast<ask_policy>(request.policy),
                                                 .receiver = "h"});
        ASK_PASS(grant);
        return Grant{controller.mark(), grant->copies == 0 ? 0 : grant->aggregators / grant->copies,
                     grant->copies};
    };
    Job<Result<Grant>> job = serve(std::move(body));
    co_return co_await job;
}

Job<Result<Mark>> SwitchDaemon::join_flow(std::uint64_t instance, ChannelId channel,
                                          std::uint32_t incarnation, CheckSecret secret) {
    std::function<Result<Mark>(Controller&)> body = [=](Controller& controller) -> Result<Mark> {
        ASK_PASS(controller.join_flow(instance, channel, incarnation, secret));
        return controller.mark();
    };
    Job<Result<Mark>> job = serve(std::move(body));
    co_return co_await job;
}

Job<Result<Copy>> SwitchDaemon::fetch(std::uint64_t instance, std::uint64_t epoch, bool close) {
    std::function<Result<Copy>(Controller&)> body = [=, this](Controller& controller) -> Result<Copy> {
        Copy copy{.entries = {}, .count = 0, .epoch = epoch, .aggregated = 0, .mark = controller.mark()};
        const auto write = [&](const std::string& entries) {
            park(nullptr, world_.clock.now() + world_.some_us(kChunkUs));
            world_.note("switchd %u: streams a copy", number_);
            copy.entries += entries;
            return true;
        };
        const auto end = fetch_copy(controller, {.instance = instance, .epoch = epoch, .close = close},
                                    kChunkBytes, write);
        ASK_PASS(end);
        if (close) {
            ++swaps_;
        }
        copy.count = (*end)->count;
        for (const FlowReport& flow : (*end)->flows) {
            copy.aggregated += flow.stats.tuples_aggregated;
        }
        return copy;
    };
    Job<Result<Copy>> job = serve(std::move(body));
    co_return co_await job;
}

Job<Result<Done>> SwitchDaemon::confirm(std::uint64_t instance, std::uint64_t epoch) {
    std::function<Result<Done>(Controller&)> body = [=](Controller& controller) -> Result<Done> {
        ASK_PASS(controller.confirm(instance, epoch));
        return Done{};
    };
    Job<Result<Done>> job = serve(std::move(body));
    co_return co_await job;
}

Job<Result<Done>> SwitchDaemon::close_task(std::uint64_t instance) {
    std::function<Result<Done>(Controller&)> body = [=](Controller& controller) -> Result<Done> {
        ASK_PASS(controller.close_task(instance));
        return Done{};
    };
    Job<Result<Done>> job = serve(std::move(body));
    co_return co_await job;
}

Job<Result<std::pair<Mark, bool>>> SwitchDaemon::renew(std::uint64_t instance) {
    using Reply = std::pair<Mark, bool>;
    std::function<Result<Reply>(Controller&)> body = [=](Controller& controller) -> Result<Reply> {
        const std::uint64_t instances[] = {instance};
        return Reply{controller.mark(), controller.renew(instances).empty()};
    };
    Job<Result<Reply>> job = serve(std::move(body));
    co_return co_await job;
}

Job<Result<std::vector<std::pair<ChannelId, std::uint32_t>>>> SwitchDaemon::channels_of(std::uint32_t host) {
    using List = std::vector<std::pair<ChannelId, std::uint32_t>>;
    std::function<Result<List>(Controller&)> body = [=](Controller& controller) -> Result<List> {
        const auto report = controller.report();
        ASK_PASS(report);
        List list;
        for (const ChannelReport& channel : report->channels) {
            if (channel.channel.host == host) {
                list.emplace_back(channel.channel, channel.incarnation);
            }
        }
        return list;
    };
    Job<Result<List>> job = serve(std::move(body));
    co_return co_await job;
}

void SwitchDaemon::check_nothing_left() {
    const std::string who = "switch " + std::to_string(number_) + ": ";
    if (controller_ == nullptr) {
        world_.fail(Promise::kLeft, who + "its daemon does not serve");
        return;
    }
    const auto report = controller_->report();
    if (!report.ok()) {
        world_.fail(Promise::kLeft, who + report.error().text());
        return;
    }
    if (!report->tasks.empty() || !plane_.pins.empty()) {
        world_.fail(Promise::kLeft, who + std::to_string(report->tasks.size()) + " tasks and the pins of " +
                                        std::to_string(plane_.pins.size()) + " are left over");
    }
    if (report->flow_indices != IndexUse{} || report->task_indices != IndexUse{}) {
        world_.fail(Promise::kLeft, who + "indices of tasks or flows are left over");
    }
    const std::string left = plane_.left_over();
    if (!left.empty()) {
        world_.fail(Promise::kLeft, who + left);
    }
}

}  // namespace ask::sim
