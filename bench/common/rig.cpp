// SPDX-License-Identifier: Apache-2.0
#include "bench/common/rig.h"

#include <net/if.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include "lib/control/member/convert.h"
#include "lib/net/address.h"
#include "lib/rpc/call_origin.h"
#include "lib/tls/authority.h"
#include "loader/kernel_store.h"

namespace ask::bench {
namespace {

constexpr const char* kListen = "127.0.0.1:4792";
constexpr milliseconds kWait{10000};

// The bench is its own switch and, though it calls by loopback, the receiver: a certificate says so.
Result<std::shared_ptr<RpcCredentials>> make_credentials() {
    std::string folder = (std::filesystem::temp_directory_path() / "ask-bench.XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) {
        return Error::from_errno(errno, "make a folder for certificates");
    }
    const auto remove = [&folder] {
        std::error_code ignored;
        std::filesystem::remove_all(folder, ignored);
    };
    const std::string authority = folder + "/ca";
    CertificateOrder order;
    order.name = "bench";
    order.addresses = {"127.0.0.1", format_ipv4(kReceiverAddress)};
    order.role_switch = true;
    auto made = make_authority(authority, 1);
    if (made.ok()) {
        made = issue_certificate(authority, order);
    }
    if (!made.ok()) {
        remove();
        return std::move(made).error();
    }
    auto credentials = RpcCredentials::create(
        {.plain_text = PlainText::kNowhere, .files = TlsFiles::in(authority + "/" + order.name)});
    remove();
    return credentials;
}

}  // namespace

Result<std::unique_ptr<Rig>> Rig::create(const std::string& bpffs, const RigSettings& settings) {
    SwitchConfig config;
    config.bpffs = bpffs;
    config.pin_dir = "bench-" + settings.swap_barrier;
    config.ports = {"p1", "p2"};
    config.memory = "pipelines";
    auto pins = PinDir::lock(config.bpffs, config.pin_dir);
    ASK_PASS(pins);
    auto plane = DataPlane::load_or_adopt(config, *pins);
    ASK_PASS(plane);
    auto credentials = make_credentials();
    ASK_PASS(credentials);
    std::unique_ptr<Rig> rig(new Rig(std::move(*pins), std::move(*plane), std::move(*credentials)));
    auto ports = PortTable::attach(config, rig->pins_, rig->plane_);
    ASK_PASS(ports);
    rig->ports_ = *std::move(ports);
    auto store = make_kernel_store(rig->plane_, rig->pins_, *rig->ports_);
    ASK_PASS(store);
    rig->store_ = std::move(*store);
    const std::uint64_t sram_bytes =
        settings.sram_bytes == 0 ? std::uint64_t{config.sram_kib} * 1024 : settings.sram_bytes;
    auto controller = Controller::create(*rig->store_, {.sram_bytes = sram_bytes,
                                                        .allow_over_budget = false,
                                                        .lease = std::chrono::seconds(3600),
                                                        .back_bytes = settings.back_bytes,
                                                        .rcu_only = settings.swap_barrier == "rcu"});
    ASK_PASS(controller);
    rig->controller_ = std::move(*controller);
    rig->service_ = std::make_unique<SwitchService>(*rig->controller_, rig->plane_, rig->pins_, *rig->ports_);
    grpc::ServerBuilder builder;
    int port = 0;
    rig->server_ = builder.AddListeningPort(kListen, rig->server_credentials_, &port)
                       .RegisterService(rig->service_.get())
                       .BuildAndStart();
    if (!rig->server_ || port == 0) {
        return Error(Errc::kUnavailable, std::string("cannot listen on ") + kListen);
    }
    rig->client_ = std::make_shared<SwitchClient>(rig->channels_, kListen);
    auto feeder = Feeder::create(::if_nametoindex("p1"), ::if_nametoindex("idle"));
    ASK_PASS(feeder);
    ASK_PASS(feeder->aim(rig->plane_.program()));
    rig->feeder_ = std::move(*feeder);
    for (unsigned channel = 0; channel < settings.channels; ++channel) {
        rig->own_channels_.push_back({kChannel.host, static_cast<std::uint16_t>(kChannel.port + channel)});
    }
    return rig;
}

Rig::~Rig() {
    if (server_) {
        server_->Shutdown(std::chrono::system_clock::now());
        server_->Wait();
    }
    controller_.reset();
    [[maybe_unused]] const auto removed = pins_.remove_all();
}

v1::OpenTaskRequest Rig::new_task(const Geometry& geometry) {
    v1::OpenTaskRequest request;
    request.set_id("bench");
    request.set_instance(++last_instance_);
    *request.mutable_geometry() = geometry_to_proto(geometry);
    request.set_op(v1::OPERATOR_SUM);
    request.set_copies(1);
    request.set_require_region(true);
    request.set_wire_version(ASK_WIRE_VERSION);
    request.set_policy(v1::POLICY_FIRST_COME);
    request.set_senders(static_cast<std::uint32_t>(own_channels_.size()));
    return request;
}

Result<v1::OpenTaskReply> Rig::open(const v1::OpenTaskRequest& request) {
    const std::uint32_t replaces = incarnation_++;
    const Caller sender = caller_from_peer("ipv4:" + format_ipv4(kChannel.host) + ":1");
    for (const ChannelId& channel : own_channels_) {
        ASK_PASS(controller_->register_channel(sender, channel, incarnation_, replaces));
    }
    const std::string receiver = format_ipv4(kReceiverAddress);
    v1::OpenTaskRequest own = request;
    own.set_receiver(receiver + ":4791");
    own.set_receiver_address(kReceiverAddress);
    auto opened = client_->open_task(own, kWait);
    ASK_PASS(opened);
    const Caller joiner = caller_from_peer("ipv4:" + receiver + ":1");
    for (const ChannelId& channel : own_channels_) {
        ASK_PASS(controller_->join_flow(joiner, request.instance(), channel, incarnation_, kSecret));
    }
    return opened;
}

FlowTerms Rig::terms(std::uint64_t instance, ChannelId channel, Mark mark) const {
    return {.instance = instance,
            .channel = channel,
            .incarnation = incarnation_,
            .secret = kSecret,
            .mark = mark,
            .first_seq = 1};
}

Result<> Rig::close(std::uint64_t instance) {
    return client_->close_task(instance, kWait);
}

Result<ask_flow_stats> Rig::counts(std::uint64_t instance, std::uint64_t packets,
                                   std::uint64_t tuples) const {
    const auto flows = controller_->flow_reports(instance);
    ASK_PASS(flows);
    if (flows->size() != own_channels_.size()) {
        return Error(Errc::kInternal, "the task has not exactly a flow a channel");
    }
    ask_flow_stats sum{};
    for (const auto& flow : *flows) {
#define ASK_PROGRAM_STAT(name, text) sum.name += flow.stats.name;
#define ASK_TAKEN_STAT(name, field, text) sum.name += flow.stats.name;
#define ASK_LEFT_STAT(cause, text) sum.tuples_##cause += flow.stats.tuples_##cause;
#define ASK_BESIDE_STAT(name, text) sum.name += flow.stats.name;
#define ASK_PART_STAT(name, text) sum.name += flow.stats.name;
#include "lib/abi/stats.def"
    }
    if (sum.packets_acked + sum.packets_forwarded != packets) {
        return Error(Errc::kInternal, "the switch's counts do not add up to the packets that were sent");
    }
    if (sum.tuples_aggregated + tuples_left(sum) != tuples) {
        return Error(Errc::kInternal, "the switch's counts do not add up to the tuples that were sent");
    }
    return sum;
}

std::uint64_t tuples_left(const ask_flow_stats& stats) {
    std::uint64_t left = 0;
#define ASK_LEFT_STAT(cause, text) left += stats.tuples_##cause;
#include "lib/abi/stats.def"
    return left;
}

}  // namespace ask::bench
