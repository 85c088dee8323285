// SPDX-License-Identifier: Apache-2.0
//
// ask-bench-admit: how long ask-controld takes to admit a task, as its client sees it: over mutual TLS on
// loopback, on the paper's binary tree, while others run that are released one by one. A JSON document on
// standard output.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <grpcpp/create_channel.h>

#include "bench/common/machine.h"
#include "controller/convert.h"
#include "controller/service.h"
#include "lib/daemon/control_server.h"
#include "lib/net/address.h"
#include "lib/placement/topologies.h"
#include "lib/tls/authority.h"

namespace {

using namespace ask;
using Json = nlohmann::ordered_json;

constexpr std::uint32_t kReceiver = 0xc6120001U;   // 198.18.0.1
constexpr std::uint32_t kFirstHost = 0xc6121000U;  // one at each leaf
constexpr std::uint32_t kFirstRelay = 0xc6130000U;

struct Flags {
    std::uint32_t nodes = 256;  // of BT
    std::uint32_t capacity = 4;
    std::uint32_t running = 32;
    std::uint32_t admits = 1000;
    std::string address = "127.0.0.1:24794";
};

// BT(n) as a topology: a relay beside each switch, a host at each leaf, the receiver at the root.
topology::Topology binary_tree(const Flags& flags) {
    topology::Topology made;
    made.source = "BT(" + std::to_string(flags.nodes) + ")";
    made.message.model = placement::SizeModel::parameter_server(1000, 0.5, 4).value();
    made.message.line = 1;
    const std::uint32_t switches = flags.nodes - 1;
    for (std::uint32_t at = 0; at < switches; ++at) {
        topology::Switch each;
        each.name = "s" + std::to_string(at);
        each.parent = at == 0 ? "" : "s" + std::to_string((at - 1) / 2);
        each.relay = format_ipv4(kFirstRelay + at) + ":4793";
        each.capacity = flags.capacity;
        made.switches.push_back(std::move(each));
    }
    const auto add_host = [&made](std::uint32_t at, const std::string& name, std::uint32_t address) {
        topology::Host host;
        host.name = name;
        host.attached_to = "s" + std::to_string(at);
        host.address = address;
        made.hosts.push_back(std::move(host));
    };
    for (std::uint32_t leaf = switches / 2; leaf < switches; ++leaf) {
        add_host(leaf, "h" + std::to_string(leaf), kFirstHost + leaf);
    }
    add_host(0, "r", kReceiver);
    return made;
}

double percentile(std::vector<double> times, double part) {
    std::ranges::sort(times);
    return times[std::min(times.size() - 1,
                          static_cast<std::size_t>(part * static_cast<double>(times.size())))];
}

class Bench {
 public:
    explicit Bench(const Flags& flags)
        : flags_(flags),
          service_(ground(flags), "", {.lease = kYouth, .max_plans = 65536, .quota_plans = 65536}) {
        std::string pattern = (std::filesystem::temp_directory_path() / "ask-bench-admit.XXXXXX").string();
        if (::mkdtemp(pattern.data()) != nullptr) {
            folder_ = pattern;
        }
    }
    ~Bench() {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }
    Bench(const Bench&) = delete;
    Bench& operator=(const Bench&) = delete;

    Result<Json> run() {
        ASK_PASS(connect());
        // It admits without switches until it is as old as its first lease.
        std::this_thread::sleep_for(kYouth + std::chrono::milliseconds(100));
        service_.tick();
        service_.change({.lease = std::chrono::hours(1), .max_plans = 65536, .quota_plans = 65536});
        Json series = Json::array();
        for (const char* const objective : {"utilisation", "bytes", "bottleneck"}) {
            for (const std::uint32_t k : {0U, 4U, 16U, 64U}) {
                auto measured = measure(objective, k);
                ASK_PASS(measured);
                series.push_back(*std::move(measured));
            }
        }
        return Json{
            {"machine", bench::describe_machine()},
            {"how", "over mutual TLS on loopback, one call at a time, client and server in one process"},
            {"tree", "BT(" + std::to_string(flags_.nodes) + ")"},
            {"capacity", flags_.capacity},
            {"running", flags_.running},
            {"series", std::move(series)}};
    }

 private:
    static constexpr std::chrono::seconds kYouth{1};

    static placing::Ground ground(const Flags& flags) {
        topology::Topology topology = binary_tree(flags);
        auto model = *topology.message.model;
        return {.fabric = topology::Fabric::build(std::move(topology)).value(), .model = std::move(model)};
    }

    Result<std::shared_ptr<RpcCredentials>> credentials(const std::string& name, std::uint32_t address) {
        CertificateOrder order;
        order.name = name;
        order.addresses = {"127.0.0.1", format_ipv4(address)};
        ASK_PASS(issue_certificate(folder_ + "/ca", order));
        return RpcCredentials::create(
            {.plain_text = PlainText::kNowhere, .files = TlsFiles::in(folder_ + "/ca/" + name)});
    }

