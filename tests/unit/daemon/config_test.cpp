// SPDX-License-Identifier: Apache-2.0
#include "lib/daemon/config.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include <doctest/doctest.h>

#include "lib/base/unique_fd.h"
#include "lib/daemon/grpc_status.h"
#include "lib/daemon/listen.h"
#include "lib/daemon/reload.h"
#include "lib/net/address.h"
#include "lib/rpc/unreachable.h"

namespace {

using ask::ConfigAction;
using ask::ConfigTable;
using ask::Errc;

// A file of its own for each test, removed with it.
class TempFile {
 public:
    explicit TempFile(const std::string& text) {
        const int fd = ::mkstemp(path_.data());
        REQUIRE(fd >= 0);
        ::close(fd);
        std::ofstream(path_) << text;
    }
    ~TempFile() { ::unlink(path_.c_str()); }
    TempFile(const TempFile&) = delete;
    TempFile& operator=(const TempFile&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }

 private:
    std::string path_ = "/tmp/ask-config-test-XXXXXX";
};

struct Settings {
    std::string listen = "0.0.0.0:4792";
    std::string memory = "auto";
    std::uint16_t switch_id = 1;
    bool merge = true;
    std::vector<std::string> ports;
    std::map<std::string, std::string> hosts;
    bool unload = false;
};

ask::Result<ConfigAction> parse(Settings& settings, std::vector<const char*> arguments,
                                const std::string& default_path = "") {
    ConfigTable table("ask-test", "a test", default_path);
    table.text("listen", &settings.listen, "address", ask::check_host_port);
    table.choice("memory", &settings.memory, {"auto", "pipelines", "shared"}, "memory");
    table.integer("switch_id", &settings.switch_id, 1, 65535, "id");
    table.boolean("merge", &settings.merge, "merge");
    table.list("ports", &settings.ports, "ports", ask::check_interface);
    table.table("hosts", &settings.hosts, "hosts");
    table.command("unload", &settings.unload, "unload");
    arguments.insert(arguments.begin(), "ask-test");
    return table.parse(static_cast<int>(arguments.size()), arguments.data());
}

std::string error_of(const std::string& file_text) {
    const TempFile file(file_text);
    Settings settings;
    const auto result = parse(settings, {"--config", file.path().c_str()});
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().code() == Errc::kUsage);
    std::string text = result.error().text();
    const std::size_t at = text.find(file.path());
    REQUIRE_MESSAGE(at != std::string::npos, text);
    return text.replace(at, file.path().size(), "FILE");
}

std::string flag_error(std::vector<const char*> arguments) {
    Settings settings;
    const auto result = parse(settings, std::move(arguments));
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().code() == Errc::kUsage);
    return result.error().text();
}

}  // namespace

TEST_CASE("defaults stay when nothing is given") {
    Settings settings;
    const auto result = parse(settings, {});
    REQUIRE(result.ok());
    CHECK(*result == ConfigAction::kRun);
    CHECK(settings.listen == "0.0.0.0:4792");
    CHECK(settings.switch_id == 1);
    CHECK(settings.merge);
    CHECK_FALSE(settings.unload);
}

TEST_CASE("every kind of option is read from a file") {
    const TempFile file(
        "listen = \"198.18.1.1:1\"\nmemory = \"shared\"\nswitch_id = 65535\nmerge = false\n"
        "ports = [\"p1\", \"p2\"]\n[hosts]\nh1 = \"198.18.1.2\"\nh2 = \"h2.example:4791\"\n");
    Settings settings;
    REQUIRE(parse(settings, {"--config", file.path().c_str()}).ok());
    CHECK(settings.listen == "198.18.1.1:1");
    CHECK(settings.memory == "shared");
    CHECK(settings.switch_id == 65535);
    CHECK_FALSE(settings.merge);
    CHECK(settings.ports == std::vector<std::string>{"p1", "p2"});
    CHECK(settings.hosts.at("h2") == "h2.example:4791");
}

