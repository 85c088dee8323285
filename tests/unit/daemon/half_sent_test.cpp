// SPDX-License-Identifier: Apache-2.0
//
// Requests that begin and never end: what a server holds of them is bounded, whatever they say they will be.
#include <arpa/inet.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <grpcpp/create_channel.h>

#include "lib/base/unique_fd.h"
#include "lib/daemon/control_server.h"
#include "proto/agent.grpc.pb.h"
#include "tests/support/free_port.h"
#include "tests/support/patience.h"

using namespace ask;
using namespace ask::test;

namespace {

// HTTP/2 as far as an attacker needs it: who says no more than the windows allow is no offender.
class HalfSpeaker {
 public:
    explicit HalfSpeaker(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        to.sin_port = htons(port);
        REQUIRE(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
        send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        send(frame(kSettings, 0, 0, {}));
    }

    // A call whose message is to be of `claims` bytes; nothing of it is sent yet.
    void begin(std::size_t claims) {
        const std::string path = "/ask.v1.Agent/Lookup";
        std::string block = "\x83\x86";
        block += literal('\x04', path) + literal('\x01', "h") + '\x00' + text("content-type") +
                 text("application/grpc") + '\x00' + text("te") + text("trailers");
        send(frame(kHeaders, kEndHeaders, next_, block));
        std::string prefix(1, '\0');
        for (int shift = 24; shift >= 0; shift -= 8) {
            prefix += static_cast<char>(claims >> static_cast<unsigned>(shift));
        }
        streams_[next_] = {.left = claims / 2, .window = initial_};
        push(next_, prefix);
        next_ += 2;
    }

    // Until the server lets no more in.
    void speak() {
        for (bool moved = true; moved || hear();) {
            moved = false;
            for (auto& [id, stream] : streams_) {
                const std::size_t size = std::min(
                    {stream.left, kChunk, static_cast<std::size_t>(std::max<std::int64_t>(window_, 0)),
                     static_cast<std::size_t>(std::max<std::int64_t>(stream.window, 0))});
                if (size > 0 && !closed_) {
                    stream.left -= size;
                    push(id, std::string(size, 'x'));
                    moved = true;
                }
            }
        }
    }
    [[nodiscard]] std::size_t sent() const { return sent_; }

 private:
    enum : std::uint8_t { kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kGoAway = 7, kWindow = 8 };
    static constexpr std::uint8_t kEndHeaders = 4;
    static constexpr std::size_t kChunk = 8192;
    struct Stream {
        std::size_t left = 0;
        std::int64_t window = 0;
    };

    static std::string text(const std::string& value) { return static_cast<char>(value.size()) + value; }
    static std::string literal(char index, const std::string& value) { return index + text(value); }
    static std::string frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                             const std::string& body) {
        std::string all;
        for (int shift = 16; shift >= 0; shift -= 8) {
            all += static_cast<char>(body.size() >> static_cast<unsigned>(shift));
        }
        all += {static_cast<char>(type), static_cast<char>(flags)};
        for (int shift = 24; shift >= 0; shift -= 8) {
            all += static_cast<char>(stream >> static_cast<unsigned>(shift));
        }
        return all + body;
    }
    void send(const std::string& bytes) {
        closed_ = closed_ || ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
                                 static_cast<ssize_t>(bytes.size());
    }
    void push(std::uint32_t id, const std::string& bytes) {
        send(frame(kData, 0, id, bytes));
        const auto size = static_cast<std::int64_t>(bytes.size());
        window_ -= size;
        streams_[id].window -= size;
        sent_ += bytes.size();
    }
    // False: it has nothing to say any more.
    bool hear() {
        constexpr int kQuietMs = 500;
        pollfd entry{.fd = fd_.get(), .events = POLLIN, .revents = 0};
        std::array<char, 65536> room{};
        if (closed_ || ::poll(&entry, 1, kQuietMs) <= 0) {
            return false;
        }
        const ssize_t size = ::recv(fd_.get(), room.data(), room.size(), 0);
        if (size <= 0) {
            closed_ = true;
            return false;
        }
        heard_.append(room.data(), static_cast<std::size_t>(size));
        while (take()) {
        }
        return true;
    }
    [[nodiscard]] std::uint32_t number(std::size_t at, std::size_t bytes) const {
        std::uint32_t value = 0;
        for (std::size_t i = 0; i < bytes; ++i) {
            value = value << 8U | static_cast<std::uint8_t>(heard_[at + i]);
        }
        return value;
    }
    bool take() {
        constexpr std::size_t kHead = 9;
        if (heard_.size() < kHead || heard_.size() < kHead + number(0, 3)) {
            return false;
        }
        const std::uint32_t size = number(0, 3);
        const std::uint8_t type = static_cast<std::uint8_t>(heard_[3]);
        const std::uint8_t flags = static_cast<std::uint8_t>(heard_[4]);
        const std::uint32_t stream = number(5, 4);
        if (type == kWindow) {
            (stream == 0 ? window_ : streams_[stream].window) += number(kHead, 4);
        } else if (type == kSettings && (flags & 1U) == 0) {
            for (std::size_t at = kHead; at < kHead + size; at += 6) {
                if (number(at, 2) == 4) {
                    const std::int64_t initial = number(at + 2, 4);
                    for (auto& [id, open] : streams_) {
                        open.window += initial - initial_;
                    }
                    initial_ = initial;
                }
            }
            send(frame(kSettings, 1, 0, {}));
        } else if (type == kReset) {
            streams_.erase(stream);
        } else if (type == 6 && (flags & 1U) == 0) {
            send(frame(6, 1, 0, heard_.substr(kHead, size)));
        }
        heard_.erase(0, kHead + size);
        return true;
    }

