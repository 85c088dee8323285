// SPDX-License-Identifier: Apache-2.0
//
// What the runs of jobs and scales need beside the product; one subcommand each.
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/job/job.h"

namespace {

int report(const ask::Result<>& done) {
    if (done) {
        return 0;
    }
    std::fprintf(stderr, "ask-bench-job: %s\n", done.error().text().c_str());
    return static_cast<int>(done.error().code());
}

}  // namespace

int main(int argc, char** argv) {
    ask::bench::Generation generation;
    ask::bench::TcpSend send;
    ask::bench::TcpReceive receive;
    std::string out;
    std::vector<std::string> command;
    std::vector<std::string> tallies;
    CLI::App app("Parts of tools/bench job that are not the product.", "ask-bench-job");
    app.require_subcommand(1);

    CLI::App* generator = app.add_subcommand("generate", "keys, a line each");
    generator->add_option("--keys", generation.keys)->check(CLI::Range(1U, 1U << 30U));
    generator->add_option("--tuples", generation.tuples)->required();
    generator->add_flag("--zipf", generation.zipf);
    generator->add_option("--exponent", generation.exponent, "of Zipf's law")->check(CLI::Range(0.1, 4.0));
    generator->add_option("--seed", generation.seed);
    const std::map<std::string, ask::bench::Form> forms = {{"number", ask::bench::Form::kNumber},
                                                           {"address", ask::bench::Form::kAddress},
                                                           {"path", ask::bench::Form::kPath}};
    generator->add_option("--form", generation.form, "what keys look like: number, address or path")
        ->transform(CLI::CheckedTransformer(forms));
    generator->add_option("--base", generation.base, "of numbers")->check(CLI::Range(2, 36));
    generator->add_option("--tally", generation.tally);

    CLI::App* checker =
        app.add_subcommand("check", "whether an answer on standard input is the tallies' sum");
    checker->add_option("--keys", generation.keys)->check(CLI::Range(1U, 1U << 30U));
    checker->add_option("TALLY", tallies)->required();

    CLI::App* sender = app.add_subcommand("send", "a file of lines, by TCP");
    sender->add_flag("--combine", send.combine, "count first, and send each key with its count once");
    sender->add_option("--to", send.host)->required();
    sender->add_option("--port", send.port)->required();
    sender->add_option("FILE", send.file)->required();

    CLI::App* receiver = app.add_subcommand("receive", "lines by TCP into a hash table");
    receiver->add_flag("--combined", receive.combined, "of senders with --combine");
    receiver->add_option("--port", receive.port)->required();
    receiver->add_option("--senders", receive.senders)->check(CLI::Range(1, 1024));

    CLI::App* stopwatch = app.add_subcommand("measure", "wall and CPU time of a command");
    stopwatch->add_option("--time", out)->required();
    stopwatch->add_option("COMMAND", command)->required();
    stopwatch->positionals_at_end();

    CLI11_PARSE(app, argc, argv);
    if (generator->parsed()) {
        return report(ask::bench::generate(generation));
    }
    if (checker->parsed()) {
        return report(ask::bench::check_counts(generation, tallies));
    }
    if (sender->parsed()) {
        return report(ask::bench::tcp_send(send));
    }
    if (receiver->parsed()) {
        return report(ask::bench::tcp_receive(receive));
    }
    const auto code = ask::bench::measure(out, command);
    return code ? *code : report(code.error());
}
