// SPDX-License-Identifier: Apache-2.0
//
// What a member believes of its group's root.
#include <doctest/doctest.h>

#include "lib/abi/values.h"
#include "lib/control/group/terms.h"
#include "lib/rpc/types.h"

using namespace ask;

namespace {

constexpr std::uint32_t kRoot = 0xc6120102;
constexpr std::uint32_t kMember = 0xc6120202;
constexpr std::uint32_t kLimit = ASK_VALUES_FRONT + 22 * ASK_VALUES_BLOCK_BYTES;

v1::JoinGroupReply good() {
    v1::JoinGroupReply group;
    group.set_instance(7);
    group.set_secret(secret_to_bytes({1, 2}));
    group.set_collector(kRoot);
    group.set_window(256);
    group.set_blocks(22);
    for (const std::uint32_t host : {kMember, kRoot}) {
        v1::GroupMember& one = *group.add_members();
        *one.mutable_channel() = channel_to_proto({host, ASK_CHANNEL_PORT_BASE});
        one.set_incarnation(host & 255U);
    }
    return group;
}

}  // namespace

TEST_CASE("a root's terms are taken, and the collector is the member on its host") {
    const auto terms = group_terms(good(), kLimit);
    REQUIRE_MESSAGE(terms.ok(), terms.error().text());
    CHECK(terms->root == 1);
    CHECK(terms->collector() == kRoot);
    CHECK(terms->seats[0].channel.host == kMember);
    CHECK(terms->blocks == 22);
}

TEST_CASE("a root cannot have a member's values sent to a host that it has not dialled") {
    v1::JoinGroupReply group = good();
    group.mutable_members(1)->mutable_channel()->set_host(0xc6120302);
    const auto terms = group_terms(group, kLimit);
    CHECK(terms.error().code() == Errc::kDenied);
    CHECK(terms.error().text() == "none of the group's members is its collector 198.18.1.2");
}

TEST_CASE("payloads that do not fit a member's MTU are refused, not waited for") {
    const auto terms = group_terms(good(), kLimit - 1);
    CHECK(terms.error().code() == Errc::kDenied);
    CHECK(terms.error().text().find("has room for " + std::to_string(kLimit - 1)) != std::string::npos);
}

TEST_CASE("terms that cannot be are refused") {
    const auto refused = [](const auto& change) {
        v1::JoinGroupReply group = good();
        change(group);
        return !group_terms(group, kLimit).ok();
    };
    CHECK(refused([](auto& group) { group.set_window(0); }));
    CHECK(refused([](auto& group) { group.set_window(1U << 20U); }));
    CHECK(refused([](auto& group) { group.set_blocks(0); }));
    CHECK(refused([](auto& group) { group.set_blocks(54); }));
    CHECK(refused([](auto& group) { group.set_secret("short"); }));
    CHECK(refused([](auto& group) { group.clear_members(); }));
    CHECK(refused([](auto& group) { *group.mutable_members(0) = group.members(1); }));
}
