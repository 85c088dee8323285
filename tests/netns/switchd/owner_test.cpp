// SPDX-License-Identifier: Apache-2.0
//
// A host that is neither sender nor receiver of a task makes their calls: it changes nothing, and learns
// nothing.
#include <vector>

#include <doctest/doctest.h>

#include "tests/netns/switchd/daemon.h"
#include "tests/netns/switchd/one_flow.h"

namespace {

using ask::ChannelId;
using ask::test::Daemon;
using ask::test::kChannel;
using ask::test::kHost1;
using ask::test::kHost2;
using ask::test::kIncarnation;
using ask::test::kInstance;
using ask::test::kSecret;
using ask::test::must;
using ask::test::task_request;
using grpc::StatusCode;

constexpr std::uint32_t kAttacker = 0xc6120103;  // 198.18.1.3, behind the sender's port
constexpr std::uint64_t kNone = kInstance + 1000;

// The same answer, whichever of the two instances it is about.
template <typename Call>
void same_as_unknown(Call call) {
    const grpc::Status of_victim = call(kInstance);
    const grpc::Status of_none = call(kNone);
    CHECK(of_victim.error_code() == of_none.error_code());
    const auto without = [](std::string text, std::uint64_t instance) {
        const std::string number = std::to_string(instance);
        for (std::size_t at = 0; (at = text.find(number)) != std::string::npos;) {
            text.erase(at, number.size());
        }
        return text;
    };
    CHECK(without(of_victim.error_message(), kInstance) == without(of_none.error_message(), kNone));
}

grpc::Status unregister_from(Daemon& daemon, std::uint32_t host, const ChannelId& channel,
                             std::uint32_t incarnation) {
    ask::v1::UnregisterChannelRequest request;
    ask::v1::UnregisterChannelReply reply;
    request.mutable_channel()->set_host(channel.host);
    request.mutable_channel()->set_port(channel.port);
    request.set_incarnation(incarnation);
    grpc::ClientContext context;
    return daemon.stub_at(host).UnregisterChannel(&context, request, &reply);
}

grpc::Status register_from(Daemon& daemon, std::uint32_t host, const ChannelId& channel,
                           std::uint32_t incarnation, std::uint32_t replaces) {
    ask::v1::RegisterChannelRequest request;
    ask::v1::RegisterChannelReply reply;
    request.mutable_channel()->set_host(channel.host);
    request.mutable_channel()->set_port(channel.port);
    request.set_incarnation(incarnation);
    request.set_replaces(replaces);
    grpc::ClientContext context;
    return daemon.stub_at(host).RegisterChannel(&context, request, &reply);
}

void nothing_changed(Daemon& daemon) {
    daemon.call_as(kHost2);
    CHECK(ask::test::send_one(2, "key", 7) > 0);
    const ask::v1::SwitchStatus status = daemon.status();
    REQUIRE(status.tasks_size() == 1);
    CHECK(status.tasks(0).flows() == 1);
    CHECK(status.tasks(0).epoch() == 0);
    CHECK(status.channels_size() == 1);
    CHECK(ask::test::fetched(daemon) == ask::test::Entries{{"key", 12}});
}

}  // namespace