    UniqueFd fd_;
    std::uint32_t next_ = 1;
    std::int64_t window_ = 65535;
    std::int64_t initial_ = 65535;
    std::map<std::uint32_t, Stream> streams_;
    std::string heard_;
    std::size_t sent_ = 0;
    bool closed_ = false;
};

// What has been freed and not given back is not held.
std::size_t held_bytes() {
    ::malloc_trim(0);
    std::size_t size = 0;
    std::size_t resident = 0;
    std::ifstream("/proc/self/statm") >> size >> resident;
    return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Whether it becomes true.
template <typename Is>
bool eventually(Is is) {
    const auto until = std::chrono::steady_clock::now() + patience(std::chrono::seconds(10));
    while (!is()) {
        if (std::chrono::steady_clock::now() >= until) {
            return false;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));  // between two looks
    }
    return true;
}

}  // namespace

TEST_CASE("800 messages that are half sent, of a MiB and of a GiB, take no more than their bound") {
    // 16 MiB may be held, and what comes until somebody looks; gRPC keeps it in slices that are half empty.
    constexpr std::size_t kBound = std::size_t{192} << 20U;
    const auto credentials = RpcCredentials::create({.plain_text = PlainText::kLoopback, .files = {}});
    v1::Agent::Service service;
    const std::uint16_t port = free_port();
    const auto server = ControlServer::start(
        {.name = "test", .listen = "127.0.0.1:" + std::to_string(port), .threads = 64, .streams = 256},
        **credentials, service);
    REQUIRE_MESSAGE(server.ok(), server.error().text());
    for (const std::size_t claims : {std::size_t{1} << 20U, std::size_t{1} << 30U}) {
        CAPTURE(claims);
        const std::size_t before = held_bytes();
        std::vector<std::unique_ptr<HalfSpeaker>> speakers;
        for (int i = 0; i < 4; ++i) {
            speakers.push_back(std::make_unique<HalfSpeaker>(port));
            for (int call = 0; call < 200; ++call) {
                speakers.back()->begin(claims);
            }
        }
        std::size_t sent = 0;
        for (const auto& speaker : speakers) {
            speaker->speak();
            sent += speaker->sent();
        }
        CHECK(sent > 800);
        // Those that were cut off are put away by threads of gRPC's, which get to it when they do.
        const auto grown = [before] {
            const std::size_t held = held_bytes();
            return held - std::min(before, held);
        };
        const std::size_t at_first = grown();
        CHECK(eventually([&] { return grown() < kBound; }));
        MESSAGE("sent " << (sent >> 20U) << " MiB, grown by " << (at_first >> 20U) << " MiB");
        CHECK(eventually([&] { return (*server)->probe().ok(); }));
    }
}

TEST_CASE("who asks much is not taken for one who holds much, by whichever address") {
    constexpr std::size_t kAsked = std::size_t{24} << 20U;
    constexpr std::size_t kRequest = 60000;
    const auto credentials = RpcCredentials::create({.plain_text = PlainText::kEverywhere, .files = {}});
    v1::Agent::Service service;
    const std::string port = std::to_string(free_port());
    int refused = 0;
    const auto server = ControlServer::start({.name = "test",
                                              .listen = "[::]:" + port,
                                              .threads = 64,
                                              .streams = 256,
                                              .refused = [&refused] { ++refused; }},
                                             **credentials, service);
    REQUIRE_MESSAGE(server.ok(), server.error().text());
    v1::LookupRequest request;
    request.set_task_id(std::string(kRequest, 'n'));
    for (const char* const host : {"127.0.0.1", "[::1]"}) {
        CAPTURE(host);
        const auto stub =
            v1::Agent::NewStub(grpc::CreateChannel(host + (":" + port), grpc::InsecureChannelCredentials()));
        for (std::size_t asked = 0; asked < kAsked; asked += kRequest) {
            grpc::ClientContext context;
            v1::TaskOffer offer;
            const auto status = stub->Lookup(&context, request, &offer);
            REQUIRE_MESSAGE(status.error_code() == grpc::StatusCode::UNIMPLEMENTED, status.error_message());
        }
    }
    (*server)->stop(std::chrono::milliseconds(0));
    CHECK(refused == 0);
}
