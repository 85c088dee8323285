// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/tuples/apps.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "lib/net/address.h"
#include "lib/rpc/types.h"
#include "lib/tuples/fit/key_sample.h"
#include "tests/support/combined.h"

namespace ask::sim {

namespace {

constexpr std::uint32_t kAttempts = 3;
constexpr std::uint32_t kMostRuns = 3;
constexpr std::size_t kBurst = 8;
constexpr unsigned kLevels = 3;
// A session waits for some things one after another: for the others, for the last swap, for the last fetch;
// and says goodbye.
constexpr Nanos kSessionWaits = 3;
constexpr Nanos kGoodbyes = 8 * kSecond;

// Senders in pairs: what one puts too far the other takes back.
int far_way(std::uint32_t number, bool far, std::uint32_t senders) {
    return !far || (number | 1U) >= senders ? 0 : number % 2 == 0 ? 1 : -1;
}

Error ended(const std::optional<v1::LocalReply>& reply) {
    if (!reply) {
        return {Errc::kUnavailable, "the agent has died"};
    }
    if (!reply->has_failed()) {
        return {Errc::kInternal, "an answer that does not fit"};
    }
    return {errc_from_number(reply->failed().code(), Errc::kInternal), reply->failed().error()};
}

// What lib/client does with a plan whose relay was lost.
v1::Placement without(const v1::Placement& plan, const std::string& relay) {
    v1::Placement left;
    std::string instead;
    for (const v1::PlacedRelay& each : plan.relays()) {
        if (each.name() == relay) {
            instead = each.parent();
            continue;
        }
        v1::PlacedRelay& kept = *left.add_relays() = each;
        if (each.parent() == relay) {
            kept.set_parent(instead);
        }
    }
    for (const v1::PlacedHost& each : plan.hosts()) {
        v1::PlacedHost& kept = *left.add_hosts() = each;
        if (each.entry() == relay) {
            kept.set_entry(instead);
        }
    }
    return left;
}

}  // namespace

std::string full_name(std::uint32_t host) {
    return "h" + std::to_string(host) + " (" + format_host(address_of(host)) + ")";
}

Nanos some_time(Random& random, unsigned low, unsigned high) {
    const std::uint64_t top = std::uint64_t{1} << random.between(low, high);
    return static_cast<Nanos>(random.between(top / 2, top)) * kMicrosecond;
}

Apps::Apps(World& world, Oracle& oracle, std::vector<std::unique_ptr<Host>>& hosts, std::uint64_t seed)
    : world_(world), oracle_(oracle), hosts_(hosts), seed_(seed), threads_(world) {}

void Apps::start() {
    receivers_left_ = world_.plan.receivers;
    for (std::uint32_t receiver = 0; receiver < world_.plan.receivers; ++receiver) {
        threads_.spawn([this, receiver] { receive_all(receiver); });
    }
}

void Apps::check_end(const std::string& who) {
    const Plan& plan = world_.plan;
    const Nanos limit =
        (kSessionWaits * plan.deadline + plan.idle + 2 * plan.dawdle) * kMillisecond + kGoodbyes;
    const Nanos still = world_.clock.now() - world_.moved;
    if (still > limit) {
        world_.fail(Promise::kWait, who + " has ended, but nothing had moved for " +
                                        std::to_string(still / kSecond) + " s before that");
    }
    world_.moves();
}

void Apps::sleep(Nanos time) {
    park(nullptr, world_.clock.now() + time);
}

bool Apps::tasks_must_succeed() const {
    const Plan& plan = world_.plan;
    return !plan.deadly() && plan.call_loss == 0 && plan.channels >= plan.receivers;
}

std::unique_ptr<AppEnd> Apps::connect(std::uint32_t host, const v1::LocalRequest& request) {
    while (!hosts_[host]->up()) {
        sleep(kMillisecond);
    }
    world_.moves();
    return std::make_unique<AppEnd>(hosts_[host]->open(request));
}

// The tasks of one receiver, one after another.
void Apps::receive_all(std::uint32_t receiver) {
    Random random(seed_, 100 + receiver);
    for (std::uint32_t i = 0; i < world_.plan.tasks; ++i) {
        const TaskPtr task = make_task(receiver, i, random);
        receive(task, random);
        task->over = true;
        while (task->sending > 0) {
            park(&task->changed, kNever);
        }
    }
    --receivers_left_;
}

Apps::TaskPtr Apps::make_task(std::uint32_t receiver, std::uint32_t number, Random& random) {
    auto task = std::make_shared<Task>();
    task->id = "t" + std::to_string(receiver) + "-" + std::to_string(number);
    task->receiver = receiver;
    std::vector<std::uint32_t> others;
    for (std::uint32_t host = 0; host < world_.plan.hosts; ++host) {
        if (host != receiver || world_.plan.local > 0) {
            others.push_back(host);
        }
    }
    task->senders = task->sending = std::min<std::uint32_t>(world_.plan.senders, world_.plan.hosts - 1);
    std::vector<std::uint32_t> chosen;
    for (std::uint32_t n = 0; n < task->senders; ++n) {
        const std::size_t at = random.below(others.size());
        const std::uint32_t host = others[at];
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(at));
        auto tuples = std::make_shared<const Tuples>(
            make_tuples(world_.plan, seed_, (receiver * 100ULL + number) * 1000 + host,
                        far_way(n, world_.plan.far > 0, task->senders)));
        chosen.push_back(host);
        oracle_.sends(task->id, full_name(host), tuples);
        threads_.spawn([this, task, host, tuples = std::move(tuples), own = Random(random.next(), 1)] {
            send(task, host, tuples, own);
        });
    }
    place(*task, number, chosen);
    return task;
}