TEST_CASE("flags win over the file") {
    const TempFile file(
        "switch_id = 7\nmerge = true\nports = [\"p1\"]\nmemory = \"shared\"\n[hosts]\na = \"1\"\nb = "
        "\"2\"\n");
    Settings settings;
    REQUIRE(parse(settings, {"--config", file.path().c_str(), "--switch-id", "9", "--no-merge", "--ports",
                             "p3,p4", "--ports", "p5", "--hosts", "b=3", "--unload"})
                .ok());
    CHECK(settings.switch_id == 9);
    CHECK_FALSE(settings.merge);
    CHECK(settings.ports == std::vector<std::string>{"p3", "p4", "p5"});
    CHECK(settings.hosts == std::map<std::string, std::string>{{"a", "1"}, {"b", "3"}});
    CHECK(settings.memory == "shared");
    CHECK(settings.unload);
}

TEST_CASE("the default file is optional, a named one is not") {
    Settings settings;
    CHECK(parse(settings, {}, "/nonexistent/ask.toml").ok());
    const auto missing = parse(settings, {"--config", "/nonexistent/ask.toml"});
    REQUIRE_FALSE(missing.ok());
    CHECK(missing.error().code() == Errc::kInput);
    CHECK(missing.error().text() == "--config: /nonexistent/ask.toml: no such file");
    CHECK(parse(settings, {"--config", "/tmp"}).error().text() == "--config: /tmp: is a directory");
    const TempFile file("switch_id = 3\n");
    REQUIRE(parse(settings, {}, file.path()).ok());
    CHECK(settings.switch_id == 3);
}

TEST_CASE("errors of a file name key, file and line") {
    CHECK(error_of("merge = true\nswitch_idd = 1\n") ==
          "--config: FILE:2: unknown key \"switch_idd\": did you mean switch_id? See ask-test --help for all "
          "keys");
    CHECK(error_of("frobnicate = 1\n") ==
          "--config: FILE:1: unknown key \"frobnicate\". See ask-test --help for all keys");
    CHECK(error_of("unload = true\n").find("unknown key \"unload\"") != std::string::npos);
    CHECK(error_of("\n\nswitch_id = 0\n") == "--config: FILE:3: switch_id: 0: must be from 1 to 65535");
    CHECK(error_of("switch_id = 65536\n").find("must be from 1 to 65535") != std::string::npos);
    CHECK(error_of("switch_id = \"1\"\n") == "--config: FILE:1: switch_id must be an integer, is a string");
    CHECK(error_of("memory = \"both\"\n") ==
          "--config: FILE:1: memory: \"both\": must be one of auto, pipelines, shared");
    CHECK(error_of("ports = [1, 2]\n").find("ports must be an array of strings") != std::string::npos);
    CHECK(error_of("ports = \"p1\"\n").find("is a string") != std::string::npos);
    CHECK(error_of("ports = [\"p 1\"]\n").find("interface name") != std::string::npos);
    CHECK(error_of("listen = \"198.18.1.1\"\n").find("must be HOST:PORT") != std::string::npos);
    CHECK(error_of("merge = 1\n").find("must be true or false") != std::string::npos);
    CHECK(error_of("[hosts]\nh1 = 1\n").find("table of strings") != std::string::npos);
    CHECK(error_of("merge = true\nmerge = false\n").find("FILE:2") != std::string::npos);
    CHECK(error_of("x = = 1\n").find("FILE:1") != std::string::npos);
}

TEST_CASE("errors of flags name the flag") {
    CHECK(flag_error({"--switch-id", "70000"}) == "--switch-id: 70000: must be from 1 to 65535");
    CHECK(flag_error({"--switch-id", "1x"}).find("whole number") != std::string::npos);
    CHECK(flag_error({"--switch-id", "99999999999999999999"}).find("whole number") != std::string::npos);
    CHECK(flag_error({"--hosts", "h1"}).find("must be NAME=VALUE") != std::string::npos);
    CHECK(flag_error({"--frobnicate"}) == "unknown flag --frobnicate; see ask-test --help");
    CHECK(flag_error({"--swich-id", "7"}) ==
          "unknown flag --swich-id: did you mean --switch-id? See ask-test --help");
    CHECK(flag_error({"--swich-id=7"}).find("--swich-id: did you mean --switch-id?") != std::string::npos);
    CHECK(flag_error({"--switch-id"}).find("--switch-id") != std::string::npos);
    CHECK(flag_error({"stray"}).find("stray") != std::string::npos);
}

