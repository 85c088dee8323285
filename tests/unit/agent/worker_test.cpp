// SPDX-License-Identifier: Apache-2.0
#include "agent/worker.h"

#include <sys/epoll.h>
#include <sys/mman.h>

#include <map>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "tests/unit/agent/local_agent.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr std::uint64_t kInstance = 77;

FlowParams flow_of(ChannelId channel) {
    FlowParams flow;
    flow.instance = kInstance;
    flow.channel = channel;
    flow.incarnation = 5;
    flow.secret = {1, 2};
    return flow;
}

// A task on all workers.
void open_task(Workers& workers, const std::shared_ptr<Mailbox>& mailbox) {
    for (unsigned i = 0; i < workers.size(); ++i) {
        auto table = ResultTable::create(make_heap_memory(), Op::kSum);
        REQUIRE(table.ok());
        REQUIRE(workers.open_task(i, kInstance, std::move(*table), mailbox, false).ok());
    }
}

// Streams `tuples` over a channel of its own, as an application would.
class TupleStream {
 public:
    TupleStream(Workers& workers, std::uint16_t number, bool counts = false) : workers_(workers) {
        channel_ = {kHost, static_cast<std::uint16_t>(ASK_CHANNEL_PORT_BASE + number)};
        const auto intake = workers_.make_intake(256U << 10U);
        REQUIRE(intake.ok());
        intake_ = *intake;
        const FlowParams flow = flow_of(channel_);
        StreamStart start;
        start.flow = flow;
        start.local = true;
        start.counts = counts;
        start.intake = intake_;
        start.mailbox = mailbox_;
        REQUIRE(workers_.add_channel(channel_, flow.incarnation).ok());
        REQUIRE(workers_.join(flow, nullptr).ok());
        const auto begun = workers_.begin(std::move(start));
        REQUIRE_MESSAGE(begun.ok(), begun.error().text());
    }

    void push(int tuples) {
        auto producer = producer_of(*intake_);
        for (int i = 0; i < tuples; ++i) {
            const std::string key = "key" + std::to_string(i % 1000);
            while (!producer.try_push(key, i)) {
                producer.publish();
                if (!producer.arm(4096)) {
                    pollfd entry{.fd = producer.space_event(), .events = POLLIN, .revents = 0};
                    ::poll(&entry, 1, 1000);
                }
            }
        }
        producer.publish();
    }
    void finish() {
        const auto port = channel_.port;
        REQUIRE(workers_.owner(channel_).call([port](WorkerCore& core) { core.finish(port); }).ok());
    }
    SenderStats end() {
        await(*mailbox_, SessionEvent::Kind::kFinAcked);
        const auto port = channel_.port;
        const auto stats = workers_.owner(channel_).call([port](WorkerCore& core) { return core.end(port); });
        REQUIRE(stats.ok());
        return *stats;
    }
    [[nodiscard]] const TupleIntake& intake() const { return *intake_; }
    [[nodiscard]] Mailbox& mailbox() { return *mailbox_; }

 private:
    Workers& workers_;
    ChannelId channel_;
    std::shared_ptr<TupleIntake> intake_;
    std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
};

// The task's tables of all workers, merged.
ResultTable close_task(Workers& workers) {
    auto all = ResultTable::create(make_heap_memory(), Op::kSum);
    REQUIRE(all.ok());
    for (unsigned i = 0; i < workers.size(); ++i) {
        auto part = workers.at(i).call([](WorkerCore& core) { return core.close_task(kInstance, false); });
        REQUIRE(part.ok());
        REQUIRE(*part);
        REQUIRE(all->merge(**part).ok());
    }
    return std::move(*all);
}

}  // namespace

TEST_CASE(
    "tasks between applications of one host are exact, with one worker or several, that sleep or poll") {
    struct Way {
        unsigned count;
        Nanos busy_poll;
    };
    for (const auto& [count, busy_poll] : {Way{1, 0}, Way{3, 0}, Way{1, kMillisecond}}) {
        CAPTURE(count);
        CAPTURE(busy_poll);
        constexpr std::uint16_t kStreams = 4;
        constexpr int kTuples = 20000;
        LocalAgent agent(count, busy_poll);
        const auto receiver = std::make_shared<Mailbox>();
        open_task(agent.workers, receiver);
        std::vector<std::unique_ptr<TupleStream>> streams;
        std::vector<std::thread> applications;
        for (std::uint16_t i = 0; i < kStreams; ++i) {
            streams.push_back(std::make_unique<TupleStream>(agent.workers, i));
        }
        for (const auto& stream : streams) {
            applications.emplace_back([&stream] { stream->push(kTuples); });
        }
        for (auto& application : applications) {
            application.join();
        }
        for (const auto& stream : streams) {
            stream->finish();
        }
        for (const auto& stream : streams) {
            const SenderStats stats = stream->end();
            CHECK(stats.packer.tuples_in == kTuples);
            CHECK(stats.packets_acked_by_receiver == stats.packets_sent);
        }
        ResultTable table = close_task(agent.workers);
        std::map<std::string, std::int64_t> expected;
        for (int i = 0; i < kTuples; ++i) {
            expected["key" + std::to_string(i % 1000)] += std::int64_t{i} * kStreams;
        }
        CHECK(table.size() == expected.size());
        // Adding the negative of what is expected must leave nothing but zeros: smallest and largest value.
        auto zero = ResultTable::create(make_heap_memory(), Op::kSum);
        REQUIRE(zero.ok());
        REQUIRE(zero->merge(table).ok());
        for (const auto& [key, value] : expected) {
            REQUIRE(zero->add(key, -Wide{value}).ok());
        }
        CHECK(zero->size() == expected.size());
        REQUIRE(table.finish().ok());
        CHECK(zero->finish().ok());
        CHECK(agent.workers.counter(AgentCounter::k_drop_inbox_full) == 0);
        CHECK(agent.workers.counter(AgentCounter::k_local_packets) > 0);
    }
}

