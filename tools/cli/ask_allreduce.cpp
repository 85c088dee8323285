// SPDX-License-Identifier: Apache-2.0
//
// ask-allreduce: one member's vector in, the group's result out.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <utility>

#include "lib/base/standard_fds.h"
#include "lib/client/group_session.h"
#include "lib/client/local_socket.h"
#include "tools/cli/cli.h"
#include "tools/cli/output.h"
#include "tools/cli/output_file.h"
#include "tools/cli/stop_signals.h"
#include "tools/cli/to_json.h"
#include "tools/cli/token.h"

static_assert(std::endian::native == std::endian::little, "FILE and the wire are little-endian");

namespace ask::cli {
namespace {

constexpr const char* kName = "ask-allreduce";
constexpr std::uint64_t kMib = 1U << 20U;

struct Flags {
    client::GroupOptions group;
    GroupType dtype = GroupType::kInt64;
    GroupOp op = GroupOp::kSum;
    double deadline_seconds = 30;
    std::uint64_t arena_mib = 64;
    std::string token_file;
    std::string output;
    std::string json;
    std::string file = "-";
};

void add_flags(CLI::App& app, Flags& flags) {
    const std::map<std::string, GroupType> dtypes = {
        {"int8", GroupType::kInt8},     {"uint8", GroupType::kUint8},     {"int16", GroupType::kInt16},
        {"uint16", GroupType::kUint16}, {"int32", GroupType::kInt32},     {"uint32", GroupType::kUint32},
        {"int64", GroupType::kInt64},   {"uint64", GroupType::kUint64},   {"fp16", GroupType::kFloat16},
        {"bf16", GroupType::kBfloat16}, {"float32", GroupType::kFloat32}, {"float64", GroupType::kFloat64}};
    const std::map<std::string, GroupOp> ops = {
        {"sum", GroupOp::kSum}, {"prod", GroupOp::kProduct}, {"min", GroupOp::kMin},
        {"max", GroupOp::kMax}, {"and", GroupOp::kAnd},      {"or", GroupOp::kOr},
        {"xor", GroupOp::kXor}, {"sum32", GroupOp::kSum32},  {"sum16", GroupOp::kSum16}};
    app.add_option("--group", flags.group.group, "id of the group: 1 to 63 of A-Z a-z 0-9 _ -")
        ->required()
        ->type_name("ID");
    app.add_option("--rank", flags.group.rank, "of this member: 0 to N - 1, each once")
        ->required()
        ->type_name("R");
    app.add_option("--size", flags.group.size, "how many members there are, up to 64")
        ->required()
        ->type_name("N");
    app.add_option("--root", flags.group.root, "host whose agent collects: a name or an address")
        ->required()
        ->type_name("HOST[:PORT]");
    app.add_option(
           "--dtype", flags.dtype,
           "of the values: int8 to int64, uint8 to uint64, fp16, bf16, float32, float64 (default int64)")
        ->transform(CLI::CheckedTransformer(dtypes).description(""))
        ->type_name("T");
    app.add_option("--op", flags.op,
                   "sum, prod, min, max, and, or, xor; sum32, sum16: of floats, in fewer bits (default sum)")
        ->transform(CLI::CheckedTransformer(ops).description(""))
        ->type_name("OP");
    app.add_option("--deadline", flags.deadline_seconds,
                   "fail when not all have joined, or nothing moves on, for this long")
        ->check(CLI::Range(0.001, 86'400.0))
        ->type_name("SECONDS")
        ->capture_default_str();
    app.add_option("--arena", flags.arena_mib, "MiB shared with the agent: at least twice what FILE has")
        ->check(CLI::Range(1U, 65'536U))
        ->type_name("MIB")
        ->capture_default_str();
    app.add_flag("--no-switch", flags.group.no_switch, "through the root's agent alone");
    app.add_option("--output", flags.output, "the result, once it is whole (default: standard output)")
        ->type_name("FILE");
    app.add_option("--json", flags.json, "write what it took to this file, as JSON")->type_name("FILE");
    app.add_option("--token-file", flags.token_file, "file with what all members show (default: $ASK_TOKEN)")
        ->type_name("FILE");
    app.add_option("--agent", flags.group.agent,
                   "socket of this host's agent (default: $ASK_AGENT, else /run/ask/agent.sock)")
        ->type_name("PATH");
    app.add_option("FILE", flags.file,
                   "values, raw and little-endian; - is standard input, which is also the default");
    app.footer("Every member gets the same bytes. Exit codes and more: docs/commands.md.");
}

Error with_name(int err, const std::string& name) {
    Error error = Error::from_errno(err, name);
    return err == ENOENT || err == EISDIR ? Error(Errc::kInput, error.text()) : std::move(error);
}

// All of the file; kLimit if it is more than `most`.
Result<std::string> read_values(const std::string& file, std::uint64_t most, int stop_fd) {
    const std::string name = file == "-" ? "(standard input)" : file;
    UniqueFd owned;
    int fd = STDIN_FILENO;
    if (file != "-") {
        owned.reset(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
        if (!owned) {
            return with_name(errno, name);
        }
        fd = owned.get();
    }
    std::string values;
    for (;;) {
        const auto ready = wait_fd(fd, POLLIN, Milliseconds(3'600'000), stop_fd);
        ASK_TRY(ready, name);
        if (!*ready) {
            continue;
        }
        const std::size_t had = values.size();
        values.resize(had + kMib);
        const ssize_t got = ::read(fd, values.data() + had, kMib);
        if (got < 0 && errno != EINTR && errno != EAGAIN) {
            return with_name(errno, name);
        }
        values.resize(had + static_cast<std::size_t>(got > 0 ? got : 0));
        if (values.size() > most) {
            return Error(Errc::kLimit, name + ": more than " + std::to_string(most) +
                                           " bytes, which is half of --arena: input and result lie in it");
        }
        if (got == 0) {
            return values;
        }
    }
}

struct Done {
    std::string values;
    double seconds = 0;
    std::string note;
};

Result<Done> reduce(const Flags& flags, std::string values, client::GroupSession& session) {
    GroupDescriptor descriptor;
    const std::uint64_t half = session.arena().size() / 2 / kGroupAlignment * kGroupAlignment;
    descriptor.kind = GroupKind::kAllreduce;
    descriptor.type = flags.dtype;
    descriptor.op = flags.op;
    descriptor.out = half;
    descriptor.count = values.size() / group_type_bytes(flags.dtype);
    values.copy(reinterpret_cast<char*>(session.arena().data()), values.size());
    const auto began = std::chrono::steady_clock::now();
    const auto number = session.submit(descriptor);
    ASK_PASS(number);
    ASK_PASS(session.wait(*number));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    values.assign(reinterpret_cast<const char*>(session.arena().data() + half), values.size());
    ASK_PASS(session.close());
    return Done{std::move(values), took.count(), session.note()};
}

Result<Done> run_group(Flags flags, int stop_fd) {
    auto token = read_token(flags.token_file);
    ASK_PASS(token);
    flags.group.token = *std::move(token);
    flags.group.deadline =
        std::chrono::milliseconds(static_cast<std::int64_t>(flags.deadline_seconds * 1000));
    flags.group.arena_bytes = flags.arena_mib * kMib;
    flags.group.cancel_fd = stop_fd;
    auto values = read_values(flags.file, flags.group.arena_bytes / 2, stop_fd);
    ASK_PASS(values);
    if (values->size() % group_type_bytes(flags.dtype) != 0) {
        return Error(Errc::kInput, (flags.file == "-" ? "(standard input)" : flags.file) + ": " +
                                       std::to_string(values->size()) +
                                       " bytes are no whole number of values of " +
                                       std::to_string(group_type_bytes(flags.dtype)));
    }
    auto session = client::GroupSession::open(flags.group);
    ASK_PASS(session);
    return reduce(flags, *std::move(values), *session);
}

int run(const Flags& flags) {
    auto signals = StopSignals::block();
    if (!signals) {
        return fail(kName, signals.error());
    }
    auto json = OutputFile::create("statistics file", flags.json);
    auto output = OutputFile::create("output file", flags.output);
    if (!json || !output) {
        return fail(kName, json ? output.error() : json.error());
    }
    const auto done = run_group(flags, signals->fd());
    if (!done && signals->raised()) {
        std::fprintf(stderr, "%s: interrupted: group %s has failed\n", kName, flags.group.group.c_str());
        return kExitInterrupted;
    }
    if (!done) {
        return fail(kName, done.error());
    }
    const auto written =
        flags.output.empty() ? write_all(STDOUT_FILENO, done->values) : output->write(done->values);
    if (!written) {
        return fail(kName, written.error());
    }
    const Json report = {{"group", flags.group.group},
                         {"rank", flags.group.rank},
                         {"size", flags.group.size},
                         {"values", done->values.size() / group_type_bytes(flags.dtype)},
                         {"bytes", done->values.size()},
                         {"seconds", done->seconds},
                         {"note", done->note}};
    if (auto told = json->write(report.dump() + "\n"); !told) {
        return fail(kName, told.error());
    }
    return 0;
}

}  // namespace
}  // namespace ask::cli

int main(int argc, char** argv) {
    ask::open_standard_fds();
    CLI::App app("Reduces a vector with those of the other members of a group; all get the result.",
                 ask::cli::kName);
    ask::cli::Flags flags;
    ask::cli::add_flags(app, flags);
    if (const int code = ask::cli::parse(app, argc, argv); code >= 0) {
        return code;
    }
    return ask::cli::run(flags);
}