TEST_CASE("help and version end the program") {
    Settings settings;
    for (const char* flag : {"--help", "--version"}) {
        const auto result = parse(settings, {flag});
        REQUIRE(result.ok());
        CHECK(*result == ConfigAction::kExit);
    }
}

TEST_CASE("checks of addresses and names") {
    CHECK(ask::check_host_port("[::1]:4792").ok());
    CHECK_FALSE(ask::check_host_port(":4792").ok());
    CHECK_FALSE(ask::check_host_port("h:0").ok());
    CHECK_FALSE(ask::check_host_port("h:65536").ok());
    CHECK_FALSE(ask::check_host_port("2001:db8::1").ok());
    CHECK_FALSE(ask::check_host_port("2001:db8::1:4791").ok());
    CHECK(ask::check_host_port("[fe80::1%eth0]:4792").ok());
    for (const char* const text :
         {"[]:4792", "[:4792", "[::1:4792", "[2001:db8::zz]:4792", "[h1]:4792", "[::1]x]:4792"}) {
        CAPTURE(text);
        CHECK_FALSE(ask::check_host_port(text).ok());
    }
    CHECK(ask::canonical_host_port("[2001:DB8:0::1]:4792") == "[2001:db8::1]:4792");
    for (const char* const other : {"198.18.0.1:4792", "sw:4792", "", "[fe80::1%eth0]:1", "[::]", "[]:1"}) {
        CHECK(ask::canonical_host_port(other) == other);
    }
    CHECK(ask::check_host_address("198.18.0.1").ok());
    CHECK(ask::check_host_address("2001:db8::1").ok());
    for (const char* const bad : {"198.18.0", "", "240.0.0.1", "fe80::1", "::1", "ff02::1", "::", "2001:db8",
                                  "::ffff:198.18.0.1", "[2001:db8::1]", "2001:db8::1%eth0"}) {
        CAPTURE(bad);
        CHECK_FALSE(ask::check_host_address(bad).ok());
    }
    CHECK(ask::check_interface("p1").ok());
    CHECK_FALSE(ask::check_interface("").ok());
    CHECK_FALSE(ask::check_interface("..").ok());
    CHECK_FALSE(ask::check_interface("sixteen-bytes-xx").ok());
    CHECK_FALSE(ask::check_interface("a/b").ok());
}

TEST_CASE("what is read again is compared key by key") {
    const TempFile file("switch_id = 7\nports = [\"p1\"]\n[hosts]\na = \"1\"\n");
    const auto snapshot = [&file](std::vector<const char*> flags) {
        Settings settings;
        ConfigTable table("ask-test", "a test", file.path());
        table.text("listen", &settings.listen, "address");
        table.integer("switch_id", &settings.switch_id, 1, 65535, "id");
        table.boolean("merge", &settings.merge, "merge");
        table.list("ports", &settings.ports, "ports");
        table.table("hosts", &settings.hosts, "hosts");
        flags.insert(flags.begin(), "ask-test");
        REQUIRE(table.parse(static_cast<int>(flags.size()), flags.data()).ok());
        return table.snapshot();
    };
    auto before = snapshot({});
    CHECK(before.file == file.path());
    CHECK(before.values.at("hosts") == "a=1");
    std::ofstream(file.path()) << "switch_id = 8\nmerge = false\nports = [\"p1\", \"p2\"]\n";
    const auto now = snapshot({});
    const auto change = ask::compare(before, now, {"hosts", "merge", "listen"});
    CHECK(change.taken == std::vector<std::string>{"hosts", "merge"});
    CHECK(change.restart == std::vector<std::string>{"ports", "switch_id"});
    CHECK(ask::compare(now, now, {}).restart.empty());

    REQUIRE(ask::take_reload(ConfigAction::kRun, now, {"hosts", "merge"}, &before));
    CHECK(before.values.at("merge") == "false");
    // What waits for a restart is said again next time.
    CHECK(before.values.at("switch_id") == "7");
    CHECK_FALSE(ask::take_reload(ask::Error(Errc::kUsage, "bad"), now, {}, &before));
    CHECK_FALSE(ask::take_reload(ConfigAction::kRun, ask::ConfigSnapshot(), {}, &before));
    CHECK(before.values.at("switch_id") == "7");
}

