// SPDX-License-Identifier: Apache-2.0
//
// A worker: one thread that owns AF_XDP sockets, the sending channels that hash to it, and the receiver of
// the flows that hash to it. Everything else talks to it by commands, which run between two rounds of its
// loop, and by its inbox of packets. What each part of it does is in worker/.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/arena_budget.h"
#include "agent/packet_inbox.h"
#include "lib/base/event_fd.h"
#include "lib/client/group_ring.h"
#include "lib/client/tuple_ring.h"
#include "lib/control/group/ports.h"
#include "lib/control/member/counters.h"
#include "lib/control/member/mailbox.h"
#include "lib/control/member/workers_port.h"
#include "lib/control/receive/task_arrivals.h"
#include "lib/engine/receiver.h"
#include "lib/net/frame.h"
#include "lib/tuples/sender.h"
#include "lib/tuples/table_sink.h"
#include "lib/tuples/tuple.h"
#include "lib/xsk/xsk_socket.h"

namespace ask {

class RingIntake final : public TupleIntake {
 public:
    explicit RingIntake(TupleRingConsumer of) : ring(std::move(of)), descriptors_(ring.application_fds()) {}
    [[nodiscard]] std::vector<int> descriptors() const override {
        return {descriptors_.begin(), descriptors_.end()};
    }
    [[nodiscard]] std::size_t bytes() const override { return ring.bytes(); }

    TupleRingConsumer ring;  // the worker's, once the stream has begun

 private:
    const std::array<int, 3> descriptors_;
};

class SharedGroupMemory final : public GroupMemory {
 public:
    static Result<std::shared_ptr<GroupMemory>> make(std::size_t arena_bytes, ArenaBudget& budget,
                                                     std::uint32_t user);
    SharedGroupMemory(std::unique_ptr<ArenaBudget::Share> share, UniqueFd fd, SharedMapping arena_of,
                      GroupRing ring_of)
        : ring(std::move(ring_of)),
          share_(std::move(share)),
          arena_fd_(std::move(fd)),
          arena_(std::move(arena_of)) {}
    [[nodiscard]] std::vector<int> descriptors() const override;
    [[nodiscard]] std::size_t arena_bytes() const override { return arena_.size(); }
    // The application may write to it at any time.
    [[nodiscard]] std::span<std::byte> arena() const { return {arena_.data(), arena_.size()}; }

    GroupRing ring;  // the worker's, once the group has begun

 private:
    const std::unique_ptr<ArenaBudget::Share> share_;
    const UniqueFd arena_fd_;
    const SharedMapping arena_;
};

struct WorkerTotals {
    std::array<std::uint64_t, static_cast<std::size_t>(ReceiverCounter::kCount)> receiver{};
    XskCounters xsk{};
    values::MemberStats members;  // of all groups, those that have ended among them
    values::CollectorStats collectors;
    SenderStats senders;               // of all channels: tasks that have ended, and those under way
    AckTimes ack_times;                // the same
    std::uint64_t streams = 0;         // channels with a task
    std::uint64_t in_flight = 0;       // packets of these
    std::uint64_t frames_sending = 0;  // given to the kernel, and not sent yet
    std::uint64_t inbox_packets = 0;   // of other workers and of this host, not taken yet
};

// What has become of a bond's members, on whose queues there are sockets.
struct LinkChange {
    MacAddress mac{};                    // the bond's
    std::vector<std::string> members{};  // that are there, by name: sockets of others are closed
    std::vector<std::string> resting{};  // of these, those that the bond does not send by
};

// The part of a worker that only its thread touches: what commands work on.
class WorkerCore {
 public:
    struct Options {
        std::uint32_t own_address = 0;
        SenderConfig sender;
        Receiver::Limits limits;
        unsigned index = 0;    // of this worker
        unsigned workers = 1;  // of all
        Nanos busy_poll = 0;   // that it asks its sockets again and again for, before it sleeps
        // Puts a packet into another worker's inbox; false: it is full.
        std::function<bool(unsigned worker, InboxPacket packet)> push;
    };
    WorkerCore(Options options, std::vector<XskSocket> sockets);
    ~WorkerCore();
    WorkerCore(const WorkerCore&) = delete;
    WorkerCore& operator=(const WorkerCore&) = delete;

    // Commands: sending channels, named by their port.
    Result<> add_channel(std::uint16_t port, std::uint32_t incarnation);
    Result<> begin(StreamStart start);
    void set_addresses(std::uint16_t port, const UdpAddresses& addresses);
    void finish(std::uint16_t port);
    SenderStats end(std::uint16_t port);
    SenderStats abandon(std::uint16_t port, std::uint32_t new_incarnation);
    [[nodiscard]] StreamState stream_state(std::uint16_t port) const;
    [[nodiscard]] AckTimes ack_times(std::uint16_t port) const;