TEST_CASE("a ring that its application broke ends the send") {
    LocalAgent agent(1);
    open_task(agent.workers, std::make_shared<Mailbox>());
    TupleStream stream(agent.workers, 0);
    auto* const header = static_cast<RingHeader*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, stream.intake().descriptors()[0], 0));
    REQUIRE(header != MAP_FAILED);
    header->head.store(~std::uint64_t{0} - 7);
    const std::byte wake{1};
    REQUIRE(::write(stream.intake().descriptors()[1], &wake, 1) == 1);
    const SessionEvent broken = await(stream.mailbox(), SessionEvent::Kind::kRingBroken);
    REQUIRE(broken.error.has_value());
    CHECK(broken.error->code() == Errc::kInput);
    ::munmap(header, 4096);
}

namespace {

// A member alone in its group, without a thread: what its application writes is looked at by pump().
struct LoneGroup {
    static constexpr std::size_t kArena = 1U << 20U;
    ArenaBudget budget{kArena};
    WorkerCore core{{.own_address = kHost, .sender = {}, .limits = {}, .push = {}}, {}};
    std::shared_ptr<Mailbox> mailbox = std::make_shared<Mailbox>();
    std::optional<GroupRingUser> application;

    LoneGroup() {
        auto memory = SharedGroupMemory::make(kArena, budget, 0);
        REQUIRE(memory.ok());
        const auto fds = (*memory)->descriptors();
        auto user =
            GroupRingUser::open(UniqueFd(::dup(fds[1])), UniqueFd(::dup(fds[2])), UniqueFd(::dup(fds[3])));
        REQUIRE(user.ok());
        application = *std::move(user);
        GroupStart start;
        start.terms.instance = kInstance;
        start.terms.seats = {{.channel = {kHost, ASK_CHANNEL_PORT_BASE}, .incarnation = 5}};
        start.ways.resize(1);
        start.memory = *memory;
        start.mailbox = mailbox;
        REQUIRE(core.begin_group(start).ok());
    }
    void submit(GroupKind kind, std::uint64_t in, std::uint64_t out) {
        GroupDescriptor descriptor;
        descriptor.kind = kind;
        descriptor.type = GroupType::kInt32;
        descriptor.op = kind == GroupKind::kBroadcast ? GroupOp{} : GroupOp::kSum;
        descriptor.in = in;
        descriptor.out = out;
        descriptor.count = kArena / 8;
        REQUIRE(application->submit(descriptor).ok());
    }
    std::string failure() {
        core.pump();
        return await(*mailbox, SessionEvent::Kind::kGroupFailed).error->text();
    }
};

}  // namespace

TEST_CASE("an operation that writes where it reads takes no memory of the agent's: it ends the group") {
    for (const GroupKind kind : {GroupKind::kAllreduce, GroupKind::kReduce}) {
        LoneGroup group;
        group.submit(kind, 64, 64);
        CHECK(group.failure() ==
              "operation 1: it would write where it reads: its output needs a place of its own");
    }
}

TEST_CASE("a group that has failed keeps no worker busy, whatever its application writes") {
    LoneGroup group;
    group.submit(GroupKind::kAllreduce, 0, 1);
    CHECK(group.failure().find("are not within the arena") != std::string::npos);
    group.submit(GroupKind::kAllreduce, 0, LoneGroup::kArena / 2);
    CHECK_FALSE(group.core.pump());
    CHECK(group.core.arm());
    epoll_event event{};
    CHECK(::epoll_wait(group.core.epoll_fd(), &event, 1, 0) == 0);
}

TEST_CASE("a count below 1 ends the send") {
    LocalAgent agent(1);
    open_task(agent.workers, std::make_shared<Mailbox>());
    TupleStream stream(agent.workers, 0, true);
    stream.push(1);  // its value is 0
    const SessionEvent event = await(stream.mailbox(), SessionEvent::Kind::kRingBroken);
    REQUIRE(event.error);
    CHECK(event.error->code() == Errc::kInput);
    CHECK(event.error->text() == "tuple ring: a count of 0; they start at 1");
}

TEST_CASE("what the application says that it merged is told beside what it sent") {
    LocalAgent agent(1);
    open_task(agent.workers, std::make_shared<Mailbox>());
    TupleStream stream(agent.workers, 0);
    {
        auto producer = producer_of(stream.intake());
        producer.set_merged(41);
        REQUIRE(producer.try_push("key", 42));
        producer.publish();
    }
    stream.finish();
    const SenderStats stats = stream.end();
    CHECK(stats.tuples_merged == 41);
    CHECK(stats.packer.tuples_in == 1);
}

TEST_CASE("a command to a stopped worker is refused, not forgotten") {
    LocalAgent agent(1);
    CHECK(agent.workers.at(0).call([](WorkerCore&) { return 7; }).value() == 7);
    agent.workers.stop();
    const auto refused = agent.workers.at(0).call([](WorkerCore&) { return 7; });
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == Errc::kAborted);
}

TEST_CASE("joining a task that is not open is an error") {
    LocalAgent agent(1);
    const auto joined = agent.workers.at(0).call(
        [](WorkerCore& core) { return core.join(flow_of({kHost, ASK_CHANNEL_PORT_BASE}), nullptr); });
    REQUIRE(joined.ok());
    REQUIRE_FALSE(joined->ok());
    CHECK(joined->error().code() == Errc::kUnknown);
}