// Tried again if it fails, as a new instance.
void Apps::receive(const TaskPtr& task, Random& random) {
    std::uint32_t runs = 1;
    Try how{.no_switch = false, .placement = task->placement};
    for (std::uint32_t attempt = 0; attempt < kAttempts;) {
        const Result<> result = try_receive(*task, how);
        check_end("task " + task->id);
        if (result.ok()) {
            return;
        }
        world_.note("task %s: receive failed: %s", task->id.c_str(), result.error().text().c_str());
        if (result.error().code() == Errc::kRunAgain && runs < kMostRuns) {
            ++runs;
            plan_again(how, runs);
            continue;
        }
        runs = 1;
        how = Try{.no_switch = false, .placement = task->placement};
        ++attempt;
        ++errors_;
        if (tasks_must_succeed()) {
            world_.fail(Promise::kTask,
                        "task " + task->id + ": nothing died, but it failed: " + result.error().text());
        }
        // What the switch still has of a former try goes with its lease.
        sleep(result.error().code() == Errc::kExists ? SwitchDaemon::kLease : some_time(random, 5, 14));
    }
}

// Without the relays or switches that were lost, or, on the last run, without anything that could be.
void Apps::plan_again(Try& how, std::uint32_t run) {
    if (run < kMostRuns && !how.lost_switches.empty()) {
        how.without.insert(how.without.end(), how.lost_switches.begin(), how.lost_switches.end());
        return;
    }
    if (run < kMostRuns && !how.lost_relays.empty() && how.placement.relays_size() > 0) {
        for (const std::string& relay : how.lost_relays) {
            how.placement = without(how.placement, relay);
        }
        return;
    }
    how.placement.Clear();
    how.no_switch = true;
}