    // Commands: receiving tasks.
    Result<> open_task(std::uint64_t instance, ResultTable table, std::shared_ptr<Mailbox> mailbox,
                       bool in_parts = false);
    Result<ResultTable> exchange_table(std::uint64_t instance, ResultTable fresh);
    Result<> join(const FlowParams& flow, std::shared_ptr<TaskArrivals> arrivals);
    // Stops taking packets of the task in; its table if it is whole, nothing if it failed or is unknown.
    std::unique_ptr<ResultTable> close_task(std::uint64_t instance, bool failed);
    [[nodiscard]] FlowRxStats flow_stats(std::uint64_t instance, ChannelId channel) const;

    [[nodiscard]] WorkerTotals totals() const;

    // Commands: groups, of which each worker knows who runs them.
    Result<> begin_group(const GroupStart& start);
    void route_group(std::uint64_t instance, std::optional<unsigned> worker);
    [[nodiscard]] GroupState group_state(std::uint64_t instance) const;
    void set_fan_out(std::uint64_t instance, bool fan_out);
    void settle_group(std::uint64_t instance, std::uint64_t last, std::uint64_t dead);
    void end_group(std::uint64_t instance);

    // Command: of an interface that is a bond. `fresh`: sockets on members that have come.
    Result<> change_link(const LinkChange& change, std::vector<XskSocket> fresh);

    // The loop's parts; each returns whether it found anything to do.
    bool receive();
    bool take_inbox(PacketInbox& inbox);
    bool pump();
    bool kick();  // true: frames are waiting that the kernel did not take yet
    // Before sleeping: false if there is something to do after all.
    bool arm();
    [[nodiscard]] Nanos deadline() const;
    [[nodiscard]] int epoll_fd() const { return epoll_.get(); }
    Result<> watch(int fd, std::uint32_t events) const;
    Result<> watch_sockets() const;
    // From any thread.
    [[nodiscard]] const AgentCounters& counters() const { return counters_; }

 private:
    struct Stream;
    struct Group;
    struct Task {
        std::unique_ptr<ResultTable> table;
        std::optional<TableSink> sink;  // once a flow has joined
        std::shared_ptr<Mailbox> mailbox;
        bool in_parts = false;
        bool full = false;  // its table is to be exchanged, which was said
        // Of its flows, those that somebody watches.
        std::unordered_map<ChannelId, std::shared_ptr<TaskArrivals>, ChannelIdHash> arrivals;
    };

    // An interface's sockets among this worker's that it sends by, by their places there.
    struct Way {
        MacAddress mac{};
        std::vector<std::size_t> senders;
    };
    [[nodiscard]] std::vector<Way> find_ways() const;
    // Whether the socket is on a member that its bond does not send by.
    [[nodiscard]] bool rests(const XskSocket& socket) const;
    void close_sockets(const LinkChange& change, std::span<const XskSocket> fresh);
    // By which a channel's frames leave that go out by the interface of this Ethernet address.
    XskSocket& way_out(const MacAddress& from, std::uint16_t port);

    void handle_frame(XskSocket& socket, const XskFrame& frame);
    void handle_data(XskSocket& socket, const XskFrame& frame, const UdpFrame& packet);
    // Receiver's verdict on a packet, its consequences but the ACK, which goes to `ack_`.
    std::size_t accept(std::span<const std::byte> payload, Ports ports, bool ecn_ce);
    void note_arrival(const RxVerdict& verdict);
    static void note_full(Task& task, ChannelId channel);
    void handle_ack(std::span<const std::byte> payload, Ports ports);
    void handle_inbox_packet(const InboxPacket& packet);
    void answer_remote(const UdpAddresses& to, std::size_t ack_bytes);
    // Between two tasks of this host; `payload` may be overwritten afterwards.
    void deliver_local(std::span<const std::byte> payload, Ports ports);
    bool serve(Stream& stream);
    Result<std::size_t> move_tuples(Stream& stream);
    bool pull_tuples(Stream& stream);
    std::size_t send_packets(Stream& stream, std::size_t most);
    bool send_remote(Stream& stream, Nanos now);
    bool send_local(Stream& stream, Nanos now);
    Stream* find(std::uint16_t port) const;
    Result<> begin_channel(Stream& stream, const FlowParams& flow) const;
    void drop_ring(Stream& stream) const;
    static SenderStats stats_of(const Stream& stream);
    void wake_stream(Stream& stream, std::shared_ptr<Mailbox> mailbox);
    // Counts what its task came to.
    void put_to_rest(Stream& stream);
    // Gives the packet to the worker that owns its channel; false if that is this one.
    bool hand_over(ChannelId channel, std::span<const std::byte> payload, const UdpAddresses& addresses,
                   bool ecn_ce, bool local);
    void count(AgentCounter counter) { counters_.add(counter); }