TEST_CASE("a task's calls are its owner's: to anybody else it is as one that is not open") {
    Daemon daemon;
    auto request = task_request("words", kInstance);
    request.set_copies(2);
    ask::test::open_and_join(daemon, request);
    ask::test::send_one(1, "key", 5);

    for (const std::uint32_t stranger : {kAttacker, kHost1}) {
        CAPTURE(stranger);
        daemon.call_as(stranger);
        same_as_unknown([&](std::uint64_t instance) { return daemon.close_task(instance); });
        same_as_unknown([&](std::uint64_t instance) {
            return daemon.join_flow(instance, kChannel, kIncarnation, {3, 4});
        });
        same_as_unknown([&](std::uint64_t instance) {
            std::vector<Daemon::Entry> entries;
            const auto status = daemon.fetch(instance, 0, &entries);
            CHECK(entries.empty());
            return status;
        });
        same_as_unknown([&](std::uint64_t instance) {
            std::vector<Daemon::Entry> entries;
            return daemon.swap(instance, 0, &entries);
        });
        same_as_unknown([&](std::uint64_t instance) { return daemon.confirm(instance, 0); });
        const auto renewed = daemon.renew({kInstance, kNone});
        CHECK(renewed.unknown_size() == 2);
        CHECK(renewed.parts_size() == 0);
        // What is open is not opened again, nor in another's name.
        CHECK(daemon.open_task(request).error_code() == StatusCode::PERMISSION_DENIED);
        auto own = request;
        own.clear_receiver();
        CHECK(daemon.open_task(own).error_code() == StatusCode::PERMISSION_DENIED);
        own.set_receiver_address(stranger);
        CHECK(daemon.open_task(own).error_code() == StatusCode::ALREADY_EXISTS);
        own.set_id("other");
        CHECK(daemon.open_task(own).error_code() == StatusCode::ALREADY_EXISTS);
        own.set_receiver("not an address");
        CHECK(daemon.open_task(own).error_code() == StatusCode::INVALID_ARGUMENT);
    }
    nothing_changed(daemon);
}

TEST_CASE("a channel is its host's: nobody else registers it, or takes it away") {
    Daemon daemon;
    ask::test::open_and_join(daemon, task_request("words", kInstance));
    ask::test::send_one(1, "key", 5);
    const auto denied = StatusCode::PERMISSION_DENIED;
    CHECK(unregister_from(daemon, kAttacker, kChannel, kIncarnation).error_code() == denied);
    CHECK(register_from(daemon, kAttacker, kChannel, kIncarnation + 1, kIncarnation).error_code() == denied);
    CHECK(register_from(daemon, kAttacker, {kHost1, 49153}, 1, 0).error_code() == denied);
    // Nor from the switch itself: whoever has an account there comes by loopback.
    CHECK(register_from(daemon, 0xc6120101, kChannel, kIncarnation + 1, kIncarnation).error_code() == denied);
    nothing_changed(daemon);
    must(register_from(daemon, kHost1, kChannel, kIncarnation + 1, kIncarnation));
}

TEST_CASE("a successor knows whose tasks are") {
    Daemon first;
    ask::test::open_and_join(first, task_request("words", kInstance));
    ask::test::send_one(1, "key", 5);
    first.end(SIGKILL);
    Daemon second;
    second.call_as(kAttacker);
    must(second.close_task(kInstance));
    CHECK(second.renew({kInstance}).unknown_size() == 1);
    second.call_as(kHost2);
    CHECK(second.renew({kInstance}).unknown_size() == 0);
    nothing_changed(second);
    must(second.close_task(kInstance));
    CHECK(second.status().tasks_size() == 0);
}

TEST_CASE("pins are a task's instance, and its name is a link to them") {
    Daemon first;
    must(first.open_task(task_request("words", kInstance)));
    const std::string name = "tasks/by-name/@/words";
    CHECK(ask::test::pinned_paths().find(name) != std::string::npos);
    CHECK(ask::test::must_run(std::string("ls ") + ask::test::kPins + "/" + name + "/").find("region") !=
          std::string::npos);
    first.end(SIGKILL);
    // What a predecessor left of names is made anew.
    ask::test::must_run(std::string("cd ") + ask::test::kPins +
                        "/tasks/by-name && rm @/words && ln -s ../../x @/gone");
    Daemon second;
    CHECK(ask::test::pinned_paths().find(name) != std::string::npos);
    CHECK(ask::test::pinned_paths().find("gone") == std::string::npos);
    must(second.close_task(kInstance));
    CHECK(ask::test::pinned_paths().find("tasks/") == std::string::npos);
}