    Result<> connect() {
        ASK_PASS(make_authority(folder_ + "/ca", 1));
        auto own = credentials("ctl", kReceiver + 1);
        ASK_PASS(own);
        server_credentials_ = *own;
        auto server = ControlServer::start({.name = "ask-bench-admit",
                                            .listen = flags_.address,
                                            .threads = 8,
                                            .streams = 8,
                                            .request_bytes = kControllerRequestBytes},
                                           *server_credentials_, service_);
        ASK_PASS(server);
        server_ = *std::move(server);
        auto client = credentials("r", kReceiver);
        ASK_PASS(client);
        stub_ = v1::Controller::NewStub(grpc::CreateChannel(flags_.address, (*client)->of_channel()));
        return {};
    }

    // Power law of mean 5 from 1 to 63 servers at a leaf, and no more than a task may have.
    v1::AdmitRequest next_task(const std::string& objective, std::uint32_t k) {
        v1::AdmitRequest request;
        request.set_task("bench");
        request.set_instance(++instance_);
        request.set_receiver(format_ipv4(kReceiver));
        request.set_objective(objective);
        request.set_k(k);
        auto spec = placement::complete_binary(flags_.nodes, placement::RateScheme::kConstant).value();
        (void)placement::power_law_leaf_load(spec, 1, 63, 5, random_);
        std::uint64_t left = 4096;
        for (std::size_t leaf = spec.load.size() / 2; leaf < spec.load.size() && left > 0; ++leaf) {
            auto* const sender = request.add_senders();
            sender->set_address(format_ipv4(kFirstHost + static_cast<std::uint32_t>(leaf)));
            const std::uint64_t sends = std::min(left, spec.load[leaf]);
            sender->set_sends(static_cast<std::uint32_t>(sends));
            left -= sends;
        }
        return request;
    }

    Result<> release(std::uint64_t instance) {
        grpc::ClientContext context;
        v1::ReleasePlanRequest request;
        request.set_receiver(format_ipv4(kReceiver));
        request.set_instance(instance);
        v1::ReleasePlanReply reply;
        const grpc::Status status = stub_->Release(&context, request, &reply);
        return status.ok() ? Result<>() : Error(Errc::kInternal, "Release: " + status.error_message());
    }

    Result<Json> measure(const std::string& objective, std::uint32_t k) {
        std::vector<double> times;
        std::deque<std::uint64_t> running;
        std::uint64_t switches = 0;
        for (std::uint32_t admit = 0; admit < flags_.running + flags_.admits; ++admit) {
            const v1::AdmitRequest request = next_task(objective, k);
            grpc::ClientContext context;
            v1::AdmitReply reply;
            const auto begin = std::chrono::steady_clock::now();
            const grpc::Status status = stub_->Admit(&context, request, &reply);
            const auto took = std::chrono::steady_clock::now() - begin;
            if (!status.ok()) {
                return Error(Errc::kInternal, "Admit: " + status.error_message());
            }
            service_.tick();
            running.push_back(request.instance());
            if (admit >= flags_.running) {
                times.push_back(std::chrono::duration<double, std::milli>(took).count());
                switches += static_cast<std::uint64_t>(reply.placement().relays_size());
                ASK_PASS(release(running.front()));
                running.pop_front();
            }
        }
        for (const std::uint64_t instance : running) {
            ASK_PASS(release(instance));
        }
        return Json{{"objective", objective},
                    {"k", k},
                    {"admits", times.size()},
                    {"switches", static_cast<double>(switches) / static_cast<double>(times.size())},
                    {"p50_ms", percentile(times, 0.5)},
                    {"p99_ms", percentile(times, 0.99)},
                    {"most_ms", percentile(times, 1)}};
    }

    const Flags flags_;
    std::string folder_;
    ControllerService service_;
    std::shared_ptr<RpcCredentials> server_credentials_;
    std::unique_ptr<ControlServer> server_;
    std::unique_ptr<v1::Controller::Stub> stub_;
    std::uint64_t instance_ = 0;
    placement::Random random_{1};
};

}  // namespace

int main(int argc, char** argv) {
    Flags flags;
    CLI::App app("Admits tasks at a controller, one after the other.", "ask-bench-admit");
    app.add_option("--nodes", flags.nodes, "of the binary tree, a power of two")
        ->check(CLI::Range(4U, 65536U));
    app.add_option("--capacity", flags.capacity, "of each switch; 0: no limit");
    app.add_option("--running", flags.running, "tasks that run meanwhile")->check(CLI::Range(1U, 10000U));
    app.add_option("--admits", flags.admits, "to be measured, of each kind")->check(CLI::Range(1U, 1000000U));
    app.add_option("--address", flags.address, "to listen at");
    CLI11_PARSE(app, argc, argv);
    const auto result = Bench(flags).run();
    if (!result.ok()) {
        std::fprintf(stderr, "ask-bench-admit: %s\n", result.error().text().c_str());
        return 1;
    }
    std::puts(result->dump(1).c_str());
    return 0;
}
