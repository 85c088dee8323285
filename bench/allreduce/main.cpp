// SPDX-License-Identifier: Apache-2.0
//
// A member of tools/bench allreduce, whichever way.
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/allreduce/ways.h"

namespace ask::bench {
namespace {

struct Flags {
    Work work;
    AskPeers group;
    TcpPeers peers;
};

void add_work(CLI::App& command, Flags& flags) {
    const std::map<std::string, Dtype> dtypes = {{"int32", Dtype::kInt32},
                                                 {"int64", Dtype::kInt64},
                                                 {"float32", Dtype::kFloat32},
                                                 {"float64", Dtype::kFloat64}};
    command.add_option("--dtype", flags.work.dtype)->transform(CLI::CheckedTransformer(dtypes));
    command.add_option("--count", flags.work.count, "elements")->check(CLI::Range(1U, 1U << 30U));
    command.add_option("--runs", flags.work.runs)->check(CLI::Range(1U, 10'000U));
    command.add_option("--shorts", flags.work.shorts, "short sums, and as many barriers")
        ->check(CLI::Range(0U, 100'000U));
    command.add_option("--late-rank", flags.work.late_rank, "the member that comes --late ms later");
    command.add_option("--late", flags.work.late_ms, "to each long sum")->check(CLI::Range(0U, 60'000U));
    command.add_option("--rank", flags.work.rank)->check(CLI::Range(0U, kMostMembers - 1));
    command.add_option("--size", flags.work.size)->check(CLI::Range(1U, kMostMembers));
    command.add_option("--deadline", flags.work.deadline_seconds, "seconds")->check(CLI::Range(1U, 3600U));
}

Result<std::string> run(Result<std::unique_ptr<Way>> way, const Work& work) {
    return way ? measure(work, **way) : Result<std::string>(std::move(way).error());
}

struct Commands {
    explicit Commands(Flags& flags) {
        app.require_subcommand(1);
        for (CLI::App* command : {&group, &ring, &push, &server}) {
            add_work(*command, flags);
        }
        group.add_option("--group", flags.group.group)->required();
        group.add_option("--root", flags.group.root, "host whose agent collects")->required();
        group.add_flag("--no-switch", flags.group.no_switch);
        group.add_flag("--sum32", flags.group.sum32, "floats in 32 bits");
        for (CLI::App* command : {&ring, &push, &server}) {
            command->add_option("--port", flags.peers.port);
        }
        ring.add_option("--hosts", flags.peers.hosts, "IPv4 addresses of all members, by rank")
            ->delimiter(',')
            ->required();
        push.add_option("--server", flags.peers.hosts, "its IPv4 address")->expected(1)->required();
    }

    CLI::App app{"A member of tools/bench allreduce.", "ask-bench-allreduce"};
    CLI::App& group = *app.add_subcommand("group", "a member of a group");
    CLI::App& ring = *app.add_subcommand("ring", "a ring of TCP connections");
    CLI::App& push = *app.add_subcommand("push", "a member of a parameter server");
    CLI::App& server = *app.add_subcommand("server", "the parameter server");
};

Result<std::string> run(const Commands& commands, const Flags& flags) {
    if (commands.server.parsed()) {
        return serve(flags.work, flags.peers.port);
    }
    return run(commands.group.parsed()  ? join_group(flags.work, flags.group)
               : commands.ring.parsed() ? join_ring(flags.work, flags.peers)
                                        : join_server(flags.work, flags.peers),
               flags.work);
}

int main(int argc, char** argv) {
    Flags flags;
    Commands commands(flags);
    CLI11_PARSE(commands.app, argc, argv);
    if (commands.ring.parsed() && flags.peers.hosts.size() != flags.work.size) {
        std::fprintf(stderr, "ask-bench-allreduce: --hosts names %zu members, --size says %u\n",
                     flags.peers.hosts.size(), flags.work.size);
        return 2;
    }
    const auto done = run(commands, flags);
    if (!done) {
        std::fprintf(stderr, "ask-bench-allreduce: %s\n", done.error().text().c_str());
        return static_cast<int>(done.error().code());
    }
    std::puts(done->c_str());
    return 0;
}

}  // namespace
}  // namespace ask::bench

int main(int argc, char** argv) {
    return ask::bench::main(argc, argv);
}
