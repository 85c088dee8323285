// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/host.h"

#include <algorithm>
#include <utility>

#include "lib/control/member/session_io.h"
#include "lib/control/member/switch_keeper.h"
#include "lib/control/receive/receiving.h"
#include "lib/control/receive/streaming_receive.h"
#include "lib/control/receive/taking_again.h"
#include "lib/control/send/following.h"
#include "lib/control/send/sending.h"
#include "lib/net/host_book.h"

namespace ask::sim {

namespace {

MemberOptions options_of(const Plan& plan, std::uint32_t number) {
    MemberOptions options;
    options.name = "h" + std::to_string(number);
    options.address = address_of(number);
    options.control_address = control_address(options.address, 4791);
    options.interface = "eth0";
    options.mtu = kFrameRoom;
    options.payload_limit = SimWorkers::sender_config(plan).payload_limit;
    options.max_channels = plan.channels;
    return options;
}

}  // namespace

Result<std::shared_ptr<const SealedTable>> SimTables::seal(ResultTable table) {
    const auto& memory = static_cast<const ReadableMemory&>(table.memory());
    const std::size_t bytes = memory.slots.size() + memory.keys.size();
    return std::shared_ptr<const SealedTable>(std::make_shared<SimSealed>(std::move(table), bytes));
}

Host::Life::Life(const Cast& cast, std::uint32_t number)
    : tables(cast.world.plan), network(cast, number), workers(cast.world, cast.network, number) {
    member = std::make_unique<Member>(
        options_of(cast.world.plan, number),
        MemberPorts{.workers = workers,
                    .network = network,
                    .tables = tables,
                    .counters = counters,
                    .own_switch = std::make_shared<SimSwitch>(cast, cast.network.switch_of(number), number)});
}

Host::Host(const Cast& cast, std::uint32_t number) : Server(cast.world), cast_(cast), number_(number) {}

Host::~Host() {
    kill();
}

void Host::start() {
    cast_.world.note("agent %u: starts", number_);
    life_ = std::make_unique<Life>(cast_, number_);
    boot();
    threads().spawn([this] {
        const SwitchKeeper keeper(*life_->member);
        Signal never;
        park(&never, kNever);
    });
}

void Host::kill() {
    if (!up()) {
        return;
    }
    cast_.world.note("agent %u: is killed", number_);
    life_->workers.kill();
    die();
    life_->member.reset();
    past_.push_back(std::move(life_));
}

void Host::stop() {
    cast_.world.note("agent %u: is stopped", number_);
    threads().stop();
    life_->workers.pause();
}

void Host::go_on() {
    if (threads().stopped()) {
        cast_.world.note("agent %u: goes on", number_);
        threads().go_on();
        life_->workers.go_on();
    }
}

std::shared_ptr<Link> Host::open(v1::LocalRequest request) {
    auto link = std::make_shared<Link>();
    open(link, std::move(request));
    return link;
}

void Host::open(const std::shared_ptr<Link>& link, v1::LocalRequest request) {
    threads().spawn([this, link, request = std::move(request)] { serve(link, request); });
}

void Host::serve(const std::shared_ptr<Link>& link, const v1::LocalRequest& request) {
    SimApplication application(link);
    SessionIo io(application, &life_->counters);
    if (request.has_open_send()) {
        Sending(member(), io, request.open_send()).run();
    } else if (request.has_open_receive()) {
        Receiving(member(), io, request.open_receive()).run();
    } else if (request.has_open_stream()) {
        StreamingReceive(member(), io, request.open_stream()).run();
    } else if (request.has_follow_stream()) {
        Following(member(), io, request.follow_stream()).run();
    } else {
        TakingAgain(member(), io, request.open_again()).run();
    }
}

void Host::take(FramePtr frame) {
    if (up()) {
        life_->workers.take(*frame);
    }
    cast_.network.recycle(std::move(frame));
}

// Nothing is refused that nobody has tampered with.
void Host::check_refused() {
    const auto refused = [](const std::unique_ptr<Life>& life) {
        return life && life->counters.get(AgentCounter::k_results_refused) > 0;
    };
    if (cast_.world.plan.intruder == 0 && (refused(life_) || std::ranges::any_of(past_, refused))) {
        cast_.world.fail(Promise::kTask, "agent " + std::to_string(number_) +
                                             ": has refused a result though nobody has changed anything");
    }
}

void Host::check_nothing_left() {
    const std::string who = "agent " + std::to_string(number_) + ": ";
    World& world = cast_.world;
    check_refused();
    if (!up() || threads().stopped()) {
        return;
    }
    const std::string left = life_->workers.left_over();
    if (!left.empty()) {
        world.fail(Promise::kLeft, who + left);
    }
    if (!member().sends.list().empty() || !member().registry.on_switch().empty()) {
        world.fail(Promise::kLeft, who + "tasks are left over");
    }
    if (std::ranges::any_of(member().channels.list(),
                            [](const Channels::Entry& entry) { return entry.in_use; })) {
        world.fail(Promise::kLeft, who + "a channel is left in use");
    }
}

}  // namespace ask::sim
