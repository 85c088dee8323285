// SPDX-License-Identifier: Apache-2.0
//
// What an agent believes of a switch: copies that come whole and from the incarnation that its task is open
// on.
#include "agent/switch_client.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <grpcpp/grpcpp.h>

#include "agent/network.h"
#include "lib/base/unique_fd.h"
#include "lib/control/member/convert.h"
#include "lib/control/member/switch_keeper.h"
#include "lib/tuples/fetch_codec.h"
#include "proto/switch.grpc.pb.h"
#include "tests/unit/agent/local_agent.h"
#include "tests/unit/tls/folder.h"

using namespace ask;
using namespace ask::test;

namespace {

constexpr Mark kOpenedOn{.switch_id = 9, .incarnation = 5};
constexpr RegionId kCopied{.instance = 11, .nonce = 1100};
constexpr std::uint64_t kEpochAsked = 3;
constexpr milliseconds kLongEnough{20000};

v1::FetchChunk chunk_of(const std::vector<std::pair<std::string, std::int64_t>>& tuples) {
    v1::FetchChunk chunk;
    for (const auto& [key, value] : tuples) {
        append_entry(*chunk.mutable_entries(), key, value);
    }
    return chunk;
}

v1::FetchChunk end_of(std::uint64_t count) {
    v1::FetchChunk last;
    last.set_last(true);
    last.set_count(count);
    last.set_epoch(kEpochAsked);
    last.set_nonce(kCopied.nonce);
    *last.mutable_mark() = mark_to_proto(kOpenedOn);
    return last;
}

// Streams what it is told to, and ends as it is told to.
class ScriptedSwitch final : public v1::Switch::Service {
 public:
    ScriptedSwitch(std::vector<v1::FetchChunk> chunks, grpc::Status status,
                   milliseconds pace = milliseconds(0))
        : chunks_(std::move(chunks)), status_(std::move(status)), pace_(pace) {
        grpc::ServerBuilder builder;
        builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
        builder.RegisterService(this);
        server_ = builder.BuildAndStart();
        REQUIRE(server_ != nullptr);
    }
    grpc::Status FetchCopy(grpc::ServerContext* context, const v1::FetchCopyRequest* request,
                           grpc::ServerWriter<v1::FetchChunk>* writer) override {
        skipped_ = request->skip();
        for (const v1::FetchChunk& chunk : chunks_) {
            // Slow on purpose.
            const auto next = Clock::now() + pace_;
            while (Clock::now() < next && !context->IsCancelled()) {
                std::this_thread::sleep_for(milliseconds(1));
            }
            writer->Write(chunk);
        }
        return status_;
    }
    [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
    [[nodiscard]] std::uint64_t skipped() const { return skipped_; }

 private:
    std::atomic<std::uint64_t> skipped_{0};
    const std::vector<v1::FetchChunk> chunks_;
    const grpc::Status status_;
    const milliseconds pace_;
    int port_ = 0;
    std::unique_ptr<grpc::Server> server_;
};

// Has one channel; `busy` requests of others come in between.
class RegisteringSwitch final : public v1::Switch::Service {
 public:
    RegisteringSwitch(
        std::uint32_t registered, unsigned busy,
        const std::shared_ptr<grpc::ServerCredentials>& credentials = grpc::InsecureServerCredentials())
        : registered_(registered), busy_(busy) {
        grpc::ServerBuilder builder;
        builder.AddListeningPort("127.0.0.1:0", credentials, &port_);
        builder.RegisterService(this);
        server_ = builder.BuildAndStart();
        REQUIRE(server_ != nullptr);
    }
    grpc::Status RegisterChannel(grpc::ServerContext* /*context*/, const v1::RegisterChannelRequest* request,
                                 v1::RegisterChannelReply* reply) override {
        if (busy_ > 0) {
            --busy_;
            ++registered_;
        }
        if (request->replaces() != registered_) {
            v1::RegisterChannelRefusal refusal;
            refusal.set_incarnation(registered_);
            refusal.set_told(true);
            return {grpc::StatusCode::FAILED_PRECONDITION, "another one", refusal.SerializeAsString()};
        }
        registered_ = request->incarnation();
        *reply->mutable_mark() = mark_to_proto(kOpenedOn);
        return grpc::Status::OK;
    }
    [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
    [[nodiscard]] std::uint32_t registered() const { return registered_; }

 private:
    std::uint32_t registered_;
    unsigned busy_;
    int port_ = 0;
    std::unique_ptr<grpc::Server> server_;
};

Result<FetchedCopy> fetched_copy(std::vector<v1::FetchChunk> chunks,
                                 const grpc::Status& status = grpc::Status::OK) {
    RpcChannels channels(plain_text());
    const ScriptedSwitch scripted(std::move(chunks), status);
    return SwitchClient(channels, scripted.address())
        .fetch_copy(
            {.region = kCopied, .mark = kOpenedOn, .epoch = kEpochAsked, .wait = milliseconds(20000)});
}

Errc refused_copy(std::vector<v1::FetchChunk> chunks, const grpc::Status& status = grpc::Status::OK) {
    const auto copy = fetched_copy(std::move(chunks), status);
    REQUIRE_FALSE(copy.ok());
    return copy.error().code();
}

TaskAtSwitch task_on(const Mark& mark, std::uint64_t instance) {
    auto task = std::make_shared<ReceiveTask>();
    task->instance = instance;
    task->mailbox = std::make_shared<Mailbox>();
    return {.task = std::move(task), .client = nullptr, .mark = mark, .nonce = 100 + instance};
}

bool told(const ReceiveTask& task) {
    const auto events = task.mailbox->take();
    return events.size() == 1 && events[0].kind == SessionEvent::Kind::kSwitchLost && events[0].error &&
           events[0].error->code() == Errc::kSwitchLost;
}

}  // namespace

TEST_CASE("a copy that comes whole is staged whole") {
    const auto copy = fetched_copy({chunk_of({{"a", 1}, {"b", 2}}), chunk_of({{"c", 3}}), end_of(3)});
    REQUIRE_MESSAGE(copy.ok(), copy.error().text());
    CHECK(copy->count == 3);
}

TEST_CASE(
    "a stream that breaks has handed on what came; the next goes on behind it, to the end of the whole") {
    RpcChannels channels(plain_text());
    std::string came;
    FetchOrder order{.region = kCopied, .mark = kOpenedOn, .epoch = kEpochAsked, .wait = kLongEnough};
    const auto take = [&](const std::string& entries) -> Result<std::uint64_t> {
        came += entries;
        const auto count = count_entries(entries);
        order.skip += count.ok() ? *count : 0;
        return count;
    };
    const auto stream = [&](const ScriptedSwitch& from) {
        const FetchOrder now = order;
        return SwitchClient(channels, from.address()).stream_copy(now, take);
    };
    const auto first = chunk_of({{"a", 1}, {"b", 2}});
    const auto second = chunk_of({{"c", 3}});
    const ScriptedSwitch broken({first}, {grpc::StatusCode::UNAVAILABLE, "died"});
    CHECK(stream(broken).error().code() == Errc::kUnavailable);
    CHECK(order.skip == 2);
    const ScriptedSwitch rest({second, end_of(3)}, grpc::Status::OK);
    const auto end = stream(rest);
    REQUIRE_MESSAGE(end.ok(), end.error().text());
    CHECK(rest.skipped() == 2);
    CHECK(end->count == 3);
    CHECK(came == first.entries() + second.entries());
    // One that knows no skipping streams it all again: that is seen at its end.
    const ScriptedSwitch elder({first, second, end_of(3)}, grpc::Status::OK);
    CHECK(stream(elder).error().code() == Errc::kInput);
}

TEST_CASE("what a back level has is said once, before it comes, and is no more than comes") {
    RpcChannels channels(plain_text());
    std::vector<BackSize> told;
    const FetchOrder order{.region = kCopied,
                           .mark = kOpenedOn,
                           .epoch = kEpochAsked,
                           .wait = kLongEnough,
                           .expect = [&told](const BackSize& size) -> Result<> {
                               told.push_back(size);
                               return size.entries < 3 ? Result<>() : Error(Errc::kLimit, "no room");
                           }};
    const auto stream = [&](std::vector<v1::FetchChunk> chunks) {
        const ScriptedSwitch from(std::move(chunks), grpc::Status::OK);
        return SwitchClient(channels, from.address()).stream_copy(order, count_entries);
    };
    const auto saying = [](std::uint64_t entries, std::uint64_t key_bytes) {
        v1::FetchChunk chunk = chunk_of({{"a", 1}, {"b", 2}});
        chunk.set_back_entries(entries);
        chunk.set_back_key_bytes(key_bytes);
        return chunk;
    };
    CHECK(stream({saying(2, 2), chunk_of({{"c", 3}}), end_of(3)}).ok());
    CHECK(told == std::vector<BackSize>{{.entries = 2, .key_bytes = 2}});
    CHECK(stream({saying(3, 3), end_of(2)}).error().text() == "no room");
    CHECK(told.size() == 2);
    const auto refused = [&](std::vector<v1::FetchChunk> chunks) {
        return stream(std::move(chunks)).error().code() == Errc::kInput;
    };
    CHECK(refused({saying(1, 1), saying(1, 1), end_of(4)}));
    CHECK(refused({saying(kMostBackEntries + 1, 1), end_of(2)}));
    CHECK(refused({saying(2, 2 * kBackKeyBytes.back() + 1), end_of(2)}));
    v1::FetchChunk one = chunk_of({{"a", 1}});
    one.set_back_entries(2);
    CHECK(refused({one, end_of(1)}));
}

TEST_CASE("who takes a copy may end its stream, and the error is his; pieces of nothing end it, too") {
    RpcChannels channels(plain_text());
    const FetchOrder order{.region = kCopied, .mark = kOpenedOn, .epoch = kEpochAsked, .wait = kLongEnough};
    const ScriptedSwitch endless(std::vector<v1::FetchChunk>(1000, chunk_of({{"a", 1}})), grpc::Status::OK,
                                 milliseconds(5));
    unsigned pieces = 0;
    const auto full = SwitchClient(channels, endless.address())
                          .stream_copy(order, [&](const std::string& /*entries*/) -> Result<std::uint64_t> {
                              ++pieces;
                              return Error(Errc::kLimit, "no room");
                          });
    REQUIRE_FALSE(full.ok());
    CHECK(full.error().text() == "no room");
    CHECK(pieces == 1);
    CHECK(refused_copy({v1::FetchChunk(), chunk_of({{"a", 1}}), end_of(1)}) == Errc::kInput);
}

TEST_CASE(
    "a copy may take longer than its wait while it comes; one of which nothing comes names the switch") {
    RpcChannels channels(plain_text());
    const auto fetch = [&](const ScriptedSwitch& from) {
        return SwitchClient(channels, from.address())
            .fetch_copy(
                {.region = kCopied, .mark = kOpenedOn, .epoch = kEpochAsked, .wait = milliseconds(3500)});
    };
    // Four seconds in all; and between two pieces the server may be late by three.
    constexpr std::size_t kPieces = 16;
    std::vector<v1::FetchChunk> chunks(kPieces, chunk_of({{"a", 1}}));
    chunks.push_back(end_of(kPieces));
    const ScriptedSwitch slow(chunks, grpc::Status::OK, milliseconds(250));
    const auto whole = fetch(slow);
    REQUIRE_MESSAGE(whole.ok(), whole.error().text());
    CHECK(whole->count == kPieces);
    const ScriptedSwitch hanging(chunks, grpc::Status::OK, std::chrono::hours(24));
    const auto none = fetch(hanging);
    REQUIRE_FALSE(none.ok());
    CHECK(none.error().code() == Errc::kDeadline);
    CHECK(none.error().text().find(hanging.address()) != std::string::npos);
}

TEST_CASE("of a copy that ends early nothing is taken, whatever its end says") {
    const auto some = chunk_of({{"a", 1}, {"b", 2}});
    CHECK(refused_copy({some}, {grpc::StatusCode::UNAVAILABLE, "died"}) == Errc::kUnavailable);
    CHECK(refused_copy({some, end_of(2)}, {grpc::StatusCode::ABORTED, "the task went on"}) == Errc::kAborted);
    CHECK(refused_copy({some}) == Errc::kInput);
    CHECK(refused_copy({}) == Errc::kInput);
    CHECK(refused_copy({some, end_of(3)}) == Errc::kInput);
    CHECK(refused_copy({some, end_of(1)}) == Errc::kInput);
    CHECK(refused_copy({some, end_of(2), chunk_of({{"c", 3}})}) == Errc::kInput);
    auto other_epoch = end_of(2);
    other_epoch.set_epoch(kEpochAsked + 1);
    CHECK(refused_copy({some, other_epoch}) == Errc::kInput);
    auto cut = some;
    cut.mutable_entries()->pop_back();
    CHECK(refused_copy({cut, end_of(2)}) == Errc::kInput);
}

TEST_CASE("a copy of another switch, or of another incarnation of it, is nobody's") {
    auto reloaded = end_of(0);
    reloaded.mutable_mark()->set_incarnation(kOpenedOn.incarnation + 1);
    CHECK(refused_copy({reloaded}) == Errc::kSwitchLost);
    auto another = end_of(0);
    another.mutable_mark()->set_switch_id(kOpenedOn.switch_id + 1);
    CHECK(refused_copy({another}) == Errc::kSwitchLost);
    CHECK(refused_copy({}, {grpc::StatusCode::NOT_FOUND, "no such task"}) == Errc::kSwitchLost);
}

TEST_CASE("a copy of a region that was made anew is nobody's") {
    auto anew = end_of(0);
    anew.set_nonce(kCopied.nonce + 1);
    const auto copy = fetched_copy({anew});
    REQUIRE_FALSE(copy.ok());
    CHECK(copy.error().code() == Errc::kSwitchLost);
    CHECK(copy.error().text().find("made anew") != std::string::npos);
    anew.clear_nonce();
    CHECK(refused_copy({anew}) == Errc::kSwitchLost);
}

TEST_CASE("a channel is registered in place of what the switch has, however often it must be told") {
    constexpr ChannelId kOwn{.host = kHost, .port = ASK_CHANNEL_PORT_BASE};
    RpcChannels channels(plain_text());
    RegisteringSwitch of_before(77, 0);
    const auto told = SwitchClient(channels, of_before.address()).register_channel(kOwn, 5, 0, kLongEnough);
    REQUIRE_MESSAGE(told.ok(), told.error().text());
    CHECK(*told == kOpenedOn);
    CHECK(of_before.registered() == 5);
    // Not for ever.
    RegisteringSwitch restless(10, 100);
    const auto refused = SwitchClient(channels, restless.address()).register_channel(kOwn, 5, 0, kLongEnough);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == Errc::kUnsupported);
    CHECK(restless.registered() < 20);
}

TEST_CASE("a renewal tells whose switch has lost them: by instance, and all by its incarnation") {
    const std::vector tasks = {task_on(kOpenedOn, 1), task_on(kOpenedOn, 2)};
    v1::RenewTasksReply reply;
    *reply.mutable_mark() = mark_to_proto(kOpenedOn);
    tell_lost(tasks, reply, "switch s");
    CHECK(tasks[0].task->mailbox->take().empty());
    CHECK(tasks[1].task->mailbox->take().empty());
    reply.add_unknown(2);
    tell_lost(tasks, reply, "switch s");
    CHECK(tasks[0].task->mailbox->take().empty());
    CHECK(told(*tasks[1].task));
    reply.clear_unknown();
    for (const std::uint64_t instance : {1U, 2U}) {
        reply.add_parts()->set_instance(instance);
        reply.mutable_parts()->rbegin()->set_nonce(100 + instance);
    }
    tell_lost(tasks, reply, "switch s");
    CHECK(tasks[0].task->mailbox->take().empty());
    CHECK(tasks[1].task->mailbox->take().empty());
    reply.mutable_parts(0)->set_nonce(7);
    tell_lost(tasks, reply, "switch s");
    CHECK(told(*tasks[0].task));
    CHECK(tasks[1].task->mailbox->take().empty());
    // The same instances, but what it had of them is gone.
    reply.mutable_mark()->set_incarnation(kOpenedOn.incarnation + 1);
    tell_lost(tasks, reply, "switch s");
    CHECK(told(*tasks[0].task));
    CHECK(told(*tasks[1].task));
}

TEST_CASE("a switch that nobody has configured is not even connected to") {
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(own);
    REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&own), size) == 0);
    REQUIRE(::listen(listener.get(), 8) == 0);
    REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0);
    const std::string address = "127.0.0.1:" + std::to_string(ntohs(own.sin_port));
    RpcChannels channels(plain_text());
    HostNetwork network({}, kHost, {}, {"127.0.0.1:1"}, channels);

    const auto named = network.switch_at(address);
    const auto refused = [&address](const auto& result) {
        REQUIRE_FALSE(result.ok());
        CHECK(result.error().code() == Errc::kDenied);
        CHECK(result.error().text().find("switch " + address + " is neither this host's `switch`") !=
              std::string::npos);
    };
    refused(named->info(kLongEnough));
    refused(named->register_channel({.host = kHost, .port = 1}, 1, 0, kLongEnough));
    refused(named->unregister_channel({.host = kHost, .port = 1}, 1, kLongEnough));
    refused(named->confirm_copy(kCopied, 1, kLongEnough));
    refused(
        named->fetch_copy({.region = kCopied, .mark = {}, .epoch = 0, .close = false, .wait = kLongEnough}));
    CHECK(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC) < 0);
    CHECK(channels.size() == 0);

    channels.learn_switch({address});
    CHECK_FALSE(network.switch_at(address)->info(milliseconds(100)).ok());
    // Threads of gRPC's connect, perhaps when the call has given up.
    pollfd comes{.fd = listener.get(), .events = POLLIN, .revents = 0};
    CHECK(::poll(&comes, 1, static_cast<int>(kLongEnough.count())) == 1);
    CHECK(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC) >= 0);
}