    // Packets of value streams, of groups that run here or at another worker.
    bool take_values(std::span<const std::byte> payload, const UdpAddresses& addresses, bool ecn_ce);
    void handle_values(Group& group, std::span<const std::byte> payload, Ports ports, bool ecn_ce);
    bool serve(Group& group);
    bool take_operations(Group& group);
    bool send_values(Group& group);
    template <typename End>
    bool send_one(Group& group, End& end);
    void send_frame(XskSocket& socket, const XskFrame& frame, const UdpAddresses& addresses,
                    std::size_t bytes, std::uint16_t port);
    bool finish_operations(Group& group);
    void fail_group(Group& group, const Error& error);

    Options options_;
    std::vector<XskSocket> sockets_;
    std::map<MacAddress, std::vector<std::string>> resting_;  // by bond
    std::vector<Way> ways_;                                   // one for each interface that `sockets_` are on
    UniqueFd epoll_;
    std::vector<std::unique_ptr<Stream>> streams_;  // by number; null: not this worker's
    std::vector<Stream*> active_;                   // those with a task: idle ones cost a packet nothing
    Receiver receiver_;
    std::unordered_map<std::uint64_t, Task> tasks_;
    std::unordered_map<std::uint64_t, std::unique_ptr<Group>> groups_;
    values::MemberStats ended_members_;
    values::CollectorStats ended_collectors_;
    SenderStats ended_senders_;
    AckTimes ended_ack_times_;
    std::unordered_map<std::uint64_t, unsigned> group_workers_;  // of those that run at others
    std::array<std::byte, sizeof(ask_hdr)> ack_{};
    std::vector<std::byte> scratch_;  // one payload between tasks of this host
    std::array<Tuple, 64> tuples_;    // on their way from a ring to a packer
    AgentCounters counters_;
};

// Which worker owns a channel, sending or receiving.
[[nodiscard]] inline unsigned owner_of(ChannelId channel, unsigned workers) {
    return static_cast<unsigned>(ChannelIdHash{}(channel) % workers);
}

class Worker {
 public:
    // Of each interface at least one socket that may send.
    Worker(WorkerCore::Options options, std::vector<XskSocket> sockets);
    // Stops the thread.
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    Result<> start();
    void stop();

    // Runs `command(WorkerCore&)` on the worker's thread and returns what it returns. kLimit: too many
    // commands wait. kInternal: the worker did not get to it in time, or has been stopped; then it will not
    // run later.
    template <typename Command>
    auto call(Command command) -> Result<decltype(command(std::declval<WorkerCore&>()))>;

    // A packet from another worker. false: the inbox is full.
    bool push(InboxPacket packet);
    [[nodiscard]] std::size_t inbox_packets() const { return inbox_.size(); }
    [[nodiscard]] const AgentCounters& counters() const { return core_.counters(); }

 private:
    // A command and the right to run it, which either the worker takes or the caller takes back.
    struct Posted {
        std::function<void(WorkerCore&)> run;
        std::atomic<bool> taken{false};
    };
    static constexpr std::size_t kMaxCommands = 1024;
    static constexpr std::size_t kMaxInbox = 4096;
    static constexpr std::chrono::seconds kPatience{10};

    Result<> post(std::shared_ptr<Posted> posted);
    bool run_commands();
    void loop();
    void sleep(bool frames_wait);
    // Whether it is too early to sleep. `busy`: in this round there was something to do.
    bool stays_awake(bool busy);

    const unsigned index_;
    const Nanos busy_poll_;
    Nanos last_busy_ = 0;
    WorkerCore core_;
    EventFd wake_;
    PacketInbox inbox_;
    std::mutex mutex_;
    std::deque<std::shared_ptr<Posted>> commands_;  // under mutex_
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

template <typename Command>
auto Worker::call(Command command) -> Result<decltype(command(std::declval<WorkerCore&>()))> {
    using Value = decltype(command(std::declval<WorkerCore&>()));
    // Shared: a caller that gave up leaves the promise behind.
    auto promise = std::make_shared<std::promise<Value>>();
    auto shared_command = std::make_shared<Command>(std::move(command));
    auto posted = std::make_shared<Posted>();
    posted->run = [promise, shared_command](WorkerCore& core) {
        if constexpr (std::is_void_v<Value>) {
            (*shared_command)(core);
            promise->set_value();
        } else {
            promise->set_value((*shared_command)(core));
        }
    };
    auto future = promise->get_future();
    if (auto accepted = post(posted); !accepted) {
        return std::move(accepted).error();
    }
    if (future.wait_for(kPatience) != std::future_status::ready && !posted->taken.exchange(true)) {
        return Error(Errc::kInternal, "worker " + std::to_string(index_) + " does not answer");
    }
    if constexpr (std::is_void_v<Value>) {
        future.get();
        return {};
    } else {
        return future.get();
    }
}

}  // namespace ask
