// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include <doctest/doctest.h>

#include "tests/netns/xsk/link.h"

using namespace ask;
using namespace ask::test;

namespace {

HostProgram::Options options_for(const std::string& name) {
    return {.interface = name,
            .interface_index = interface_info(name).index,
            .own_address = kLeft,
            .busy_deadline = std::chrono::milliseconds(100)};
}

}  // namespace

TEST_CASE("steering lasts as long as its object") {
    make_link();
    std::optional<HostProgram> program;
    {
        auto loaded = HostProgram::load(options_for("left"));
        REQUIRE_MESSAGE(loaded.ok(), loaded.error().text());
        program.emplace(std::move(*loaded));
    }
    CHECK(interface_info("left").xdp_program == 0);
    REQUIRE(program->attach().ok());
    CHECK(interface_info("left").xdp_program != 0);
    program.reset();
    CHECK(interface_info("left").xdp_program == 0);
}

TEST_CASE("a program that is attached already is left alone and named") {
    make_link();
    auto first = HostProgram::load(options_for("left"));
    REQUIRE(first.ok());
    REQUIRE(first->attach().ok());
    const std::uint32_t id = interface_info("left").xdp_program;
    auto second = HostProgram::load(options_for("left"));
    REQUIRE(second.ok());
    const auto refused = second->attach();
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == Errc::kExists);
    CHECK(refused.error().text().find("id " + std::to_string(id)) != std::string::npos);
    CHECK(interface_info("left").xdp_program == id);
}

TEST_CASE("native mode does not fall back") {
    make_link();
    SUBCASE("a driver without it") {
        auto program = HostProgram::load(options_for("lo"));
        REQUIRE(program.ok());
        const auto refused = program->attach();
        REQUIRE_FALSE(refused.ok());
        CHECK(refused.error().code() == Errc::kUnsupported);
        CHECK(refused.error().text().find("generic") != std::string::npos);
        auto options = options_for("lo");
        options.mode = XdpMode::kGeneric;
        auto generic = HostProgram::load(options);
        REQUIRE(generic.ok());
        CHECK(generic->attach().ok());
    }
}

TEST_CASE("fewer queues than the other end of a veth sends on are refused, with the remedy") {
    make_link(3);
    run("ethtool -L left rx 2 tx 2");
    auto program = HostProgram::load(options_for("left"));
    REQUIRE(program.ok());
    const auto refused = program->attach();
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == Errc::kUnsupported);
    CHECK(refused.error().text().find("ethtool -L") != std::string::npos);
    // A queue that is not in use cannot be bound; the others can.
    CHECK(XskSocket::open({.interface = "left", .queue = 1}).ok());
    const auto unused = XskSocket::open({.interface = "left", .queue = 2});
    REQUIRE_FALSE(unused.ok());
    CHECK(unused.error().code() == Errc::kUnknown);
}

TEST_CASE("root has the capabilities") {
    need_root();
    CHECK(check_host_capabilities().ok());
}
