// SPDX-License-Identifier: Apache-2.0
//
// What an agent makes of a switch or a receiver that speaks packets of another version than its own.
#include <atomic>
#include <memory>
#include <string>

#include <doctest/doctest.h>
#include <grpcpp/grpcpp.h>

#include "agent/peer_client.h"
#include "agent/switch_client.h"
#include "lib/rpc/types.h"
#include "proto/agent.grpc.pb.h"
#include "proto/switch.grpc.pb.h"
#include "tests/unit/agent/local_agent.h"

using namespace ask;
using ask::test::plain_text;

namespace {

constexpr milliseconds kPatientWait{20000};
constexpr std::uint64_t kOpened = 11;

template <typename Service>
class Served : public Service {
 public:
    Served() {
        grpc::ServerBuilder builder;
        builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
        builder.RegisterService(this);
        server_ = builder.BuildAndStart();
        REQUIRE(server_ != nullptr);
    }
    [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
    int port_ = 0;
    std::unique_ptr<grpc::Server> server_;
};

class SwitchOfVersion final : public Served<v1::Switch::Service> {
 public:
    explicit SwitchOfVersion(std::uint32_t version) : version_(version) {}
    grpc::Status OpenTask(grpc::ServerContext* /*context*/, const v1::OpenTaskRequest* request,
                          v1::OpenTaskReply* reply) override {
        open_ = request->instance();
        reply->set_wire_version(version_);
        return grpc::Status::OK;
    }
    grpc::Status CloseTask(grpc::ServerContext* /*context*/, const v1::CloseTaskRequest* request,
                           v1::CloseTaskReply* /*reply*/) override {
        if (request->instance() == open_) {
            open_ = 0;
        }
        return grpc::Status::OK;
    }
    [[nodiscard]] std::uint64_t open() const { return open_; }

 private:
    const std::uint32_t version_;
    std::atomic<std::uint64_t> open_{0};
};

class ReceiverOfVersion final : public Served<v1::Agent::Service> {
 public:
    explicit ReceiverOfVersion(std::uint32_t version) : version_(version) {}
    grpc::Status Lookup(grpc::ServerContext* /*context*/, const v1::LookupRequest* /*request*/,
                        v1::TaskOffer* reply) override {
        reply->set_instance(kOpened);
        reply->set_wire_version(version_);
        return grpc::Status::OK;
    }

 private:
    const std::uint32_t version_;
};

void is_refused(const Error& error, const std::string& says) {
    CHECK(error.code() == Errc::kUnsupported);
    CHECK_MESSAGE(error.text().find(says) != std::string::npos, error.text());
    CHECK_MESSAGE(error.text().find("run one release on all hosts and switches") != std::string::npos,
                  error.text());
}

}  // namespace

TEST_CASE("a switch of another wire version gets no task, by name, and none is left there") {
    RpcChannels channels(plain_text());
    const auto open_on = [&](const SwitchOfVersion& at) {
        v1::OpenTaskRequest request;
        request.set_instance(kOpened);
        return SwitchClient(channels, at.address()).open_task(request, kPatientWait);
    };
    const SwitchOfVersion same(ASK_WIRE_VERSION);
    CHECK(open_on(same).ok());
    CHECK(same.open() == kOpened);
    for (const std::uint32_t version : {0U, ASK_WIRE_VERSION + 1}) {
        const SwitchOfVersion other(version);
        const auto refused = open_on(other);
        REQUIRE_FALSE(refused.ok());
        is_refused(refused.error(),
                   "switch " + other.address() + " speaks ASK packets of " + wire_version_name(version));
        CHECK(other.open() == 0);
    }
}

TEST_CASE("a receiver of another wire version gets no sender, by name") {
    RpcChannels channels(plain_text());
    const auto look_up_on = [&](const ReceiverOfVersion& at) {
        return PeerClient(channels, at.address(), "h4").look_up({}, kPatientWait, nullptr);
    };
    const ReceiverOfVersion same(ASK_WIRE_VERSION);
    CHECK(look_up_on(same).ok());
    for (const std::uint32_t version : {0U, ASK_WIRE_VERSION + 1}) {
        const ReceiverOfVersion other(version);
        const auto refused = look_up_on(other);
        REQUIRE_FALSE(refused.ok());
        is_refused(refused.error(), "agent on h4 speaks ASK packets of " + wire_version_name(version));
    }
}