TEST_CASE("addresses with and without a port") {
    CHECK(ask::check_host_maybe_port("198.18.0.1").ok());
    CHECK(ask::check_host_maybe_port("198.18.0.1:5791").ok());
    CHECK_FALSE(ask::check_host_maybe_port("198.18.0.1:0").ok());
    CHECK_FALSE(ask::check_host_maybe_port("198.18.0.1:").ok());
    CHECK_FALSE(ask::check_host_maybe_port("h3:4791").ok());
    CHECK(ask::check_host_maybe_port("2001:db8::1").ok());
    CHECK(ask::check_host_maybe_port("[2001:db8::1]:4791").ok());
    CHECK_FALSE(ask::check_host_maybe_port("[2001:db8::1]:0").ok());
    CHECK_FALSE(ask::check_host_maybe_port("[2001:db8::1]").ok());
    CHECK_FALSE(ask::check_host_maybe_port("[fe80::1]:4791").ok());
    CHECK_FALSE(ask::check_host_maybe_port("[198.18.0.1]:").ok());
    CHECK(ask::split_host_port("h3:5791")->host == "h3");
    CHECK(ask::split_host_port("h3:5791")->port == 5791);
    CHECK(ask::split_host_port("[::1]:1")->host == "[::1]");
    CHECK_FALSE(ask::split_host_port("h3").ok());
    CHECK_FALSE(ask::split_host_port("h3:99999").ok());
}

TEST_CASE("who cannot listen says why") {
    const auto in_use = [](int type) {
        ask::UniqueFd fd(::socket(AF_INET, type, 0));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof(address);
        REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0);
        REQUIRE(::listen(fd.get(), 1) == 0);
        REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
        return std::pair(std::move(fd), ntohs(address.sin_port));
    };
    auto [fd, port] = in_use(SOCK_STREAM);
    const std::string at = "127.0.0.1:" + std::to_string(port);
    auto taken = ask::check_listen("metrics", at);
    REQUIRE_FALSE(taken.ok());
    CHECK(taken.error().code() == Errc::kExists);
    CHECK(taken.error().text() ==
          "metrics: cannot listen on " + at +
              ": Address already in use: stop what listens there (ss -ltnp shows it), or "
              "set another `metrics`");
    fd.reset();
    CHECK(ask::check_listen("metrics", at).ok());
    CHECK(ask::check_listen("listen", "nosuch.invalid:1").error().code() == Errc::kUnknown);
    CHECK(ask::check_listen("listen", "192.0.2.77:4791").error().code() == Errc::kUnknown);
}

TEST_CASE("why nobody answered, from what gRPC says") {
    const auto why = [](std::string_view said) { return ask::why_unreachable("h9:4792", said); };
    CHECK(why("DNS resolution failed for h9:4792: C-ares status is not ARES_SUCCESS") ==
          "the name \"h9\" does not resolve");
    CHECK(why("failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:4792: Failed to "
              "connect to "
              "remote host: Connection refused") == "nobody listens at h9:4792 (connection refused)");
    CHECK(why("... No route to host") == "no way leads to h9:4792 (No route to host)");
    CHECK(why("... connect: Connection timed out").starts_with("h9:4792 does not answer"));
    CHECK(why("something else") == "something else");
}
