// SPDX-License-Identifier: Apache-2.0
#include "tests/netns/switchd/one_flow.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "tests/netns/switchd/packet.h"

namespace ask::test {

void must(const grpc::Status& status) {
    REQUIRE_MESSAGE(status.ok(), status.error_message());
}

v1::OpenTaskReply open_and_join(Daemon& daemon, const v1::OpenTaskRequest& request) {
    v1::OpenTaskReply reply;
    must(daemon.register_channel(kChannel, kIncarnation));
    must(daemon.open_task(request, &reply));
    must(daemon.join_flow(kInstance, kChannel, kIncarnation, kSecret));
    return reply;
}

Entries sorted(Entries entries) {
    std::ranges::sort(entries, {}, &Daemon::Entry::key);
    return entries;
}

Entries fetched(Daemon& daemon, std::uint64_t epoch) {
    Entries entries;
    must(daemon.fetch(kInstance, epoch, &entries));
    return sorted(std::move(entries));
}

std::uint32_t send_one(std::uint64_t seq, const std::string& key, std::int32_t value) {
    return send_through_switch({kInstance, kChannel, kIncarnation, kSecret, seq, key, value}, "p1");
}

}  // namespace ask::test