// A tree of its own, of three levels at most; from numbers of its own. Now and then none.
void Apps::place(Task& task, std::uint32_t number, const std::vector<std::uint32_t>& senders) const {
    const Plan& plan = world_.plan;
    Random random(seed_, 500'000 + task.receiver * 100ULL + number);
    const std::uint64_t most = plan.relays == 0 || random.below(8) == 0 ? 0 : random.between(1, plan.relays);
    struct Node {
        std::string name;
        std::string parent;
        unsigned depth = 1;
        bool used = false;
    };
    std::vector<Node> nodes{{.name = "", .parent = "", .depth = 0, .used = true}};
    std::vector<std::uint32_t> free;
    for (std::uint32_t i = 0; i < plan.relays; ++i) {
        free.push_back(plan.hosts + i);
    }
    std::map<std::string, std::uint32_t> at;
    while (nodes.size() <= most) {
        const std::size_t chosen = random.below(free.size());
        const Node& parent = nodes[random.below(nodes.size())];
        if (parent.depth >= kLevels) {
            continue;
        }
        const std::string name = "r" + std::to_string(free[chosen]);
        at[name] = free[chosen];
        nodes.push_back({.name = name, .parent = parent.name, .depth = parent.depth + 1});
        free.erase(free.begin() + static_cast<std::ptrdiff_t>(chosen));
    }
    for (const std::uint32_t host : senders) {
        Node& entry = nodes[random.below(nodes.size())];
        entry.used = true;
        v1::PlacedHost& placed = *task.placement.add_hosts();
        placed.set_name("h" + std::to_string(host));
        placed.set_address(format_host(address_of(host)));
        placed.set_sends(1);
        placed.set_entry(entry.name);
    }
    // Whoever has a child with senders has some, too.
    for (std::size_t i = nodes.size(); i-- > 1;) {
        const auto parent = std::ranges::find(nodes, nodes[i].parent, &Node::name);
        parent->used = parent->used || nodes[i].used;
    }
    for (const Node& node : nodes) {
        if (node.used && !node.name.empty()) {
            v1::PlacedRelay& relay = *task.placement.add_relays();
            relay.set_name(node.name);
            relay.set_address(control_address(address_of(at.at(node.name)), 4793));
            relay.set_parent(node.parent);
        }
    }
}

v1::LocalRequest Apps::receive_request(const Task& task, const Try& how) const {
    const Plan& plan = world_.plan;
    v1::LocalRequest request;
    v1::OpenReceive& open = *request.mutable_open_receive();
    open.set_task_id(task.id);
    open.set_senders(task.senders);
    open.set_op(plan.count > 0 ? v1::OPERATOR_COUNT : op_to_proto(static_cast<Op>(plan.op)));
    open.set_deadline_ms(plan.deadline);
    // Whoever goes on without a sender needs a second copy for the end.
    open.set_aggregators(plan.aggregators * (plan.incomplete > 0 ? 2 : plan.copies));
    const bool placed = how.placement.relays_size() > 0;
    open.set_no_switch(!placed && (how.no_switch || plan.aggregators == 0));
    open.set_policy(policy_to_proto(static_cast<ask_policy>(plan.policy)));
    open.set_own_switches(plan.own > 0 && !placed);
    open.mutable_without_switches()->Add(how.without.begin(), how.without.end());
    open.set_can_repeat(true);
    open.set_allow_incomplete(plan.incomplete > 0 && !placed);
    if (placed) {
        *open.mutable_placement() = how.placement;
    }
    if (plan.copies == 2) {
        open.mutable_swap()->set_packets(plan.swap_packets);
    } else {
        open.mutable_swap()->set_off(true);
    }
    if (plan.fit > 0) {
        open.set_auto_geometry(true);
    } else {
        *open.mutable_geometry() = geometry_to_proto(plan.geometry());
    }
    return request;
}

Result<> Apps::try_receive(const Task& task, Try& how) {
    const auto app = connect(task.receiver, receive_request(task, how));
    const auto ended = [&how](const std::optional<v1::LocalReply>& with) {
        how.lost_relays.clear();
        how.lost_switches.clear();
        if (with && with->has_failed()) {
            const auto& lost = with->failed().lost_relays();
            const auto& switches = with->failed().lost_switches();
            how.lost_relays.assign(lost.begin(), lost.end());
            how.lost_switches.assign(switches.begin(), switches.end());
        }
        return sim::ended(with);
    };
    auto reply = app->next();
    if (reply && reply->has_receive_accepted()) {
        reply = app->next();
    }
    if (!reply || !reply->has_receive_ready()) {
        return ended(reply);
    }
    const std::uint64_t instance = reply->receive_ready().instance();
    reply = app->next();
    if (!reply || !reply->has_done()) {
        return ended(reply);
    }
    auto taken = take(task, *app, instance, reply->done());
    return !taken && taken.error().code() == Errc::kNotTaken ? take_again(task) : taken;
}

// What an application does that was too slow.
Result<> Apps::take_again(const Task& task) {
    v1::LocalRequest request;
    request.mutable_open_again()->set_task_id(task.id);
    request.mutable_open_again()->set_deadline_ms(world_.plan.deadline);
    const auto app = connect(task.receiver, request);
    auto reply = app->next();
    if (!reply || !reply->has_receive_ready()) {
        return ended(reply);
    }
    const std::uint64_t instance = reply->receive_ready().instance();
    reply = app->next();
    return reply && reply->has_done() ? take(task, *app, instance, reply->done()) : ended(reply);
}

Result<> Apps::take(const Task& task, AppEnd& app, std::uint64_t instance, const v1::Done& done) {
    auto& result = const_cast<SimSealed&>(*app.link().result);
    oracle_.delivered(task.id, instance, result.table, done);
    sleep(Nanos{world_.plan.dawdle} * kMillisecond);
    if (!app.has_news()) {
        oracle_.taken(instance);
        v1::LocalRequest request;
        request.mutable_taken();
        app.say(std::move(request));
    }
    const auto reply = app.next();
    return reply && reply->has_confirmed() ? Result<>() : ended(reply);
}

void Apps::send(const TaskPtr& task, std::uint32_t host, std::shared_ptr<const Tuples> tuples,
                Random random) {
    sleep(some_time(random, 0, 10));
    std::uint32_t runs = 1;
    // It may have to look for the task longer than a receiver tries to run it.
    for (std::uint32_t attempt = 0; attempt < 2 * kAttempts && !task->over;) {
        const Result<> result = try_send(*task, host, tuples, random);
        check_end("task " + task->id + ": the send of host " + std::to_string(host));
        if (result.ok()) {
            break;
        }
        world_.note("task %s: send of host %u failed: %s", task->id.c_str(), host,
                    result.error().text().c_str());
        if (result.error().code() == Errc::kRunAgain && runs < kMostRuns) {
            ++runs;
            continue;
        }
        runs = 1;
        ++attempt;
        if (tasks_must_succeed()) {
            world_.fail(Promise::kTask, "task " + task->id + ": nothing died, but the send of host " +
                                            std::to_string(host) + " failed: " + result.error().text());
        }
        sleep(5 * kMillisecond);
    }
    --task->sending;
    wake(task->changed);
}

v1::LocalRequest Apps::send_request(const Task& task, const Tuples& tuples) const {
    v1::LocalRequest request;
    v1::OpenSend& open = *request.mutable_open_send();
    open.set_task_id(task.id);
    open.set_to("h" + std::to_string(task.receiver));
    open.set_deadline_ms(world_.plan.deadline);
    open.set_can_repeat(true);
    if (world_.plan.fit > 0) {
        KeySampler sampler(public_seed(1));
        for (const auto& [key, value] : tuples) {
            sampler.add(key, value);
        }
        *open.mutable_sample() = sample_to_proto(sampler.finish(tuples.size()));
    }
    return request;
}

Result<> Apps::try_send(const Task& task, std::uint32_t host, const std::shared_ptr<const Tuples>& tuples,
                        Random& random) {
    const auto app = connect(host, send_request(task, *tuples));
    auto reply = app->next();
    if (!reply || !reply->has_send_ready()) {
        return ended(reply);
    }
    const auto intake = app->link().intake;
    intake->tuples = tuples;
    if (world_.plan.merge > 0) {
        intake->tuples = std::make_shared<const Tuples>(
            test::combined(*tuples, static_cast<Op>(world_.plan.op), world_.plan.hold));
    }
    if (hand_in(*app, *intake, random)) {
        v1::LocalRequest request;
        request.mutable_finish_send();
        app->say(std::move(request));
    } else if (!app->has_news()) {
        app->close();
        return Error(Errc::kAborted, "the application has gone away");
    }
    reply = app->next();
    if (!reply || !reply->has_done()) {
        return ended(reply);
    }
    oracle_.succeeded(task.id, intake->instance, full_name(host));
    return {};
}

bool Apps::hand_in(AppEnd& app, SimIntake& intake, Random& random) {
    const Plan& plan = world_.plan;
    const std::size_t all = intake.tuples->size();
    const std::size_t idle_at = plan.idle > 0 ? random.below(all) : all;
    const bool quits = plan.quits > random.below(100);
    const std::size_t quit_at = quits ? random.below(all + 1) : all + 1;
    while (intake.handed_in < all && !app.has_news()) {
        const std::size_t burst = plan.pace > 0 ? kBurst : all;
        const std::size_t before = intake.handed_in;
        intake.handed_in = std::min(all, before + burst);
        if (before < idle_at && idle_at < intake.handed_in) {
            intake.handed_in = idle_at;
        }
        if (intake.has_more) {
            intake.has_more();
        }
        if (intake.handed_in >= quit_at) {
            return false;
        }
        sleep(intake.handed_in == idle_at ? Nanos{plan.idle} * kMillisecond
                                          : Nanos{plan.pace} * kMicrosecond);
    }
    return !app.has_news() && quit_at > all;
}

}  // namespace ask::sim