TEST_CASE("what answers at a switch's address is none without a certificate that says so") {
    const CertificateFolder folder;
    const auto credentials_of = [&](const std::string& name, bool is_switch) {
        CertificateOrder order;
        order.name = name;
        order.addresses = {"127.0.0.1"};
        order.role_switch = is_switch;
        return *RpcCredentials::create({.plain_text = PlainText::kNowhere, .files = folder.issue(order)});
    };
    RpcChannels channels(credentials_of("h1", false));
    for (const bool is_switch : {false, true}) {
        CAPTURE(is_switch);
        const auto shown = credentials_of("sw", is_switch);
        const auto served = shown->of_server();  // which its server goes on asking
        const RegisteringSwitch impostor(0, 0, served);
        const auto registered = SwitchClient(channels, impostor.address())
                                    .register_channel({.host = kHost, .port = 1}, 1, 0, kLongEnough);
        CHECK(registered.ok() == is_switch);
        CHECK(channels.is_learned(impostor.address()) == is_switch);
        if (!is_switch) {
            CHECK(registered.error().code() == Errc::kDenied);
            CHECK(registered.error().text().find("does not say that it is a switch") != std::string::npos);
        }
    }
}

TEST_CASE("channels that nobody uses are freed, but for the last ones") {
    RpcChannels channels(plain_text());
    const auto used = channels.get("127.0.0.1:1");
    for (int port = 2; port < 300; ++port) {
        static_cast<void>(channels.get("127.0.0.1:" + std::to_string(port)));
    }
    CHECK(channels.size() <= 66);
    CHECK(channels.get("127.0.0.1:1") == used);
    const auto last = channels.get("127.0.0.1:299");
    CHECK(last.use_count() == 2);
    CHECK(channels.size() <= 66);
}
